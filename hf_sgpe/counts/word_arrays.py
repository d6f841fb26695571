"""Words: a compact sequence of many distinct words in two arrays, sorted as in a file of counts."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, overload
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUCKETS = 1024
"""The number of buckets into which the words of a file are divided; see `bucket_of`."""

_Number = TypeVar("_Number", bound=np.generic)

# Number of words to convert to Python objects at a time. They take one or two megabytes.
_ROWS = 1 << 16


def bucket_of(word: bytes) -> int:
    """Return the bucket of a word, a number below `BUCKETS`: the upper bits of the word's CRC-32."""
    return crc32(word) >> 22


def in_order(words: Iterable[bytes]) -> list[bytes]:
    """Return words sorted as in a file of counts: by bucket, then by their bytes."""
    return sorted(words, key=lambda word: (bucket_of(word), word))


class Words(Sequence[bytes]):
    """Distinct words, sorted as in a file of counts. Immutable.

    Each word takes up eight bytes more than its length. In a list of ``bytes``, it would take up about fifty bytes more. The
    native kernels read the arrays directly.

    Args:
        blob: The joined bytes of the words (uint8).
        starts: The offset of each word in ``blob``, and the end of the last word (int64).
    """

    __slots__ = ("_blob", "_bucket_starts", "_starts")

    def __init__(self, blob: NDArray[np.uint8], starts: NDArray[np.int64]) -> None:
        self._blob, self._starts = _read_only(blob), _read_only(starts)
        self._bucket_starts: NDArray[np.int64] | None = None

    @classmethod
    def from_sorted(cls, words: Iterable[bytes]) -> Words:
        """Make `Words` from distinct words that are already sorted as in a file of counts."""
        listed = list(words)
        return cls.cut(b"".join(listed), np.fromiter(map(len, listed), np.int64, len(listed)))

    @classmethod
    def cut(cls, blob: bytes | bytearray, lengths: NDArray[np.int64]) -> Words:
        """Make `Words` from their joined bytes, by cutting them into words of the given lengths in bytes."""
        return cls(np.frombuffer(blob, np.uint8), _starts_of(lengths))

    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the arrays ``blob`` and ``starts``, which are read-only."""
        return self._blob, self._starts

    def lengths(self) -> NDArray[np.int64]:
        """Return the number of bytes of each word."""
        return np.diff(self._starts)

    def joined_bytes(self) -> bytes:
        return self._bytes().tobytes()

    def _bytes(self) -> NDArray[np.uint8]:
        return self._blob[self._starts[0] : self._starts[-1]]

    def blocks(self) -> Iterator[slice]:
        """Yield slices of at most `_ROWS` words that together select all words."""
        return (slice(first, first + _ROWS) for first in range(0, len(self), _ROWS))

    def find(self, word: bytes) -> int | None:
        """Return the index of a word, or None if the word is not present."""
        blob, starts = self._blob, self._starts
        bucket = bucket_of(word)
        first, last = self.bucket_starts()[bucket : bucket + 2].tolist()
        place = bisect_left(range(last), word, first, key=lambda place: blob[starts[place] : starts[place + 1]].tobytes())
        return place if place < last and self[place] == word else None

    def bucket_starts(self) -> NDArray[np.int64]:
        """Return an array with the index of each bucket's first word, followed by the number of words."""
        if self._bucket_starts is None:
            if len(self) <= _ROWS:
                sizes = np.bincount(np.fromiter(map(bucket_of, self), np.int64, len(self)), minlength=BUCKETS)
                self._bucket_starts = _starts_of(sizes)
            else:
                places, words = range(len(self)), self
                first = [bisect_left(places, bucket, key=lambda place: bucket_of(words[place])) for bucket in range(BUCKETS)]
                self._bucket_starts = np.array([*first, len(self)])
        return self._bucket_starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Words: ...

    def __getitem__(self, index: int | slice) -> bytes | Words:
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step != 1:
                raise ValueError("words can only be sliced with step 1, so that they stay in order")
            return Words(self._blob, self._starts[first : max(first, last) + 1])
        place = range(len(self))[index]
        return self._blob[self._starts[place] : self._starts[place + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        for block in self.blocks():
            part = self[block]
            blob, starts = part.joined_bytes(), (part._starts - part._starts[0]).tolist()
            yield from (blob[start:end] for start, end in pairwise(starts))

    def __contains__(self, word: object) -> bool:
        return isinstance(word, bytes) and self.find(word) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Words):
            return NotImplemented
        return np.array_equal(self.lengths(), other.lengths()) and np.array_equal(self._bytes(), other._bytes())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Words({len(self):,})"


def added(parts: Sequence[tuple[Words, NDArray[Any]]]) -> tuple[Words, NDArray[Any]]:
    """Add up pairs of words and their counts (int64, or Python integers if 64 bits are too few). Return the distinct words,
    and the total count of each word. In addition to the result, little memory is needed.
    """
    parts = [part for part in parts if len(part[0])]
    if len(parts) < 2:
        return parts[0] if parts else (Words.from_sorted([]), np.empty(0, np.int64))
    blob, lengths, counts = bytearray(), array("q"), []
    kind = np.int64 if all(times.dtype == np.int64 for _, times in parts) else object
    # Many words are added one bucket at a time.
    step = 1 if sum(len(words) for words, _ in parts) > _ROWS else BUCKETS
    edges = [words.bucket_starts()[::step].tolist() for words, _ in parts]
    for number in range(BUCKETS // step):
        total: Counter[bytes] = Counter()
        for (words, times), edge in zip(parts, edges, strict=True):
            rows = slice(edge[number], edge[number + 1])
            total.update(dict(zip(words[rows], times[rows].tolist(), strict=True)))
        ordered = sorted(total) if step == 1 else in_order(total)
        blob += b"".join(ordered)
        lengths.extend(map(len, ordered))
        counts.append(np.fromiter(map(total.__getitem__, ordered), kind, len(ordered)))
    return Words.cut(blob, np.frombuffer(lengths, np.int64)), np.concatenate(counts)


def _starts_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _read_only(array: NDArray[_Number]) -> NDArray[_Number]:
    view = array.view()
    view.flags.writeable = False
    return view
