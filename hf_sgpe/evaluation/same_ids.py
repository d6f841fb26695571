"""Comparison of the ids of two tokenizers, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

from hf_sgpe.counts.counters import in_batches
from hf_sgpe.evaluation.measurable import Measurable
from hf_sgpe.tokenizer import BPETokenizer

# Number of lines in a batch: enough lines to keep threads busy, but few enough to need little memory.
_LINES = 4096
# Number of tokens to show before and after the first difference.
_BEFORE, _AFTER = 3, 8


@dataclass(frozen=True)
class _Difference:
    """The first line that two tokenizers encode to different ids.

    Attributes:
        line: Line number, counted from 1.
        place: Number of equal tokens at the start of the line.
        old: Texts and ids of the first tokenizer's tokens around the first difference.
        new: The same for the second tokenizer.
    """

    line: int
    text: str
    place: int
    old: list[tuple[str, int]]
    new: list[tuple[str, int]]


@dataclass
class IdComparison:
    """The result of `compare_ids`. ``same`` is the number of lines with equal ids."""

    lines: int = 0
    same: int = 0
    old_tokens: int = 0
    new_tokens: int = 0
    difference: _Difference | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare_ids(old: BPETokenizer | Measurable, new: BPETokenizer | Measurable, lines: Iterable[str]) -> IdComparison:
    """Compare the ids of each line in two tokenizers. Special tokens are neither added nor recognized.

    Args:
        old: First tokenizer, from `hf_sgpe.evaluation.measurable.load`.
        lines: Lines of text. They are read once and need not fit into memory.

    >>> old = BPETokenizer.train_from_iterator(["ab"], 256)
    >>> new = BPETokenizer.train_from_iterator(["ab"], 257)
    >>> result = compare_ids(old, new, ["b a", "cab"])
    >>> result.same, result.lines, result.difference.line, result.difference.place
    (1, 2, 2, 1)
    """
    result = IdComparison()
    for batch in in_batches(lines, _LINES, lambda line: 1):
        for line, ours, theirs in zip(batch, _rows(old, batch), _rows(new, batch), strict=True):
            result.lines += 1
            result.old_tokens += len(ours)
            result.new_tokens += len(theirs)
            if ours == theirs:
                result.same += 1
            elif result.difference is None:
                place = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
                around = (_around(tokenizer, line, place) for tokenizer in (old, new))
                result.difference = _Difference(result.lines, line, place, *around)
    return result


def _rows(tokenizer: BPETokenizer | Measurable, batch: list[str]) -> Iterator[list[int]]:
    if isinstance(tokenizer, BPETokenizer):
        return iter(tokenizer.encode_batch(batch))
    return (tokenizer.encode(line)[0] for line in batch)


def _around(tokenizer: BPETokenizer | Measurable, line: str, place: int) -> list[tuple[str, int]]:
    shown = slice(max(place - _BEFORE, 0), place + _AFTER)
    if isinstance(tokenizer, BPETokenizer):  # it may normalize the line, so its tokens need not be parts of the line
        return [(tokenizer.token_bytes(id).decode(errors="replace"), id) for id in tokenizer.encode(line)[shown]]
    ids, ends = tokenizer.encode(line)
    encoded = line.encode(errors="replace")
    return [
        (encoded[start:end].decode(errors="replace"), id)
        for start, end, id in list(zip([0, *ends], ends, ids, strict=False))[shown]
    ]
