"""How many of thousands of cases a test tries, each for every text, field and value there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")


def is_long() -> bool:
    """Return true for the profiles of many examples, ``ci`` and ``nightly``."""
    return settings.default.max_examples >= 300


def some(cases: Sequence[Case], turn: int = 0, of: int = 7) -> Sequence[Case]:
    """All cases where the profile is a long one, and by default those of one turn of several."""
    return cases if is_long() else cases[turn::of]
