"""The command line. It may import all other packages of hf_sgpe. A command imports its dependencies only when it runs."""

from __future__ import annotations

import logging
import re
import signal
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import typer

from hf_sgpe.cli import application
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.command import exit_code
from hf_sgpe.terminal.options import with_options
from hf_sgpe.terminal.printing import visible

# Each module adds its commands. Only the module of the command that runs is imported, because all together take long.
# fmt: off
_MODULES = (
    "train", "train_sgpe", "extend", "trim", "compare_ids", "transplant", "adapt", "finetune", "count", "counts",
    "convert_zawgyi", "tokenize", "export", "engines", "chat", "serve", "encode", "decode", "info", "check", "evaluate",
    "card", "playground", "push",
)
# fmt: on


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _application(_MODULES)


def _application(modules: Iterable[str]) -> typer.Typer:
    """Return the Typer application with the commands of these modules."""
    for module in modules:
        import_module(f"{__name__}.{module}")
    return application.app


class _OwnPackages:
    """An import finder for the packages that are installed with hf_sgpe, such as ``trainers``. Without this finder, Python
    would import a folder ``trainers`` in the working directory instead.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(Path(__file__).parents[2])]) if name in ("trainers", "hub_cards") else None


# At import, because worker processes do not run `main`.
sys.meta_path.insert(0, _OwnPackages)

_NUMBERS = {"int": "a whole number", "integer": "a whole number", "float": "a number"}


def run_script(work: Callable[..., None], description: str | None) -> None:
    """Run a function as a separate program, with the help, options and error messages of ``hf-sgpe``.

    Args:
        work: The function. For its form, see `with_options`.
        description: The docstring of the script, which ends with "Example: …".
    """
    text, word, example = (description or "").partition("Example: ")
    settings = application.app.info.context_settings
    script = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    script.command(cls=application.Command, help=text, epilog=word + example, context_settings=settings)(with_options(work))
    main(script)


def main(program: typer.Typer | None = None) -> None:
    """Run the command line. For bad input, print one line to stderr and exit with code 2.

    Args:
        program: Another application to run.
    """
    # On SIGTERM, clean up as for Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    command = "".join(sys.argv[1:2]).replace("-", "_")
    modules = (command,) if command in _MODULES else _MODULES
    sys.exit(exit_code(lambda: _run(program or _application(modules))))


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def _run(program: typer.Typer) -> int:
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.addLevelName(logging.WARNING, "warning")
    logging.addLevelName(logging.INFO, "info")
    try:
        code: int = program(standalone_mode=False) or 0
    except (SGPEError, OSError):
        raise
    except SystemExit as ending:
        # Typer and rich exit with 1 when the reader closes the pipe.
        if isinstance(ending.__context__, BrokenPipeError):
            raise ending.__context__ from None
        raise
    except Exception as error:
        # Typer's exceptions for wrong usage and Ctrl-C: their module differs between versions, so compare names.
        if type(error).__name__ == "Abort":
            raise KeyboardInterrupt from None
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return 2
        if hasattr(error, "format_message"):
            message = _wrong_usage(error).rstrip(".")
            raise SGPEError(f"{message} See --help" if message.endswith("?") else f"{message}: see --help") from None
        raise

    if code == 128 + signal.SIGINT:  # newer versions of Typer return this code for Ctrl-C
        raise KeyboardInterrupt
    return code


def _wrong_usage(error: Any) -> str:
    """Return the message of a usage error, worded the same for all versions of Typer."""
    message, option = getattr(error, "message", ""), getattr(error, "param", None)
    if not message or option is None:
        return _with_one_suggestion(str(error.format_message()))
    name = option.opts[0]
    if reasons := getattr(error.__cause__, "errors", None):
        reason = reasons()[0]
        kind, value, message = reason["type"].partition("_")[0], repr(reason["input"]), reason["msg"]
    else:
        value, _, kind = message.rstrip(".").partition(" is not a valid ")
    if kind in _NUMBERS:
        return f"{name} must be {_NUMBERS[kind]}, not {value}"
    return f"{name}: {message.removeprefix('Value error, ')}"


def _with_one_suggestion(message: str) -> str:
    """Keep only the first list of similar names in an error message. Newer versions of Typer add two lists.

    >>> _with_one_suggestion("No such command 'trainn'. Did you mean 'train'? (Did you mean 'train'?)")
    "No such command 'trainn'. Did you mean 'train'?"
    >>> _with_one_suggestion("No such option: --oot (Possible options: --out, --root)")
    'No such option: --oot. Did you mean --out, --root?'
    """
    found = re.search(r"(?:Did you mean(?: one of:)?|Possible options:) ([^?)]+)", message)
    return f"{message[: found.start()].rstrip(' .(')}. Did you mean {found[1]}?" if found else message
