"""Byte-level BPE encoding of one word: a list of merges is applied to the word's bytes.

Of all adjacent pairs that have a merge, the pair whose merge has the lowest rank is merged. If this pair occurs several
times, its leftmost occurrence is merged. This is repeated until no adjacent pair has a merge.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, cast

from hf_sgpe import kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Pair = tuple[int, int]


class MergeTable:
    """A list of merges: the rank of each pair (``ranks``), and the token that each merge creates (``results``)."""

    def __init__(self, merges: Iterable[tuple[Pair, int]] = ()) -> None:
        self.ranks: dict[Pair, int] = {}
        self.results: list[int] = []
        for pair, result in merges:
            self.add(pair, result)

    def add(self, pair: Pair, result: int) -> None:
        """Append a merge with the next higher rank. If a pair has several merges, the last one counts."""
        self.ranks[pair] = len(self.results)
        self.results.append(result)


def apply_merges(ids: Sequence[int], table: MergeTable, fewest: int = 1) -> list[int]:
    """Apply all merges to ``ids``, and return the resulting tokens. The time is O(n log n) for any n ids.

    Merging stops early at ``fewest`` tokens.

    >>> apply_merges([97, 98, 97], MergeTable([((97, 98), 256)]))
    [256, 97]
    """
    left = len(ids)
    if left <= fewest:
        return list(ids)
    ranks, results = table.ranks, table.results
    tokens: list[int] = list(ids)
    # A merged token is stored in place of its left part. The place of the right part is marked as empty by -1.
    end = len(tokens)
    following = list(range(1, end + 1))
    previous = list(range(-1, end - 1))
    # Entries are (rank, place of the left part). The smallest entry has the lowest rank and is the leftmost of this rank.
    candidates = []
    for place in range(end - 1):
        rank = ranks.get((tokens[place], tokens[place + 1]))
        if rank is not None:
            candidates.append((rank, place))
    heapq.heapify(candidates)
    while candidates and left > fewest:
        rank, place = heapq.heappop(candidates)
        right = following[place]
        # A merge on either side may have changed the pair after it was pushed.
        if tokens[place] < 0 or right == end or ranks.get((tokens[place], tokens[right])) != rank:
            continue
        tokens[place], tokens[right] = results[rank], -1
        left -= 1
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
    """Return the bytes of all tokens, ordered by id: first ``tokens``, then one token for each merge."""
    spelled = list(tokens)
    for left, right in merges:
        spelled.append(spelled[left] + spelled[right])
    return spelled


def merge_words(
    words: Iterable[bytes],
    merges: Sequence[Pair],
    results: Sequence[int] | None = None,
    characters: Mapping[bytes, int] | None = None,
) -> Sequence[Sequence[int]]:
    """Merge the bytes of each word, and return the resulting tokens: lists, or a native object that needs less memory.

    Args:
        results: The token that each merge creates. If None, merge k creates token 256 + k.
        characters: Dict from characters in UTF-8 to their tokens, if merges join characters instead of bytes. A character
            that is not in the dict becomes its bytes.
    """
    numbered = list(zip(merges, range(256, 256 + len(merges)) if results is None else results, strict=True))
    if kernels.is_native():
        import hf_sgpe._native as _native

        triples = [(left, right, result) for (left, right), result in numbered]
        alphabet = list(characters.items()) if characters else []
        merged = _native.Encoder(range(256), triples, None, (), 0, characters=alphabet).merge_words(words)
        return cast("Sequence[Sequence[int]]", merged)
    table = MergeTable(numbered)
    return [apply_merges(symbols(word, characters), table) for word in words]


def symbols(
    word: bytes,
    characters: Mapping[bytes, int] | None,
    byte_ids: Sequence[int] = range(256),
    unknown: tuple[int, bool] | None = None,
) -> list[int]:
    """Return the tokens of a word before any merge: its bytes or, with ``characters``, its characters.

    Args:
        word: A word in UTF-8. If ``characters`` is None, any bytes are allowed.
        characters: See `merge_words`. Entries with more than one character are ignored.
        unknown: How to encode characters that are not in ``characters``. The first value is their token, and the second is
            whether a run of them becomes a single token. If None, they become the tokens of their bytes.

    >>> symbols("éab".encode(), {"é".encode(): 300}, unknown=(0, True))
    [300, 0]
    """
    if not characters:
        return [byte_ids[byte] for byte in word]
    ids: list[int] = []
    was_known = True
    for character in word.decode():
        encoded = character.encode()
        is_known = encoded in characters
        if is_known:
            ids.append(characters[encoded])
        elif unknown is None:
            ids += [byte_ids[byte] for byte in encoded]
        elif was_known or not unknown[1]:
            ids.append(unknown[0])
        was_known = is_known
    return ids


def unreached_words(vocab: Collection[bytes], merges: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """Return the tokens that merges cannot build from bytes. Such a token is used only if it is a whole word. Tokens that
    contain incomplete characters are left out.
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
    """Return one array of the ids of all sequences, and another array with the position where each sequence ends."""
    import numpy as np

    if kernels.is_native():
        import hf_sgpe._native as _native

        if isinstance(sequences, _native.Sequences):
            return sequences.arrays()
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    return np.fromiter(chain.from_iterable(sequences), np.int32, int(lengths.sum())), np.cumsum(lengths)
