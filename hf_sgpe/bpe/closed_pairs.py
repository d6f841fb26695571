"""Closed pairs: lists of merges with which SentencePiece and ``tokenizers`` return the same ids.

SentencePiece has no list of merges. It joins any two neighbours whose joined text is a token, the best score first, and of
equal scores the leftmost. ``tokenizers`` joins only the pairs of a list, and each pair has its own rank. The two return the
same ids for every text if the list has each pair of tokens that makes a token, the pairs of a token next to each other, and
the tokens in the order of their scores, which are all different.

The order of the pairs of one token does not matter. Until a merge crosses the edge of a token's text, the merges inside do
not depend on the text around it. So before a token is made, its text is always cut in the same way: as when it is encoded
alone. Only one of its pairs ever makes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from hf_sgpe.errors import SGPEError

Token = TypeVar("Token", str, bytes)
_REMEDY = "close the pairs before saving (hf_sgpe.bpe.closed_pairs.closed)"


def pairs_of(token: Token, parts: Collection[Token]) -> list[tuple[Token, Token]]:
    """Return all pairs of ``parts`` that make a token.

    >>> pairs_of("aba", {"a", "ab", "b", "ba"})
    [('a', 'ba'), ('ab', 'a')]
    """
    ends = range(1, len(token))
    return [(token[:end], token[end:]) for end in ends if token[:end] in parts and token[end:] in parts]


def closed(merges: Iterable[tuple[Token, Token]], parts: Collection[Token]) -> list[tuple[Token, Token]]:
    """Return merges with every pair that makes one of their tokens, at the place of the token's first merge.

    Args:
        merges: Pairs in the order of their ranks.
        parts: Tokens that may be parts of a pair: all tokens that merging can make or begins with. Added tokens, which are
            taken out of the text before merging, are not among them.

    >>> closed([("a", "b"), ("b", "c"), ("ab", "c")], {"a", "b", "c", "ab", "bc"})
    [('a', 'b'), ('b', 'c'), ('ab', 'c'), ('a', 'bc')]
    """
    made: dict[Token, dict[tuple[Token, Token], None]] = {}
    for left, right in merges:
        made.setdefault(left + right, {})[left, right] = None
    return [pair for token, listed in made.items() for pair in listed | dict.fromkeys(pairs_of(token, parts))]


def check_closed(merges: Sequence[tuple[bytes, bytes]], parts: Collection[bytes]) -> None:
    """Check that SentencePiece joins the same pairs in the same order, if the tokens' scores have the order of the merges.

    Args:
        merges: Pairs in the order of their ranks, of tokens in UTF-8.
        parts: As for `closed`.

    Raises:
        SGPEError: a pair is missing, or the merges of a token are apart; the message names the first such pair.
    """
    made: set[bytes] = set()
    last = b""
    for left, right in merges:
        if (token := left + right) == last:
            continue
        if token in made:
            raise SGPEError(
                f"the merges of the token {token.decode()!r} are apart, and SentencePiece would join {left.decode()!r} and "
                f"{right.decode()!r} earlier: {_REMEDY}"
            )
        made.add(token)
        last = token
    listed = set(merges)
    for token in parts:
        for left, right in pairs_of(token, parts):
            if (left, right) not in listed:
                raise SGPEError(
                    f"SentencePiece would join {left.decode()!r} and {right.decode()!r} to the token {token.decode()!r}, "
                    f"which no merge does: {_REMEDY}"
                )
