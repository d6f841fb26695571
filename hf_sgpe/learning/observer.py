"""Observer: the callbacks of learning. They let a caller show progress or stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from hf_sgpe.bpe.merging import Pair

OnMerge = Callable[[int, Pair, int], None]


def _all(items: Collection[Any], what: str) -> Iterable[Any]:
    return items


@dataclass(frozen=True)
class Observer:
    """The functions that learning calls to report its progress. Learning is fastest if no function is set.

    Attributes:
        steps: Called with a collection and the name of a step. It yields the items, which learning then processes.
        merged: Called at each merge by frequency, with the number of tokens before the merge, the pair of token numbers, and
            the pair's count in units of 1 / `WordCounts.scale`.
    """

    steps: Callable[[Collection[Any], str], Iterable[Any]] = _all
    merged: OnMerge | None = None


NOBODY = Observer()
