"""The application that commands are added to, and what several of them read, take and print.

All commands keep to these: what the command is about, a tokenizer or a model or text to train on, comes first and without an
option's name, and further tokenizers by ``--baseline``; ``--json`` prints what the command has to say for programs;
``--quiet`` leaves nothing but results and errors. Spellings of earlier versions are still understood.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from hf_sgpe.cli.help_text import PlainHelp
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import read_utf8, why_not_text
from hf_sgpe.package import __version__
from hf_sgpe.splitting import normalization
from hf_sgpe.terminal.progress import be_quiet, is_quiet, somebody_watches


class Group(PlainHelp, TyperGroup):
    """A group of commands."""


app = typer.Typer(
    cls=Group,
    name="hf-sgpe",
    help="Train, use and measure tokenizers that keep written syllables whole.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Number = TypeVar("Number", int, float)

TOKENIZER_HELP = "Folder, tokenizer.json or Hub repository."

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=be_quiet, help="No progress and no remarks; results and errors only.")
]
Baseline = Annotated[
    list[str] | None,
    typer.Option(help="Another tokenizer beside it: TOKENIZER or NAME=TOKENIZER (repeatable).", show_default=False),
]
Tokenizer = Annotated[str | None, typer.Argument(help=TOKENIZER_HELP, show_default=False)]
OlderTokenizers = Annotated[list[str] | None, typer.Option("--tokenizer", "-t", hidden=True)]


SEVERAL = "FILE..."
"""Metavar of options that take all the values up to the next option, as a shell writes them for a glob."""


class Command(PlainHelp, TyperCommand):
    """A command that also understands ``--format json`` for ``--json``, as earlier versions wrote it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not any("--format" in option.opts for option in self.params):
            args = list(_without_format(args))
        args = list(
            _one_value_each(args, {name for option in self.params if option.metavar == SEVERAL for name in option.opts})
        )
        rest: list[str] = super().parse_args(ctx, args)
        return rest


def _without_format(arguments: list[str]) -> Iterator[str]:
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            yield argument
            yield from remaining
        elif argument == "--format" or argument.startswith("--format="):
            form = argument.partition("=")[2] or next(remaining, "")
            if form not in ("json", "table", "ids"):
                raise SGPEError(f"--format {form}: there is no such form: write --json for JSON, or nothing")
            if form == "json":
                yield "--json"
        else:
            yield argument


def _one_value_each(arguments: list[str], names: set[str]) -> Iterator[str]:
    """Repeats each of the options before each of its values, as Typer wants them."""
    option = ""
    for place, argument in enumerate(arguments):
        if argument == "--":
            yield from arguments[place:]
            return
        if option and not argument.startswith("-"):
            # The first value has the option in front of it already.
            yield from (argument,) if arguments[place - 1] == option else (option, argument)
        else:
            option = argument if argument in names else ""
            if option and (place + 1 == len(arguments) or arguments[place + 1].startswith("-")):
                raise SGPEError(f"{option} needs names of files: held-out text of each language")
            yield argument


command = partial(app.command, cls=Command)
"""Adds a command to the application."""


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


def tokenizer_and_rest(
    tokenizer: str | None, rest: list[str] | None, older: list[str] | None
) -> tuple[str, list[str], list[str]]:
    """The tokenizer that a command is about, the rest of its arguments, and further tokenizers.

    Args:
        tokenizer: The first argument, which names it.
        rest: The others.
        older: The tokenizers, where they are given by ``--tokenizer`` as in earlier versions; all arguments are the rest.
    """
    rest = rest or []
    if older:
        return older[0], rest if tokenizer is None else [tokenizer, *rest], older[1:]
    if tokenizer is None:
        raise SGPEError("name the tokenizer first: a folder, a tokenizer.json or a Hub repository: see --help")
    return tokenizer, rest, []


def named_tokenizers(first: Iterable[str], given: list[str] | None, option: str = "--baseline") -> dict[str, str]:
    """Name → tokenizer: the first ones, which are called as they are written, and those of ``--baseline llama3=llama3-hf``.

    Raises:
        SGPEError: a part is empty, or a name comes twice.
    """
    tokenizers = {name: name for name in first}
    for text in given or ():
        # A path may have an equals sign, too.
        name, equals, tokenizer = (text, "", "") if Path(text).exists() else text.partition("=")
        if not name or (equals and not tokenizer):
            raise SGPEError(f"{option} {text!r}: write TOKENIZER or NAME=TOKENIZER")
        if name in tokenizers:
            raise SGPEError(f"{option} {text!r}: two tokenizers are called {name}: write NAME=TOKENIZER with another name")
        tokenizers[name] = tokenizer or name
    return tokenizers


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
        template = read_utf8(Path(name))
    except FileNotFoundError:
        raise SGPEError(f"{option} {name}: no such file, and not one of {', '.join(SPECIAL_TOKENS)}") from None
    except SGPEError as error:
        raise SGPEError(f"{option} {error}") from None
    try:
        check_template(template)
    except SGPEError as error:
        raise SGPEError(f"{option} {name}: {error}") from None
    return template


def well_formed(texts: list[str]) -> list[str]:
    for number, text in enumerate(texts, 1):
        if normalization.well_formed(text) != text:
            raise SGPEError(f"text {number} is not valid in this locale's encoding: set a UTF-8 locale, or use stdin")
    return texts


def stdin_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise SGPEError("there is no stdin to read from: give the input as arguments")
    if sys.stdin.isatty() and somebody_watches():
        print("reading lines from the terminal; end with Ctrl-D", file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            if number == 1 and (reason := why_not_text(line)):
                raise SGPEError(f"stdin: {reason}") from None
            raise SGPEError(f"stdin, line {number}: not UTF-8 (byte {error.start} of the line)") from None


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def report(sentence: str, facts: Mapping[str, Any], as_json: bool, *, is_asked_for: bool = False) -> None:
    """Says what a command has done: in a sentence, with ``--json`` as JSON, and with ``--quiet`` alone not at all.

    Args:
        is_asked_for: It is what the command is for, and said however quiet it is to be.
    """
    if as_json:
        print_json(facts)
    elif is_asked_for or not is_quiet():
        print(sentence)


def print_table(table: Any) -> None:
    from rich.console import Console

    # Into a pipe lines are written whole, whatever the width of the terminal.
    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False, markup=False)
    with console.capture() as captured:  # it would end the process when the reader closes the pipe
        console.print(table)
    print(captured.get(), end="")
