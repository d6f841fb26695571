"""The command line. The one place that knows all packages; each command imports what it needs when it runs."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import IO

from hf_sgpe.cli.app import app
from hf_sgpe.command import one_line
from hf_sgpe.errors import SGPEError
from hf_sgpe.quiet import quiet_libraries

# isort: off
# Each adds its commands, in the order of --help.
from hf_sgpe.cli import training, counting, export, generation, encoding, cards  # noqa: F401
# isort: on


def main() -> None:
    """Runs the command line; bad input ends in one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        _write_utf8(stream)
    quiet_libraries()
    # Ended from outside, clean up as for Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.addLevelName(logging.WARNING, "warning")
    logging.addLevelName(logging.INFO, "info")
    try:
        sys.exit(app(standalone_mode=False))
    except BrokenPipeError:
        # Whoever read our output has had enough. Nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (SGPEError, OSError) as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        # The command line's own exceptions, whose module has moved between versions: wrong usage, and Ctrl-C.
        if type(error).__name__ == "Abort":
            print("interrupted", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
        elif hasattr(error, "format_message"):
            print(f"error: {one_line(SGPEError(error.format_message())).rstrip('.')}: see --help", file=sys.stderr)
        else:
            raise
        sys.exit(2)


def _write_utf8(stream: IO[str]) -> None:
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", errors="replace")
