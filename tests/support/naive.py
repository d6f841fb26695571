"""The slow twin of the trainer: recount every pair after every merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise


def learn_by_recount(
    words: Sequence[Sequence[int]],
    counts: Sequence[int],
    *,
    vocabulary: Sequence[bytes],
    num_merges: int,
    tie_break: str,
    min_frequency: int = 1,
) -> list[tuple[int, int]]:
    state = [list(word) for word in words]
    tokens = list(vocabulary)
    merges: list[tuple[int, int]] = []
    for _ in range(num_merges):
        pair_counts: Counter[tuple[int, int]] = Counter()
        for word, count in zip(state, counts, strict=True):
            for pair in pairwise(word):
                pair_counts[pair] += count
        pair_counts = +pair_counts
        if not pair_counts:
            break
        most = max(pair_counts.values())
        if most < min_frequency:
            break
        tied = [pair for pair, count in pair_counts.items() if count == most]
        if tie_break == "smallest-pair-id":
            best = min(tied)
        elif tie_break == "greatest-pair-id":
            best = max(tied)
        else:
            best = max(tied, key=lambda pair: (tokens[pair[0]], tokens[pair[1]]))
        merges.append(best)
        state = [_merge(word, best, len(tokens)) for word in state]
        tokens.append(tokens[best[0]] + tokens[best[1]])
    return merges


def _merge(word: list[int], pair: tuple[int, int], new_id: int) -> list[int]:
    merged, place = [], 0
    while place < len(word):
        if tuple(word[place : place + 2]) == pair:
            merged.append(new_id)
            place += 2
        else:
            merged.append(word[place])
            place += 1
    return merged
