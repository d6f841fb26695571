"""Neighbours: pairs of characters that are adjacent in some token. A text can be cut between any two other characters.

A tokenizer without a split pattern merges across the whole text. But if two characters are not adjacent in any token, no
merge joins them. So if a text is cut between these characters and its parts are encoded separately, the ids stay the same.
Gemma 3's tokens have 34,012 pairs of neighbours, and Mistral 7B's have 3,162.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from itertools import pairwise

from hf_sgpe.vocabulary.byte_strings import SPACE_MARK


class Neighbours:
    """The pairs of neighbouring characters in the tokens of a vocabulary.

    Args:
        tokens: Tokens as UTF-8.
        cuts_at_spaces: Whether to cut before every space, even after a character that precedes a space in some token.
        keeps_unknown: Whether not to cut between two characters that have no token. Set it if a run of such characters
            becomes one token.

    >>> neighbours = Neighbours([b" the", b"e."])
    >>> neighbours.split("the the. the")
    ['the', ' the.', ' the']
    """

    def __init__(self, tokens: Collection[bytes], *, cuts_at_spaces: bool = False, keeps_unknown: bool = False) -> None:
        import numpy as np

        # A lone surrogate occurs in no token, so it separates the tokens.
        joined = "\ud800".join(token.decode() for token in tokens)
        points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
        keys = np.unique(points[:-1] << 32 | points[1:])
        left, right = keys >> 32, keys & 0xFFFFFFFF
        inside = (left != 0xD800) & (right != 0xD800)
        if cuts_at_spaces:
            inside &= right != ord(" ")
        self.pairs: list[tuple[int, int]] = list(zip(left[inside].tolist(), right[inside].tolist(), strict=True))
        known = {token.decode() for token in tokens if is_character(token)} if keeps_unknown else set()
        self._known = frozenset({*known, " "} if keeps_unknown and cuts_at_spaces else known)
        self._keeps_unknown = keeps_unknown

    @cached_property
    def _texts(self) -> frozenset[str]:
        return frozenset(chr(left) + chr(right) for left, right in self.pairs)

    def split(self, text: str) -> list[str]:
        """Cut a text between all characters that are not neighbours in any token."""
        parts, start = [], 0
        for place, (left, right) in enumerate(pairwise(text), 1):
            if self._are_apart(left, right):
                parts.append(text[start:place])
                start = place
        return [*parts, text[start:]] if text else []

    def last_cut(self, text: str) -> int:
        """Return the last position at which a text can be cut, or 0. The text may have U+2581 instead of spaces."""
        text = text.replace(SPACE_MARK, " ")
        return next((place for place in range(len(text) - 1, 0, -1) if self._are_apart(*text[place - 1 : place + 1])), 0)

    def _are_apart(self, left: str, right: str) -> bool:
        if left + right in self._texts:
            return False
        return not self._keeps_unknown or left in self._known or right in self._known


def is_character(token: bytes) -> bool:
    """Return whether a token (UTF-8) is a single character."""
    return len(token) < 5 and len(token.decode()) == 1
