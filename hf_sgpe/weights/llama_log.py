"""The log of llama.cpp, which is not shown."""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Any

last_lines: deque[str] = deque(maxlen=50)
"""The last lines of the log. They include the reason why a file could not be loaded."""


def silence() -> None:
    """Redirect the log of llama.cpp from stderr to `last_lines`."""
    import llama_cpp

    llama_cpp.llama_log_set(_log(), None)


@cache
def _log() -> Any:
    import llama_cpp

    def log(level: int, text: bytes, data: object) -> None:
        last_lines.append(text.decode(errors="replace"))

    return llama_cpp.llama_log_callback(log)
