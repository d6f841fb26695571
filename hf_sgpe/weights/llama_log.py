"""What llama.cpp logs, from its first call on: the last lines are kept, and nobody is shown any."""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Any

last_lines: deque[str] = deque(maxlen=50)
"""Among them is the reason why a file does not load."""


def silence() -> None:
    """Keep llama.cpp from writing to stderr, and its lines in `last_lines`."""
    import llama_cpp

    llama_cpp.llama_log_set(_log(), None)


@cache
def _log() -> Any:
    import llama_cpp

    def log(level: int, text: bytes, data: object) -> None:
        last_lines.append(text.decode(errors="replace"))

    return llama_cpp.llama_log_callback(log)
