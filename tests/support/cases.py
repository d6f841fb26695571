"""The number of cases that a test tries, of thousands of combinations."""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")


def is_long() -> bool:
    """Return whether the profile has many examples (``ci`` and ``nightly``)."""
    return settings.default.max_examples >= 300


def some(cases: Sequence[Case], turn: int = 0, of: int = 7) -> Sequence[Case]:
    """Return all cases in a long profile, otherwise every seventh, starting at ``turn``."""
    return cases if is_long() else cases[turn::of]
