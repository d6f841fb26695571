"""Counting words to train on: ``count``, ``counts add`` and ``counts info``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hf_sgpe.cli import shared_options
from hf_sgpe.cli.application import Command, Group, Json, Quiet, app, command, print_json, read_chat_template, report
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.scripts.script_registry import names_of

counts = typer.Typer(
    cls=Group, help="Add up and describe files of counted words.", no_args_is_help=True, rich_markup_mode=None
)


@command(epilog="Example: hf-sgpe count corpora/si.txt.xz --out si.parquet --script all --memory-limit 8GB")
def count(
    corpus: shared_options.Corpus = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (Parquet).", show_default=False)],
    overwrite: shared_options.Overwrite = False,
    recipe: shared_options.Recipe = "hybrid",
    script: shared_options.Script = None,
    pattern: shared_options.Pattern = "o200k",
    normalization: shared_options.Normalization = None,
    special_token: shared_options.SpecialToken = None,
    chat_template: shared_options.ChatTemplate = None,
    text_field: shared_options.TextField = "text",
    dataset: shared_options.Dataset = None,
    split: shared_options.Split = None,
    streaming: shared_options.Streaming = False,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Memory to take at the most, such as 500MB or 8GB; what has no room goes to disk, beside --out "
            "(default: half of what is free).",
            show_default=False,
        ),
    ] = None,
    workers: shared_options.Workers = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Count the words of text into a file to train on by train --counts, in bounded memory.

    How words are cut must be the same as for training: give the same recipe, scripts, pattern, normalization and special
    tokens. Count each language into a file of its own: weights apply when a tokenizer is trained.
    """
    from hf_sgpe.chat.templates import SPECIAL_TOKENS
    from hf_sgpe.cli.corpus_arguments import corpus_of
    from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
    from hf_sgpe.files.atomic import check_file
    from hf_sgpe.files.overwriting import check_new_file
    from hf_sgpe.splitting.splitting import Splitting
    from hf_sgpe.vocabulary.special_tokens import check_special_tokens
    from trainers import count_to_file
    from trainers.tokenizers.recipes import find_scripts

    if not corpus and not dataset:
        raise SGPEError("nothing to count: give text, or a dataset by --dataset")
    text = corpus_of(corpus, dataset, split, streaming, text_field)
    warn_of_zawgyi(text)
    given = find_scripts(text, script or (), recipe)
    if special_token is not None:
        given["special_tokens"] = special_token
    splitting = Splitting(recipe=recipe, pattern=pattern, normalization=normalization, **given)
    if chat_template:
        extra = SPECIAL_TOKENS.get(read_chat_template(chat_template), ())
        splitting = replace(splitting, special_tokens=tuple({*(splitting.special_tokens or ()), *extra}))
    check_special_tokens(splitting.special_tokens or (), splitting.normalization or "none")
    check_file(out)
    text.check_apart_from(out)
    check_new_file(out, overwrite=overwrite)
    room = None if memory_limit is None else _bytes(memory_limit)
    info = count_to_file(text, out, splitting, memory_limit=room, workers=workers)
    whole = "" if not splitting.scripts else f"\nsyllables of {names_of(splitting.scripts)} stay whole"
    report(f"{out}: {info.summary()}{whole}", {"out": str(out), **info.to_dict()}, as_json)


@counts.command(cls=Command, epilog="Example: hf-sgpe counts add monday.parquet tuesday.parquet --out both.parquet")
def add(
    files: Annotated[list[Path], typer.Argument(help="Files of counts.", show_default=False)],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.", show_default=False)],
    overwrite: shared_options.Overwrite = False,
    min_count: Annotated[
        int, typer.Option(help="Leave out words that occur less often in all files together; says what that can change.")
    ] = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add files of counts up into one, in little memory. Counts of different settings are refused."""
    from hf_sgpe.files.overwriting import check_new_file
    from trainers import add_files

    check_new_file(out, overwrite=overwrite)
    info = add_files(files, out, min_count=min_count)
    report(f"{out}: {info.summary()}", {"out": str(out), **info.to_dict()}, as_json)


@counts.command(cls=Command, epilog="Example: hf-sgpe counts info si.parquet")
def info(
    file: Annotated[Path, typer.Argument(help="File of counts.", show_default=False)],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a file of counts holds and how its words were cut."""
    from hf_sgpe.counts.count_files import read_info

    holds = read_info(file)
    if as_json:
        print_json(holds.to_dict())
        return
    facts = {
        "file": str(file),
        "words": f"{holds.total:,} ({holds.distinct:,} distinct)",
        "SHA-256": holds.digest,
        **{name.replace("_", " "): value for name, value in holds.splitting.to_dict().items() if name != "patterns"},
        "versions": holds.versions,
    }
    width = max(map(len, (*facts, "dropped", "sources")))
    for name, value in facts.items():
        print(f"{name:{width}}  {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    if holds.dropped:
        print(f"{'dropped':{width}}  {holds.loss()}")
    for number, source in enumerate(holds.sources):
        print(f"{'' if number else 'sources':{width}}  {', '.join(map(str, source.values()))}")


app.add_typer(counts, name="counts")


def _bytes(text: str) -> int:
    """A size as people write it.

    >>> _bytes("500MB"), _bytes("1.5 GiB")
    (500000000, 1610612736)
    """
    size = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGT])(i?)B?", text.strip())
    if size is None:
        raise SGPEError(f"--memory-limit {text!r}: write a number and a unit, such as 500MB or 8GB")
    number, unit, is_binary = size.groups()
    return int(float(number) * (1024 if is_binary else 1000) ** " kMGT".index(unit.replace("K", "k")))
