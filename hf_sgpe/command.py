"""How hf-sgpe and the scripts begin and end: bad input is one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NoReturn

from hf_sgpe.errors import SGPEError
from hf_sgpe.quiet import quiet_libraries


class ArgumentParser(argparse.ArgumentParser):
    """The standard parser, which shows a script's docstring as it is written, and wrong usage in one line."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        open_standard_streams()
        print(f"error: {message}: see --help", file=sys.stderr)
        sys.exit(2)


def exit_code(work: Callable[[], int | None]) -> int:
    """Does a command's work and returns its exit code.

    Args:
        work: Its result is the exit code if all went well; None is 0.
    """
    open_standard_streams()
    quiet_libraries()
    try:
        code = work() or 0
        _flush(sys.stdout)
    except BrokenPipeError:
        # The reader of our output has closed it.
        code = 0
    except (SGPEError, OSError) as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 128 + signal.SIGINT
    _drop_what_cannot_be_written()
    return code


def open_standard_streams() -> None:
    """Makes output UTF-8 with ``\\n`` on every system, and opens the null device for streams that are closed.

    A file that is opened later would otherwise get the number of a closed stream, and the messages of other libraries.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, mode)
            if null != number:
                os.dup2(null, number)
                os.close(null)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8", newline="\n"))  # noqa: SIM115, PTH123 - to the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")


def one_line(error: Exception) -> str:
    """The message of an error, without the numbers and line ends that Python and libraries put there."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'writing failed'}: {error.strerror}"
    return " ".join(str(error).split())


def _flush(stream: IO[str] | None) -> None:
    if stream is not None:
        stream.flush()


def _drop_what_cannot_be_written() -> None:
    """Drops unwritten output: Python would try to write it once more at the end, and fail once more."""
    for stream in (sys.stdout, sys.stderr):
        try:
            _flush(stream)
        except OSError:
            with suppress(OSError, ValueError):  # what tests put there has no number
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
