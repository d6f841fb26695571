"""The slow twins of the trainer and of the encoder: they follow the rules of BPE literally."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from hf_sgpe.bpe.merging import MergeTable

Token = TypeVar("Token")


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
        state = [merged(word, best, len(tokens)) for word in state]
        tokens.append(tokens[best[0]] + tokens[best[1]])
    return merges


def merged(word: Sequence[Token], pair: tuple[Token, Token], token: Token) -> list[Token]:
    result, place = [], 0
    while place < len(word):
        if (word[place], *word[place + 1 : place + 2]) == pair:
            result.append(token)
            place += 2
        else:
            result.append(word[place])
            place += 1
    return result


def apply_merges_by_rescan(ids: Sequence[int], table: MergeTable) -> list[int]:
    """Scan all pairs, apply the best merge, and start over."""
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
