"""Incremental BPE training: learn merges from words and their counts. The Python code here is the readable specification of
the native kernel.

The result is the same as if all pairs were counted again after every merge, but only the counts that change are updated.
Words are sequences of token ids, so training can start from bytes or from larger units. The caller decides how text is split
into words, and which ids the units of the words have.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hf_sgpe import kernels
from hf_sgpe.bpe.merging import Pair
from hf_sgpe.errors import SGPEError

TIE_BREAKS = ("smallest-pair-id", "greatest-pair-bytes", "greatest-pair-id")
"""The rules for choosing among equally frequent pairs. The next merge is the pair with the smallest ids (as in rustbpe and
SGPE), the pair with the lexicographically greatest byte strings, or the pair with the greatest ids.
"""

OnMerge = Callable[[int, Pair, int], None]
"""A function that is called at each merge with the new token's id, the pair and the pair's count."""

_MOST = 1 << 62


def checked(tie_break: str, *, num_merges: int, min_frequency: int) -> tuple[int, int]:
    """Check the options of training, and return the numbers. Numbers above 2**62 are reduced to 2**62, so that they fit into
    the 64-bit counters of the native kernels.
    """
    for name, number in (("num_merges", num_merges), ("min_frequency", min_frequency)):
        if not isinstance(number, int):
            raise SGPEError(f"{name} must be a whole number, not {number!r}")
    if tie_break not in TIE_BREAKS:
        raise SGPEError(f"unknown tie rule {tie_break!r}: choose from {', '.join(TIE_BREAKS)}")
    return min(num_merges, _MOST), min(min_frequency, _MOST)


class Word:
    """A word as token ids. Merges shorten the word in place."""

    __slots__ = ("ids",)

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids

    def pairs(self) -> Iterator[Pair]:
        """Return the adjacent pairs from left to right, including overlapping pairs."""
        return pairwise(self.ids)

    def merge_pair(self, pair: Pair, new_id: int) -> list[tuple[Pair, int]]:
        """Replace every occurrence of ``pair`` with ``new_id``, from left to right and without overlap.

        Returns:
            The changes in the counts of this word's pairs, as (pair, +1 or -1), in any order. A pair may occur several
            times.
        """
        left_part, right_part = pair
        ids = self.ids
        merged: list[int] = []
        changes: list[tuple[Pair, int]] = []
        place = 0
        while place < len(ids):
            token = ids[place]
            if token != left_part or place + 1 == len(ids) or ids[place + 1] != right_part:
                merged.append(token)
                place += 1
                continue
            if merged:
                changes.append(((merged[-1], left_part), -1))
                changes.append(((merged[-1], new_id), +1))
            changes.append((pair, -1))
            if place + 2 < len(ids):
                changes.append(((right_part, ids[place + 2]), -1))
                changes.append(((new_id, ids[place + 2]), +1))
            merged.append(new_id)
            place += 2
        self.ids = merged
        return changes


class _PairCounts:
    """The words after the merges so far, the number of occurrences of each pair (``counts``), and the total number of tokens
    (``symbols``). A word that occurs n times is counted n times.
    """

    def __init__(self, words: Sequence[Sequence[int]], times: Sequence[int]) -> None:
        self.words = [Word(list(ids)) for ids in words]
        self.times = list(times)
        self.symbols = sum(len(word.ids) * times for word, times in zip(self.words, self.times, strict=True))
        self.counts: dict[Pair, int] = defaultdict(int)
        self._where: dict[Pair, set[int]] = defaultdict(set)
        for index, word in enumerate(self.words):
            for pair in word.pairs():
                self.counts[pair] += self.times[index]
                self._where[pair].add(index)

    def merge(self, pair: Pair, new_id: int) -> set[Pair]:
        """Replace ``pair`` with ``new_id`` in all words. Return the pairs with ``new_id`` that this produces."""
        appeared: set[Pair] = set()
        for index in self._where.pop(pair, ()):
            word, times = self.words[index], self.times[index]
            before = len(word.ids)
            for changed, change in word.merge_pair(pair, new_id):
                self.counts[changed] += change * times
                if change > 0:
                    appeared.add(changed)
                    self._where[changed].add(index)
            self.symbols -= (before - len(word.ids)) * times
        self.counts.pop(pair, None)
        return appeared


class _MergeJob(NamedTuple):
    """An entry in the heap of `_MergeQueue`. The smallest entry is the next merge: the most frequent pair. The tie rule
    decides between equally frequent pairs.

    The count may be out of date, but is never too low, because a pair's count never increases after the merge that first
    produced the pair.
    """

    negative_count: int
    tie_key: Any
    pair: Pair


class _MergeQueue:
    """A priority queue of the pairs in the words. The most frequent pair is first. Among pairs with the same count, the pair
    with the smallest ``tie_key`` is first.
    """

    def __init__(self, state: _PairCounts, tie_key: Callable[[Pair], Any]) -> None:
        self._state, self._tie_key = state, tie_key
        self._heap = [_MergeJob(-count, tie_key(pair), pair) for pair, count in state.counts.items() if count > 0]
        heapq.heapify(self._heap)

    def merge(self, pair: Pair, new_id: int) -> None:
        """Merge a pair in the words, and add the pairs that this produces to the queue."""
        for new in self._state.merge(pair, new_id):
            count = self._state.counts[new]
            if count > 0:
                heapq.heappush(self._heap, _MergeJob(-count, self._tie_key(new), new))

    def next(self) -> tuple[Pair, int] | None:
        """Remove the pair to merge next, and return it with its count. If no pair is left, return None."""
        while self._heap:
            job = heapq.heappop(self._heap)
            count = self._state.counts.get(job.pair, 0)
            if count == -job.negative_count:
                return job.pair, count
            if count > 0:
                heapq.heappush(self._heap, job._replace(negative_count=-count))
        return None


def learn_merges(
    words: Sequence[Sequence[int]],
    counts: Sequence[int],
    *,
    vocabulary: Sequence[bytes],
    num_merges: int,
    merged: Sequence[Pair] = (),
    tie_break: str = "smallest-pair-id",
    min_frequency: int = 1,
    on_merge: OnMerge | None = None,
) -> list[Pair]:
    """Learn up to ``num_merges`` merges. Merge k creates the token with id ``len(vocabulary) + len(merged) + k``.

    The result does not depend on the order of the words. If a word has several entries, their counts are added.

    In the native kernel, time grows with the number of tokens in the words, and choosing the next pair adds a logarithmic
    factor. In the Python code, each merge visits every word that contains the pair. The Python code is fast for ordinary
    words, but slow for words of many thousand tokens.

    Args:
        words: Token ids of each word. They are not changed.
        counts: Number of occurrences of each word.
        vocabulary: The bytes of every token that ``words`` may use, ordered by id.
        merged: Merges learned earlier from the same words. They are applied first, and learning continues from there.
        tie_break: One of `TIE_BREAKS`.
        min_frequency: The lowest count at which a pair is still merged.

    Source: the incremental scheme of rustbpe and minbpe; Sennrich et al. 2016 for BPE itself.

    >>> learn_merges([list(b"aaab"), list(b"ab")], [2, 5], vocabulary=[bytes([i]) for i in range(256)], num_merges=2)
    [(97, 98), (97, 97)]
    """
    num_merges, min_frequency = checked(tie_break, num_merges=num_merges, min_frequency=min_frequency)
    if kernels.is_native():
        import hf_sgpe._native as _native

        try:
            return _native.learn_merges(
                words, counts, vocabulary, list(merged), num_merges, tie_break, min_frequency, on_merge
            )
        except ValueError as error:
            raise SGPEError(str(error)) from None
    return learn_readably([(words, counts)], [], vocabulary, num_merges, tie_break, min_frequency, on_merge, merged=merged)


def learn_readably(
    languages: Iterable[tuple[Sequence[Sequence[int]], Sequence[int]]],
    held_out: Iterable[tuple[Sequence[Sequence[int]], Sequence[int]]],
    vocabulary: Sequence[bytes],
    num_merges: int,
    tie_break: str,
    min_frequency: int,
    on_merge: OnMerge | None,
    *,
    merged: Sequence[Pair] = (),
) -> list[Pair]:
    """Do the work of `learn_merges` and `hf_sgpe.bpe.parity.learn_in_parity` in Python.

    Args:
        languages: Words and their counts, for each language.
        held_out: The same for the held-out text of each language. With a single language, nothing.
    """
    states, texts = [_PairCounts(*one) for one in languages], [_PairCounts(*one) for one in held_out]
    kernels.note_slow_use(sum(len(word.ids) for state in states for word in state.words))
    token_bytes = list(vocabulary)
    for rank, pair in enumerate(merged):
        for state in states:
            if state.counts.get(pair, 0) < max(min_frequency, 1):
                raise SGPEError(f"merge {rank} was not learned from these words")
            state.merge(pair, len(token_bytes))
        token_bytes.append(token_bytes[pair[0]] + token_bytes[pair[1]])
    tie_key = _tie_key_of(tie_break, token_bytes)
    queues = [_MergeQueue(state, tie_key) for state in states]
    learning = list(range(len(states)))
    merges: list[Pair] = []
    while learning and len(merges) < num_merges:
        chooser = max(learning, key=lambda number: texts[number].symbols) if texts else 0
        best = queues[chooser].next()
        if best is None or best[1] < min_frequency:
            learning.remove(chooser)
            continue
        pair, count = best
        merges.append(pair)
        new_id = len(token_bytes)
        if on_merge:
            on_merge(new_id, pair, count)
        token_bytes.append(token_bytes[pair[0]] + token_bytes[pair[1]])
        for queue in queues:
            queue.merge(pair, new_id)
        for text in texts:
            text.merge(pair, new_id)
    return merges


def _tie_key_of(tie_break: str, token_bytes: list[bytes]) -> Callable[[Pair], Any]:
    """Return a function that computes the sort key of a pair. The tie rule prefers the pair with the smallest key."""
    if tie_break == "smallest-pair-id":
        return lambda pair: pair
    if tie_break == "greatest-pair-id":
        return lambda pair: (-pair[0], -pair[1])
    # Reverse the order of byte strings. The final 256 puts a string before its own prefixes.
    descending: dict[int, tuple[int, ...]] = {}

    def key(token: int) -> tuple[int, ...]:
        if token not in descending:
            descending[token] = (*(255 - byte for byte in token_bytes[token]), 256)
        return descending[token]

    return lambda pair: (key(pair[0]), key(pair[1]))
