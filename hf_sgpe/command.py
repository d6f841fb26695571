"""How a command begins and ends, the scripts' and hf-sgpe's alike: bad input is one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from hf_sgpe.errors import SGPEError
from hf_sgpe.quiet import quiet_libraries


class ArgumentParser(argparse.ArgumentParser):
    """The standard one, which shows a script's docstring as it is written, and says in one line what is wrong."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        print(f"error: {message}: see --help", file=sys.stderr)
        sys.exit(2)


def exit_code(work: Callable[[], None]) -> int:
    """Does a script's work, and says how it ended."""
    quiet_libraries()
    try:
        work()
    except (SGPEError, OSError) as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


def one_line(error: Exception) -> str:
    """What an error says, without the numbers and line ends that Python and libraries put there."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'writing failed'}: {error.strerror}"
    return " ".join(str(error).split())
