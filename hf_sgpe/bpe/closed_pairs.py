"""Closed pairs: a list of merges with which SentencePiece and ``tokenizers`` return the same ids.

SentencePiece has no list of merges. It joins any two neighbours whose joined text is a token, the one with the best score
first, and of equal ones the leftmost. ``tokenizers`` joins the pairs of a list, each of which has its own rank. The two agree
if the list has every pair of tokens that makes a token, all pairs of one token next to each other, in the order of the scores.

One difference is left: to SentencePiece, two pairs that make the same token are equal, so the leftmost one wins; in a list one
of them comes first. It matters where two occurrences share a symbol. In ``X M Y`` with ``X + M == M + Y``, the second part of
the left pair is the beginning of the token, so such pairs come first in `pairs_of`. A token that is a repeated text
(``M + X == X + M``) has no such order; in runs of one character only one of its pairs can occur, since SentencePiece joins
runs from the left. The other case is a token with a better score than a token inside it, of which two overlap or touch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from hf_sgpe.errors import SGPEError

Token = TypeVar("Token", str, bytes)


def pairs_of(token: Token, parts: Collection[Token]) -> list[tuple[Token, Token]]:
    """Return all pairs of ``parts`` that make a token, in the order of their ranks.

    >>> pairs_of("aba", {"a", "ab", "b", "ba"})
    [('ab', 'a'), ('a', 'ba')]
    """
    splits = ((token[:end], token[end:]) for end in range(len(token) - 1, 0, -1))
    found = [(left, right) for left, right in splits if left in parts and right in parts]
    return sorted(found, key=lambda pair: not token.startswith(pair[1])) if len(found) > 1 else found


def closed(merges: Iterable[tuple[Token, Token]], parts: Collection[Token]) -> list[tuple[Token, Token]]:
    """Return merges with every pair that makes one of their tokens, at the place of the token's first merge.

    Pairs of one token keep their order. A missing pair whose second part begins the token is put before them, any other
    missing pair after them.

    Args:
        merges: Pairs in the order of their ranks.
        parts: Tokens that may be parts of a pair: all tokens that can be neighbours, and no added tokens, which are taken out
            of the text before merging.

    >>> closed([("a", "b"), ("b", "c"), ("ab", "c")], {"a", "b", "c", "ab", "bc"})
    [('a', 'b'), ('b', 'c'), ('ab', 'c'), ('a', 'bc')]
    """
    made: dict[Token, list[tuple[Token, Token]]] = {}
    for left, right in merges:
        made.setdefault(left + right, []).append((left, right))
    result: list[tuple[Token, Token]] = []
    for token, listed in made.items():
        missing = [pair for pair in pairs_of(token, parts) if pair not in listed]
        early = [pair for pair in missing if token.startswith(pair[1])]
        result += [*early, *listed, *(pair for pair in missing if pair not in early)]
    return result


def check_closed(merges: Sequence[tuple[bytes, bytes]], parts: Collection[bytes]) -> None:
    """Check that SentencePiece would join the same pairs in the same order.

    Args:
        merges: Pairs in the order of their ranks.
        parts: As for `closed`.

    Raises:
        SGPEError: a pair is missing, or the merges of a token are apart; the message names the first one.
    """
    listed = set(merges)
    finished: set[bytes] = set()
    last = b""
    for left, right in merges:
        token = left + right
        if token == last:
            continue
        if token in finished:
            raise SGPEError(
                f"the merges of the token {token.decode()!r} are apart, so SentencePiece would join "
                f"{left.decode()!r} and {right.decode()!r} earlier: {_REMEDY}"
            )
        finished.add(token)
        last = token
    for token in parts:
        for left, right in pairs_of(token, parts):
            if (left, right) not in listed:
                raise SGPEError(
                    f"SentencePiece would join {left.decode()!r} and {right.decode()!r} to the token {token.decode()!r}, "
                    f"which no merge does: {_REMEDY}"
                )


_REMEDY = "close the pairs before saving (hf_sgpe.bpe.closed_pairs.closed)"
