"""Using tokenizers: ``encode``, ``decode`` and ``info``."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_sgpe import __version__, kernel
from hf_sgpe.cli.app import TOKENIZER_HELP, Table, app, stdin_lines, well_formed
from hf_sgpe.errors import SGPEError
from hf_sgpe.pretokenizers.patterns import SPLIT_PATTERNS


class Specials(str, Enum):
    none = "none"
    all = "all"


class Lines(str, Enum):
    ids = "ids"
    json = "json"


@app.command(epilog="Example: [bold]echo 'ශ්‍රී ලංකාව' | hf-sgpe encode --tokenizer my-tokenizer[/bold]")
def encode(
    text: Annotated[
        list[str] | None, typer.Argument(help="Texts; none to read lines from stdin.", show_default=False)
    ] = None,
    *,
    tokenizer: Annotated[
        list[str],
        typer.Option("--tokenizer", "-t", help=f"{TOKENIZER_HELP} Repeatable with --html.", show_default=False),
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write a page to this file instead that shows the tokens and syllables of the texts; stdin is one text.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Lines, typer.Option("--format", help="ids: numbers with spaces between; json: text, ids and tokens.")
    ] = Lines.ids,
    special: Annotated[
        Specials, typer.Option(help="Whether special tokens written in the text count as such.")
    ] = Specials.none,
    add_special_tokens: Annotated[
        bool, typer.Option("--add-special-tokens", help="Put the tokenizer's template around each text.")
    ] = False,
) -> None:
    """Turn text into token ids, one line of ids for each line of text."""
    from hf_sgpe.model import BPETokenizer

    if html:
        if output is not Lines.ids or special is not Specials.none or add_special_tokens:
            raise SGPEError("--html shows the text's own tokens: leave out --format, --special and --add-special-tokens")
        _write_page(html, text, tokenizer)
        return
    if len(tokenizer) > 1:
        raise SGPEError("--tokenizer is given several times: only --html shows several")
    loaded = BPETokenizer.from_pretrained(tokenizer[0])
    for line in well_formed(text) if text else stdin_lines():
        ids = loaded.encode(line, add_special_tokens=add_special_tokens, allowed_special=special.value)
        if output is Lines.ids:
            print(*ids)
        else:
            tokens = [loaded.decode([id]) for id in ids]
            print(json.dumps({"text": line, "ids": ids, "tokens": tokens}, ensure_ascii=False))


def _write_page(path: Path, texts: list[str] | None, tokenizers: list[str]) -> None:
    from hf_sgpe.atomic import atomic_file
    from hub_cards.token_view import TokenView

    with atomic_file(path) as temporary:
        readers = {name: name for name in tokenizers}
        view = TokenView(well_formed(texts) if texts else "\n".join(stdin_lines()), readers)
        temporary.write_text(view.to_html(), encoding="utf-8", newline="\n")
    print(f"{path}: {len(view.texts):,} {'text' if len(view.texts) == 1 else 'texts'} as tokens of {', '.join(readers)}")


@app.command(epilog="Example: [bold]echo 'hello' | hf-sgpe encode -t my-tokenizer | hf-sgpe decode -t my-tokenizer[/bold]")
def decode(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Token ids; none to read lines from stdin.", show_default=False)
    ] = None,
    *,
    tokenizer: Annotated[str, typer.Option("--tokenizer", "-t", help=TOKENIZER_HELP, show_default=False)],
    skip_special_tokens: Annotated[bool, typer.Option("--skip-special-tokens", help="Leave special tokens out.")] = False,
) -> None:
    """Turn token ids into text. A line is ids with spaces or commas between, a JSON list, or a JSON object with "ids"."""
    from hf_sgpe.model import BPETokenizer

    loaded = BPETokenizer.from_pretrained(tokenizer)
    for number, line in enumerate([" ".join(ids)] if ids else stdin_lines(), 1):
        try:
            print(loaded.decode(_parse_ids(line), skip_special_tokens))
        except SGPEError as error:
            raise SGPEError(f"{'arguments' if ids else f'stdin, line {number}'}: {error}") from None


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


@app.command(epilog="Example: [bold]hf-sgpe info my-tokenizer[/bold]")
def info(
    tokenizer: Annotated[str | None, typer.Argument(help=TOKENIZER_HELP, show_default=False)] = None,
    output: Annotated[Table, typer.Option("--format", help="table or json.")] = Table.table,
) -> None:
    """Show what a tokenizer is made of and how it was trained; without one, versions."""
    facts = _versions() if tokenizer is None else _facts(tokenizer)
    if output is Table.json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        print(f"{name:{width}}  {shown}")


def _versions() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    facts = {"hf-sgpe": __version__, "kernel": kernel.describe(), "python": sys.version.split()[0]}
    for package in ("tokenizers", "transformers", "huggingface_hub", "regex", "numpy"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = f"not installed: pip install {package}"
    return facts


def _facts(tokenizer: str) -> dict[str, Any]:
    from hf_sgpe.model import BPETokenizer

    loaded = BPETokenizer.from_pretrained(tokenizer)
    facts = {
        "tokenizer": tokenizer,
        "tokens": loaded.vocab_size,
        "merges": len(loaded.merges),
        "special tokens": loaded.special_tokens,
        "normalization": loaded.normalization,
    }
    if "training" in loaded.metadata:
        # The rest of the training configuration repeats what is said above.
        shown = ("recipe", "scripts", "pattern", "min_frequency", "letter_coverage", "syllable_coverage", "tie_break")
        training = loaded.metadata["training"]
        facts |= {name.replace("_", " "): training[name] for name in shown if name in training}
        if training.get("weights"):
            facts["weights"] = training["weights"]
        facts["word counts"] = loaded.metadata.get("word_counts", "unknown")
    else:
        named = {pattern: name for name, pattern in reversed(SPLIT_PATTERNS.items())}
        facts["pattern"] = [named.get(pattern, pattern) for pattern in loaded.pre_tokenizer.patterns]
    return facts
