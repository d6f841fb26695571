"""Applying merges to one word: what byte-level BPE does once its merge list is known.

The rule: of all adjacent pairs that have a merge, apply the one of lowest rank, the leftmost if it stands in several
places; repeat until no pair has one. `apply_merges` does it with a heap, `apply_merges_by_rescan` says it word for word.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, cast

from hf_sgpe import kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Pair = tuple[int, int]


class MergeTable:
    """Merges in the order of their ranks: which pairs merge, how early, and into which token.

    >>> table = MergeTable([((97, 98), 256)])
    >>> apply_merges([97, 98, 97], table)
    [256, 97]
    """

    def __init__(self, merges: Iterable[tuple[Pair, int]] = ()) -> None:
        self.ranks: dict[Pair, int] = {}
        self.results: list[int] = []
        for pair, result in merges:
            self.add(pair, result)

    def add(self, pair: Pair, result: int) -> None:
        """Append a merge after all others. Of two merges of the same pair the later one counts."""
        self.ranks[pair] = len(self.results)
        self.results.append(result)


def apply_merges(ids: Sequence[int], table: MergeTable) -> list[int]:
    """Return the tokens that ``ids`` merge into. O(n log n) for n ids, on any input.

    Args:
        ids: Token ids of one word, usually its bytes.
    """
    if len(ids) < 2:
        return list(ids)
    ranks, results = table.ranks, table.results
    tokens: list[int] = list(ids)
    # A merged token stays where its left part stood; the right part's place is marked dead by -1.
    end = len(tokens)
    following = list(range(1, end + 1))
    previous = list(range(-1, end - 1))
    # (rank, place of the left part): the smallest is the lowest rank and, within it, the leftmost
    candidates = []
    for place in range(end - 1):
        rank = ranks.get((tokens[place], tokens[place + 1]))
        if rank is not None:
            candidates.append((rank, place))
    heapq.heapify(candidates)
    while candidates:
        rank, place = heapq.heappop(candidates)
        right = following[place]
        # The pair may have changed since it was pushed, by a merge to either side.
        if tokens[place] < 0 or right == end or ranks.get((tokens[place], tokens[right])) != rank:
            continue
        tokens[place], tokens[right] = results[rank], -1
        after = following[place] = following[right]
        if after != end:
            previous[after] = place
            rank_after = ranks.get((tokens[place], tokens[after]))
            if rank_after is not None:
                heapq.heappush(candidates, (rank_after, place))
        before = previous[place]
        if before >= 0:
            rank_before = ranks.get((tokens[before], tokens[place]))
            if rank_before is not None:
                heapq.heappush(candidates, (rank_before, before))
    return [token for token in tokens if token >= 0]


def spell_tokens(tokens: Iterable[bytes], merges: Iterable[Pair]) -> list[bytes]:
    """Return the bytes of every token by id: those given, then one for each merge.

    >>> spell_tokens([b"a", b"b"], [(0, 1), (2, 0)])
    [b'a', b'b', b'ab', b'aba']
    """
    spelled = list(tokens)
    for left, right in merges:
        spelled.append(spelled[left] + spelled[right])
    return spelled


def merge_words(
    words: Iterable[bytes], merges: Sequence[Pair], results: Sequence[int] | None = None
) -> Sequence[Sequence[int]]:
    """Return the tokens that merges leave of the bytes of each word.

    Args:
        results: The token that each merge creates; None: the k-th creates token 256 + k.

    Returns:
        A sequence of sequences of ids: lists, or an object of the native kernels that takes less memory.

    >>> list(merge_words([b"aba"], [(97, 98)]))
    [[256, 97]]
    """
    numbered = list(zip(merges, range(256, 256 + len(merges)) if results is None else results, strict=True))
    if kernels.is_native():
        import hf_sgpe._native as _native

        triples = [(left, right, result) for (left, right), result in numbered]
        merged = _native.Encoder(range(256), triples, (), None, (), 0).merge_words(words)
        return cast("Sequence[Sequence[int]]", merged)
    table = MergeTable(numbered)
    return [apply_merges(word, table) for word in words]


def unreached_words(vocab: Collection[bytes], merges: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """Return the tokens of whole characters that merges do not make of their bytes: each is a whole word, or unused.

    >>> unreached_words({b"a", b"b", b"c", b"ab", b"abc"}, [(b"a", b"b")])
    [b'abc']
    """
    numbers = {bytes([byte]): byte for byte in range(256)}
    for token in vocab:
        numbers.setdefault(token, len(numbers))
    words = [token for token in vocab if len(token) > 1 and token.decode(errors="ignore").encode() == token]
    pairs = list(merges)
    merged = merge_words(
        words, [(numbers[left], numbers[right]) for left, right in pairs], [numbers[left + right] for left, right in pairs]
    )
    return [word for word, ids in zip(words, merged, strict=True) if len(ids) > 1]


def flat(sequences: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return all ids of some sequences one after another, and where those of each end.

    >>> [array.tolist() for array in flat([[1, 2], [], [3]])]
    [[1, 2, 3], [2, 2, 3]]
    """
    import numpy as np

    if kernels.is_native():
        import hf_sgpe._native as _native

        if isinstance(sequences, _native.Sequences):
            return sequences.arrays()
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    return np.fromiter(chain.from_iterable(sequences), np.int32, int(lengths.sum())), np.cumsum(lengths)


def apply_merges_by_rescan(ids: Sequence[int], table: MergeTable) -> list[int]:
    """Apply merges as the specification of `apply_merges` does: scan all pairs, apply the best, start over. O(n²)."""
    tokens = list(ids)
    while True:
        best_rank, best_place = len(table.results), -1
        for place, pair in enumerate(pairwise(tokens)):
            rank = table.ranks.get(pair)
            if rank is not None and rank < best_rank:
                best_rank, best_place = rank, place
        if best_place < 0:
            return tokens
        tokens[best_place : best_place + 2] = [table.results[best_rank]]
