"""Which lines of a text have the same ids by two tokenizers, and where the others begin to differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from hf_sgpe.evaluation.metrics import Measurable, measurable
from hf_sgpe.tokenizer import BPETokenizer

# Enough for threads to pay, and little memory.
_LINES = 4096
# Tokens that are shown before and after the place where two rows part.
_BEFORE, _AFTER = 3, 8


@dataclass(frozen=True)
class Difference:
    """The first line with other ids.

    Attributes:
        line: Its number, from 1.
        text: The line.
        place: How many tokens at its start are the same.
        old: Texts and ids of the tokens around that place.
        new: The same by the other tokenizer.
    """

    line: int
    text: str
    place: int
    old: list[tuple[str, int]]
    new: list[tuple[str, int]]


@dataclass
class IdComparison:
    """How the ids of a text compare.

    Attributes:
        lines: How many lines were compared.
        same: How many of them have the same ids.
        old_tokens: How many tokens they have by the first tokenizer.
        new_tokens: The same by the second.
        difference: The first line that differs, or None.
    """

    lines: int = 0
    same: int = 0
    old_tokens: int = 0
    new_tokens: int = 0
    difference: Difference | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return asdict(self)


def compare_ids(old: BPETokenizer | Measurable, new: BPETokenizer | Measurable, lines: Iterable[str]) -> IdComparison:
    """Encode each line by both tokenizers; special tokens are neither added nor recognised.

    Args:
        old: As `hf_sgpe.evaluation.metrics.load` gives it.
        new: The other tokenizer.
        lines: Read once; they need not fit into memory.

    >>> old = BPETokenizer.train_from_iterator(["ab"], 256)
    >>> new = BPETokenizer.train_from_iterator(["ab"], 257)
    >>> found = compare_ids(old, new, ["b a", "cab"])
    >>> found.same, found.lines, found.difference.line, found.difference.place
    (1, 2, 2, 1)
    """
    found = IdComparison()
    remaining = iter(lines)
    while batch := list(islice(remaining, _LINES)):
        for line, ours, theirs in zip(batch, _rows(old, batch), _rows(new, batch), strict=True):
            found.lines += 1
            found.old_tokens += len(ours)
            found.new_tokens += len(theirs)
            if ours == theirs:
                found.same += 1
            elif found.difference is None:
                place = next(
                    (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
                )
                found.difference = Difference(found.lines, line, place, _around(old, line, place), _around(new, line, place))
    return found


def _rows(tokenizer: BPETokenizer | Measurable, batch: list[str]) -> Iterator[list[int]]:
    if isinstance(tokenizer, BPETokenizer):
        return iter(tokenizer.encode_batch(batch))
    return (tokenizer.encode(line)[0] for line in batch)


def _around(tokenizer: BPETokenizer | Measurable, line: str, place: int) -> list[tuple[str, int]]:
    ids, ends = measurable(tokenizer).encode(line)
    encoded = line.encode(errors="replace")
    tokens = [
        (encoded[start:end].decode(errors="replace"), id) for start, end, id in zip([0, *ends], ends, ids, strict=False)
    ]
    return tokens[max(place - _BEFORE, 0) : place + _AFTER]
