"""Progress bars of learning a tokenizer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from hf_sgpe.bpe.merging import Pair
from hf_sgpe.learning.observer import NOBODY, Observer
from hf_sgpe.terminal.progress import bar_disabled


@contextmanager
def learning_bars(progress: bool | None, what: str, total: int | None) -> Iterator[Observer]:
    """Yield an observer that shows each step of learning on stderr.

    Args:
        progress: Whether to show bars; None shows them only on a terminal.
        what: Label of the bar for merging.
        total: Expected number of tokens of the vocabulary or of its new part; None if learning decides it.
    """
    if bar_disabled(progress):
        yield NOBODY
        return
    bars: list[tqdm] = []
    first = 0

    def merged(tokens: int, pair: Pair, count: int) -> None:
        nonlocal first
        if not bars:
            bars.append(tqdm(total=total, unit=" tokens", desc=what, leave=False))
        if bars[0].n == 0 or tokens < first + bars[0].n:  # learning starts, or starts over
            first = tokens
            bars[0].reset()
        bars[0].update()

    def steps(items: Collection[Any], what: str) -> Iterable[Any]:
        bar: Iterable[Any] = tqdm(items, desc=what, unit="", unit_scale=True, leave=False)
        return bar

    try:
        yield Observer(steps, merged)
    finally:
        for bar in bars:
            bar.close()
