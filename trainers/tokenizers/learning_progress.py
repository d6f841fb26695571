"""Progress bars for the learning of a tokenizer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from hf_sgpe.bpe.merging import Pair
from hf_sgpe.learning.observer import NOBODY, Observer
from hf_sgpe.terminal.progress import bar_disabled


@contextmanager
def learning_bars(progress: bool | None, what: str, total: int | None, *, from_first: bool = False) -> Iterator[Observer]:
    """Yield an observer that shows each step of learning as a bar on stderr.

    Args:
        progress: Whether to show bars; None shows them only on a terminal.
        what: Label of the bar that counts the merges.
        total: Number of tokens at which this bar is full, if it is known.
        from_first: Whether this bar also counts the tokens that exist before the first merge.
    """
    if bar_disabled(progress):
        yield NOBODY
        return
    bars: list[tqdm] = []
    expected = 0

    def merged(tokens: int, pair: Pair, count: int) -> None:
        nonlocal expected
        if not bars:
            bars.append(tqdm(total=total, initial=tokens if from_first else 0, unit=" tokens", desc=what, leave=False))
        elif tokens < expected:  # learning starts over
            bars[0].reset()
        expected = tokens + 1
        bars[0].update()

    def steps(items: Collection[Any], what: str) -> Iterable[Any]:
        bar: Iterable[Any] = tqdm(items, desc=what, unit="", unit_scale=True, leave=False)
        return bar

    try:
        yield Observer(steps, merged)
    finally:
        for bar in bars:
            bar.close()
