"""The application that commands are added to, and what several of them read, take and print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from hf_sgpe import __version__
from hf_sgpe.errors import SGPEError
from hf_sgpe.normalization import normalize

app = typer.Typer(
    name="hf-sgpe",
    help="Train, use and measure tokenizers that keep written syllables whole.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Number = TypeVar("Number", int, float)

TOKENIZER_HELP = "Folder, tokenizer.json or Hub repository."


class Table(str, Enum):
    table = "table"
    json = "json"


def _version(value: bool) -> None:
    if value:
        print(f"hf-sgpe {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def named_numbers(given: list[str], option: str, form: str, number: Callable[[str], Number]) -> dict[str, Number]:
    """The names and numbers of options such as ``--weight si.txt=2``.

    Raises:
        SGPEError: one is of another form, or a name comes twice.
    """
    numbers: dict[str, Number] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        if name in numbers:
            raise SGPEError(f"{option} {text!r}: {name!r} has a number already")
        try:
            numbers[name] = number(value if name else "")
        except ValueError:
            raise SGPEError(f"{option} {text!r}: write {form}") from None
    return numbers


def read_chat_template(name: str, option: str = "--chat-template") -> str:
    """What an option names: a template of ours, or the content of a file."""
    from hf_sgpe.chat.templates import SPECIAL_TOKENS, check_template

    if name in SPECIAL_TOKENS:
        return name
    try:
        template = Path(name).read_text(encoding="utf-8")
        check_template(template)
    except FileNotFoundError:
        raise SGPEError(f"{option} {name}: no such file, and not one of {', '.join(SPECIAL_TOKENS)}") from None
    except UnicodeDecodeError:
        raise SGPEError(f"{option} {name}: not UTF-8") from None
    except SGPEError as error:
        raise SGPEError(f"{option} {name}: {error}") from None
    return template


def well_formed(texts: list[str]) -> list[str]:
    for number, text in enumerate(texts, 1):
        if normalize(text, "none") != text:
            raise SGPEError(f"text {number} is not valid in this locale's encoding: set a UTF-8 locale, or use stdin")
    return texts


def stdin_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise SGPEError("there is no stdin to read from: give the input as arguments")
    if sys.stdin.isatty():
        print("reading lines from the terminal; end with Ctrl-D", file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise SGPEError(f"stdin, line {number}: not UTF-8 (byte {error.start} of the line)") from None


def print_table(table: Any) -> None:
    from rich.console import Console

    # Piped, there is no width to fit: whoever reads it wants whole lines.
    Console(width=None if sys.stdout.isatty() else 1000, highlight=False, markup=False).print(table)
