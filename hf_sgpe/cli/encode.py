"""Using tokenizers: ``encode``, ``decode`` and ``info``."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_sgpe import kernels
from hf_sgpe.cli import shared_options
from hf_sgpe.cli.application import (
    SEVERAL,
    Baseline,
    Json,
    OlderTokenizers,
    Quiet,
    Tokenizer,
    command,
    named_tokenizers,
    print_json,
    report,
    stdin_lines,
    tokenizer_and_rest,
    well_formed,
)
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import why_not_text
from hf_sgpe.package import __version__
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS


class Specials(str, Enum):
    none = "none"
    all = "all"


@command(epilog="Example: echo 'ශ්‍රී ලංකාව' | hf-sgpe encode my-tokenizer")
def encode(
    tokenizer: Tokenizer = None,
    text: Annotated[
        list[str] | None, typer.Argument(help="Texts; none to read lines from stdin.", show_default=False)
    ] = None,
    *,
    older: OlderTokenizers = None,
    older_text: Annotated[str | None, typer.Option("--text", hidden=True)] = None,
    file: Annotated[Path | None, typer.Option(help="Encode this file in UTF-8, as one text.", show_default=False)] = None,
    show_tokens: Annotated[
        bool, typer.Option("--show-tokens", help="Put the tokens, as the vocabulary writes them, in a line below the ids.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write a page to this file instead that shows the tokens and syllables of the texts; stdin is one text.",
            show_default=False,
        ),
    ] = None,
    overwrite: shared_options.Overwrite = False,
    baseline: Baseline = None,
    special: Annotated[
        Specials, typer.Option(help="Whether special tokens written in the text count as such.")
    ] = Specials.none,
    add_special_tokens: Annotated[
        bool, typer.Option("--add-special-tokens", help="Put the tokenizer's template around each text.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn text into token ids, one line of ids for each line of text; with --json its text, ids and tokens.

    --baseline is for --html, and shows the tokens of other tokenizers below.
    """
    from hf_sgpe.files.overwriting import check_new_file
    from hf_sgpe.tokenizer import BPETokenizer

    name, texts, others = tokenizer_and_rest(tokenizer, text, older)
    texts += [] if older_text is None else [older_text]
    if file and (texts or html):
        raise SGPEError("--file: the file is the text: leave out --html and other texts")
    if html:
        if special is not Specials.none or add_special_tokens:
            raise SGPEError("--html shows the text's own tokens: leave out --special and --add-special-tokens")
        check_new_file(html, overwrite=overwrite)
        _write_page(html, texts, named_tokenizers((name, *others), baseline), as_json)
        return
    if others or baseline:
        raise SGPEError("one tokenizer at a time: only --html shows several")
    loaded = BPETokenizer.from_pretrained(name)
    for line in [_text_of(file)] if file else well_formed(texts) if texts else stdin_lines():
        ids = loaded.encode(line, add_special_tokens=add_special_tokens, allowed_special=special.value)
        if as_json:
            tokens = [loaded.decode([id]) for id in ids]
            print(json.dumps({"text": line, "ids": ids, "tokens": tokens}, ensure_ascii=False))
        else:
            print(*ids)
            if show_tokens:
                print(json.dumps(loaded.convert_ids_to_tokens(ids), ensure_ascii=False))


