"""Closed lists of merges, with which SentencePiece and ``tokenizers`` return the same ids.

SentencePiece has no list of merges. It joins any two neighbouring tokens whose joined text is a token. The token with the
best score is made first. If scores are equal, the leftmost token is made first. ``tokenizers`` joins only the pairs in a
list, and each pair has its own rank.

SentencePiece and ``tokenizers`` return the same ids for every text on two conditions. The list must be closed: it contains
every pair of tokens whose joined text is a token. And the scores must put the tokens in the order that `in_order` returns.

These conditions are sufficient for the following reason. Until a merge crosses the edge of a token's text, the merges inside
this text do not depend on the text around it. So a token is always made from the same two parts: the parts that are joined
last if the token's text is encoded alone. In both programs, only this pair ever makes the token. The ranks of other pairs
with the same joined text do not matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from hf_sgpe.errors import SGPEError

Token = TypeVar("Token", str, bytes)


def pairs_of(token: Token, parts: Collection[Token]) -> list[tuple[Token, Token]]:
    """Return all pairs of tokens in ``parts`` whose joined text is ``token``."""
    ends = range(1, len(token))
    return [(token[:end], token[end:]) for end in ends if token[:end] in parts and token[end:] in parts]


def in_order(merges: Sequence[tuple[Token, Token]]) -> list[Token]:
    """Return the tokens that the merges produce, sorted by rank. If several pairs join to the same token, the pair that
    makes the token when its text is encoded alone determines the token's rank.

    >>> in_order([("a", "b"), ("ab", "c"), ("b", "c"), ("a", "bc")])  # a + bc never makes abc
    ['ab', 'abc', 'bc']
    """
    places = _places_of(merges)
    return sorted(places, key=places.__getitem__)


def _places_of(merges: Sequence[tuple[Token, Token]]) -> dict[Token, int]:
    """Return the rank of each token; see `in_order`."""
    places: dict[Token, list[int]] = defaultdict(list)
    last: Token | None = None
    for place, (left, right) in enumerate(merges):
        if (token := left + right) != last:
            places[token].append(place)
            last = token
    if any(len(found) > 1 for found in places.values()):
        ranks = {pair: rank for rank, pair in enumerate(merges)}
        for token, found in places.items():
            if len(found) > 1:
                text = token.decode() if isinstance(token, bytes) else token
                symbols = [character.encode() if isinstance(token, bytes) else character for character in text]
                found[0] = rank_of_last_merge(symbols, ranks, default=found[0])
    return {token: found[0] for token, found in places.items()}


def rank_of_last_merge(symbols: list[Token], ranks: Mapping[tuple[Token, Token], int], *, default: int) -> int:
    """Merge the symbols of a token's text, and return the rank of the last merge. If they do not become this token, return
    ``default``.
    """
    rank = default
    while len(symbols) > 1:
        found = [(ranks[pair], place) for place, pair in enumerate(pairwise(symbols)) if pair in ranks]
        if not found:
            return default
        rank, place = min(found)
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
    return rank


def closed(
    merges: Iterable[tuple[Token, Token]], parts: Collection[Token], *, only: Callable[[Token], bool] | None = None
) -> list[tuple[Token, Token]]:
    """Close a list of merges: add every missing pair that joins to a token of the list. Return all pairs, ordered by the
    ranks of their tokens (see `in_order`).

    Args:
        parts: Tokens that may be parts of a pair: all tokens produced by the merges, and the tokens that exist before
            merging. Added tokens are not included, because they are taken out of the text before merging.
        only: Function that returns whether to add pairs that join to a token. None means every token.

    >>> closed([("a", "b"), ("b", "c"), ("ab", "c")], {"a", "b", "c", "ab", "bc"})
    [('a', 'b'), ('b', 'c'), ('ab', 'c'), ('a', 'bc')]
    """
    listed = list(merges)
    made: dict[Token, dict[tuple[Token, Token], None]] = defaultdict(dict)
    for left, right in listed:
        made[left + right][left, right] = None
    groups: list[tuple[int, Iterable[tuple[Token, Token]]]] = []
    for token, place in _places_of(listed).items():
        if only is None or only(token):
            groups.append((place, made.pop(token) | dict.fromkeys(pairs_of(token, parts))))
    groups += [(place, [pair]) for place, pair in enumerate(listed) if pair[0] + pair[1] in made]
    return [pair for _, pairs in sorted(groups, key=lambda group: group[0]) for pair in pairs]


def check_closed(merges: Iterable[tuple[bytes, bytes]], parts: Iterable[bytes]) -> None:
    """Check that the merges, pairs of tokens in UTF-8, contain every pair of ``parts`` that SentencePiece would join."""
    listed, parts = set(merges), frozenset(parts)
    for token in parts:
        for left, right in pairs_of(token, parts):
            if (left, right) not in listed:
                raise SGPEError(
                    f"SentencePiece would join {left.decode()!r} and {right.decode()!r} to the token {token.decode()!r}, "
                    "but the merges lack this pair: add it before saving (hf_sgpe.bpe.closed_pairs.closed)"
                )
