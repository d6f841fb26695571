"""The input texts of commands: arguments or lines of stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import why_not_text
from hf_sgpe.splitting import normalization
from hf_sgpe.terminal.progress import somebody_watches


def well_formed(texts: list[str]) -> list[str]:
    """Return texts unchanged if they were in the encoding of the locale."""
    for number, text in enumerate(texts, 1):
        if normalization.well_formed(text) != text:
            raise SGPEError(f"text {number} is not in the encoding of this locale: set a UTF-8 locale, or use stdin")
    return texts


def stdin_lines() -> Iterator[str]:
    """Yield the lines of stdin."""
    if sys.stdin is None:
        raise SGPEError("stdin is closed: pass the input as arguments")
    if sys.stdin.isatty() and somebody_watches():
        print("reading lines from the terminal; end with Ctrl-D", file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            if number == 1 and (reason := why_not_text(line)):
                raise SGPEError(f"stdin: {reason}") from None
            raise SGPEError(f"stdin, line {number}: not UTF-8 (byte {error.start} of the line)") from None
