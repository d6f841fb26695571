"""Observer: the functions that learning calls at its steps, so that a caller can show progress or stop."""

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
    """The functions that learning calls. Without any, nobody watches, which is fastest.

    Attributes:
        steps: Given a collection and the name of the work on it, yields its items.
        merged: Called at each merge of the statistical tier with the number of tokens before the merge, the pair (two such
            numbers) and the pair's count in parts of 1 / `WordCounts.scale`.
    """

    steps: Callable[[Collection[Any], str], Iterable[Any]] = _all
    merged: OnMerge | None = None


NOBODY = Observer()