def _text_of(file: Path) -> str:
    """Return the text of a file, with its own line ends."""
    content = file.read_bytes()
    if reason := why_not_text(content):
        raise SGPEError(f"{file}: {reason}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SGPEError(f"{file}: not UTF-8 at byte offset {error.start}") from None


def _write_page(path: Path, texts: list[str], tokenizers: dict[str, str], as_json: bool) -> None:
    from hf_sgpe.files.atomic import atomic_file
    from hub_cards.token_views.token_view import TokenView

    with atomic_file(path) as temporary:
        view = TokenView(well_formed(texts) if texts else "\n".join(stdin_lines()), tokenizers)
        temporary.write_text(view.to_html(), encoding="utf-8", newline="\n")
    count = len(view.texts)
    report(
        f"{path}: {count:,} {'text' if count == 1 else 'texts'} as tokens of {', '.join(tokenizers)}",
        {"out": str(path), "texts": count, "tokenizers": list(tokenizers)},
        as_json,
    )


@command(epilog="Example: echo 'hello' | hf-sgpe encode my-tokenizer | hf-sgpe decode my-tokenizer")
def decode(
    tokenizer: Tokenizer = None,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Token ids; none to read lines from stdin.", show_default=False)
    ] = None,
    *,
    older: OlderTokenizers = None,
    older_ids: Annotated[list[str] | None, typer.Option("--ids", hidden=True, metavar=SEVERAL)] = None,
    skip_special_tokens: Annotated[bool, typer.Option("--skip-special-tokens", help="Leave special tokens out.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn token ids into text. A line is ids with spaces or commas between, a JSON list, or a JSON object with "ids".

    With --json each line of the output is an object with "ids" and "text".
    """
    from hf_sgpe.tokenizer import BPETokenizer

    name, given, others = tokenizer_and_rest(tokenizer, ids, older)
    given += older_ids or ()
    if others:
        raise SGPEError("--tokenizer is given several times: decode takes one")
    loaded = BPETokenizer.from_pretrained(name)
    for number, line in enumerate([" ".join(given)] if given else stdin_lines(), 1):
        try:
            parsed = _parse_ids(line)
            text = loaded.decode(parsed, skip_special_tokens)
        except SGPEError as error:
            raise SGPEError(f"{'arguments' if given else f'stdin, line {number}'}: {error}") from None
        print(json.dumps({"ids": parsed, "text": text}, ensure_ascii=False) if as_json else text)


def _parse_ids(line: str) -> list[int]:
    try:
        if line.lstrip().startswith(("[", "{")):
            value = json.loads(line)
            ids = value["ids"] if isinstance(value, dict) else value
            if not all(type(id) is int for id in ids):
                raise ValueError
            return list(ids)
        parts = line.replace(",", " ").split()
        if not all(part.lstrip("-").isdecimal() for part in parts):
            raise ValueError
        return [int(part) for part in parts]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SGPEError("expected token ids such as '12 345', a JSON list or an object with ids") from None


@command(epilog="Example: hf-sgpe info my-tokenizer")
def info(
    tokenizer: Tokenizer = None,
    *,
    older: OlderTokenizers = None,
    sample_text: Annotated[
        str | None, typer.Option(help="Show the tokens of this text, too, and whether it comes back.", show_default=False)
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a tokenizer is made of and how it was trained; without one, versions and scripts."""
    names = [*([] if tokenizer is None else [tokenizer]), *(older or ())]
    if len(names) > 1:
        raise SGPEError("one tokenizer at a time")
    if sample_text is not None and not names:
        raise SGPEError("--sample-text is for a tokenizer: name one: a folder, a tokenizer.json or a Hub repository")
    facts = _facts(names[0], sample_text) if names else _versions()
    if as_json:
        print_json(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        print(f"{name:{width}}  {shown}")


def _versions() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    facts = {"hf-sgpe": __version__, "kernel": kernels.describe(), "python": sys.version.split()[0]}
    for package in ("tokenizers", "transformers", "huggingface_hub", "regex", "numpy"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = f"not installed: pip install {package}"
    return facts | {"scripts": list(SCRIPTS)}


def _facts(tokenizer: str, sample_text: str | None) -> dict[str, Any]:
    from hf_sgpe.tokenizer import BPETokenizer

    loaded = BPETokenizer.from_pretrained(tokenizer)
    facts: dict[str, Any] = {
        "tokenizer": tokenizer,
        "tokens": loaded.vocab_size,
        "merges": len(loaded.merges),
        "special tokens": loaded.special_tokens,
        **({"added tokens": loaded.added_tokens} if loaded.added_tokens else {}),
        "roles": loaded.roles,
        "model max length": loaded.model_max_length or "any",
        "normalization": loaded.normalization,
    }
    splitting, training = loaded.splitting, loaded.metadata.get("training", {})
    # In splitting, portable is bpe, whose words it has.
    recipe = "portable" if training.get("recipe") == "portable" and splitting.recipe == "bpe" else splitting.recipe
    scripts = list(training.get("scripts", ())) if recipe == "portable" else list(splitting.scripts)
    facts |= {"recipe": recipe, "scripts": scripts}
    facts |= {"pattern": splitting.pattern} if splitting.pattern else {}
    coverages = ("min_unit_frequency",) if training.get("min_unit_frequency") else ("letter_coverage", "syllable_coverage")
    # The rest of the configuration repeats the facts above.
    shown = ("min_frequency", *(("cut_cost", *coverages) if scripts else ()), "tie_break", "weights")
    facts |= {name.replace("_", " "): training[name] for name in shown if training.get(name) not in (None, {})}
    if "balance" in loaded.metadata:
        facts["balance"] = loaded.metadata["balance"]
    if training:
        facts["word counts"] = loaded.metadata.get("word_counts", "unknown")
    for number, note in enumerate(loaded.metadata.get("extensions", ()), 1):
        facts["extended from" if number == 1 else f"extended again ({number})"] = {
            name: note[name] for name in ("base", "scripts", "new_tokens", "word_counts") if name in note
        }
    if sample_text is not None:
        ids = loaded.encode(*well_formed([sample_text]))
        facts |= {"sample text": sample_text, "sample ids": ids, "sample tokens": loaded.convert_ids_to_tokens(ids)}
        facts["sample comes back"] = loaded.decode(ids) == sample_text
    return facts
