"""The Typer application that contains all commands.

All commands follow the same conventions. The first argument is the tokenizer, model or text. The option ``--baseline`` adds
tokenizers for comparison. ``--json`` prints the result as JSON. ``--quiet`` prints only results and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from inspect import Parameter
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from hf_sgpe.cli.help_text import PlainHelp
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import SEVERAL, with_options
from hf_sgpe.terminal.progress import be_quiet


class Group(PlainHelp, TyperGroup):
    """A group of commands with plain-text help."""


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
Work = TypeVar("Work", bound=Callable[..., None])

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_QUIET = Parameter(
    "quiet",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option("--quiet", "-q", callback=be_quiet, help="Print only results and errors: no progress and no warnings."),
    ],
)


class Command(PlainHelp, TyperCommand):
    """A command whose options with the metavar `SEVERAL` take all values up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        several = {name for option in self.params if option.metavar == SEVERAL for name in option.opts}
        rest: list[str] = super().parse_args(ctx, list(_one_value_each(args, several)))
        return rest


def _one_value_each(arguments: list[str], names: set[str]) -> Iterator[str]:
    """Yield the arguments as Typer expects them: ``--x a b`` becomes ``--x a --x b`` for each option in ``names``."""
    option = ""
    for place, argument in enumerate(arguments):
        if argument == "--":
            yield from arguments[place:]
            return
        if option and not argument.startswith("-"):
            # The first value already follows its option.
            yield from (argument,) if arguments[place - 1] == option else (option, argument)
        else:
            option = argument if argument in names else ""
            if option and (place + 1 == len(arguments) or arguments[place + 1].startswith("-")):
                raise SGPEError(f"{option} needs at least one file")
            yield argument


def command(name: str | None = None, *, epilog: str, group: typer.Typer = app) -> Callable[[Work], Work]:
    """Return a decorator that adds a function to ``group`` as a command with the option ``--quiet``. See `with_options`."""

    def add(function: Work) -> Work:
        group.command(name, cls=Command, epilog=epilog)(with_options(function, _QUIET))
        return function

    return add


def _version(value: bool) -> None:
    if value:
        from hf_sgpe.package import __version__

        print(f"hf-sgpe {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def named_numbers(given: Iterable[str], option: str, form: str, number: Callable[[str], Number]) -> dict[str, Number]:
    """Parse the values of an option such as ``--weight si.txt=2``. Return a dict from names to numbers."""
    numbers: dict[str, Number] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        if name in numbers:
            raise SGPEError(f"{option} {text!r}: {name!r} already has a number: give it once")
        try:
            numbers[name] = number(value if name else "")
        except ValueError:
            raise SGPEError(f"{option} {text!r}: expected {form}") from None
    return numbers
