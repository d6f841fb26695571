"""The command line. The one place that knows all packages; each command imports what it needs when it runs."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import typer

from hf_sgpe.cli.application import Command, app
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.command import exit_code
from hf_sgpe.terminal.options import with_options

# isort: off
# Each adds its commands, in the order of --help.
from hf_sgpe.cli import train, train_sgpe, extend, compare_ids, transplant, count, counts  # noqa: F401
from hf_sgpe.cli import convert_zawgyi, tokenize, export, engines, chat, serve, encode, decode, info  # noqa: F401
from hf_sgpe.cli import check, evaluate, card, playground, push  # noqa: F401
# isort: on


class _OwnPackages:
    """Finds the packages that were installed with this one. Others of these names, such as a folder ``trainers`` where a
    command runs, would be found first."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(Path(__file__).parents[2])]) if name in ("trainers", "hub_cards") else None


# When this is imported, so that worker processes, which do not run `main`, find them too.
sys.meta_path.insert(0, _OwnPackages)

_NUMBERS = {"int": "a whole number", "integer": "a whole number", "float": "a number"}


def run_script(work: Callable[..., None], description: str | None) -> None:
    """Run a function as a program of one command, with help, options and errors as those of ``hf-sgpe``.

    Args:
        work: The function, as `with_options` takes it.
        description: The docstring of the script. It ends in "Example: …".
    """
    text, word, example = (description or "").partition("Example: ")
    settings = app.info.context_settings
    script = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    script.command(cls=Command, help=text, epilog=word + example, context_settings=settings)(with_options(work))
    main(script)


def main(application: typer.Typer = app) -> None:
    """Run a command line; bad input ends in one line on stderr and exit code 2."""
    # Ended from outside, clean up as for Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(exit_code(lambda: _run(application)))


def _run(application: typer.Typer) -> int:
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.addLevelName(logging.WARNING, "warning")
    logging.addLevelName(logging.INFO, "info")
    try:
        return application(standalone_mode=False) or 0
    except (SGPEError, OSError):
        raise
    except SystemExit as ending:
        # The libraries of the command line and of tables end with 1 when the reader closes the pipe.
        if isinstance(ending.__context__, BrokenPipeError):
            raise ending.__context__ from None
        raise
    except Exception as error:
        # The command line's own exceptions, whose module has moved between versions: wrong usage, and Ctrl-C.
        if type(error).__name__ == "Abort":
            raise KeyboardInterrupt from None
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return 2
        if hasattr(error, "format_message"):
            raise SGPEError(f"{_wrong_usage(error).rstrip('.')}: see --help") from None
        raise


def _wrong_usage(error: Any) -> str:
    """Return what is wrong in the words of this project, whichever version of the library found it."""
    message, option = getattr(error, "message", ""), getattr(error, "param", None)
    if not message or option is None:
        return str(error.format_message())
    name = option.opts[0]
    if reasons := getattr(error.__cause__, "errors", None):
        reason = reasons()[0]
        kind, value, message = reason["type"].partition("_")[0], repr(reason["input"]), reason["msg"]
    else:
        value, _, kind = message.rstrip(".").partition(" is not a valid ")
    if kind in _NUMBERS:
        return f"{name} must be {_NUMBERS[kind]}, not {value}"
    return f"{name}: {message.removeprefix('Value error, ')}"
