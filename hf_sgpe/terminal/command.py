"""The start and end of every command and script. For bad input, a command prints one line and exits with code 2."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NoReturn

from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.terminal.printing import visible
from hf_sgpe.terminal.progress import quiet_libraries


class ArgumentParser(argparse.ArgumentParser):
    """A parser that keeps the description's line breaks in help texts and prints errors as one line."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        _open_standard_streams()
        print(f"error: {message}: see --help", file=sys.stderr)
        sys.exit(2)


def exit_code(work: Callable[[], int | None]) -> int:
    """Run a command, and return its exit code. An `SGPEError` or `OSError` is printed as one line."""
    _open_standard_streams()
    quiet_libraries()
    try:
        code = work() or 0
        _flush(sys.stdout)
    except BrokenPipeError:
        code = 0  # the reader of the output, such as head, closed the pipe
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        print(f"error: {not_installed('this needs transformers', 'transformers', extra='transformers')}", file=sys.stderr)
        code = 2
    except (SGPEError, OSError) as error:
        # On Windows, a broken pipe raises this error, without a file name.
        is_broken_pipe = sys.platform == "win32" and getattr(error, "errno", None) == errno.EINVAL and not error.filename
        if not is_broken_pipe:
            print(f"error: {one_line(error)}", file=sys.stderr)
        code = 0 if is_broken_pipe else 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 128 + signal.SIGINT
    _discard_unwritten_output()
    return code


def _open_standard_streams() -> None:
    """Make output UTF-8 with ``\\n`` on every system, and open closed streams on the null device. Otherwise, the next
    file to be opened would get their descriptor, and the output of other libraries.
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
    """Return the message of an error as one line, without error numbers and control characters."""
    if isinstance(error, OSError) and error.strerror:
        return visible(f"{error.filename or 'writing failed'}: {error.strerror}")
    return visible(" ".join(str(error).split()))


def _flush(stream: IO[str] | None) -> None:
    if stream is not None:
        stream.flush()


def _discard_unwritten_output() -> None:
    """Redirect broken output streams to the null device, so that the flush at exit does not fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            _flush(stream)
        except OSError:
            with suppress(OSError, ValueError):  # a stream in a test has no file number
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
