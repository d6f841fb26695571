"""Token healing: going on from a prompt that ends where none of the model's tokens would.

A prompt cut off inside a word ends in tokens that the model has rarely seen there: after ``" strugg"`` it knows of the token
``" struggling"``, which can no longer come. So the last tokens are taken back and chosen again: at each of them, the model
may take the same one, or any token that begins with all the bytes that are left and has more. The text of the prompt stays
as it is, to the byte; which tokens it is made of is for the model to say. A space at the end of a prompt is healed by this,
too.

Described by Lundberg, "The Art of Prompt Design: Prompt Boundaries and Token Healing" (2023).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np

from hf_sgpe.generation.engines.engine import Logits


class Healer:
    """The tokens of a vocabulary in the order of their bytes, to look up those that begin with some bytes.

    Args:
        vocab: Bytes → id, without special tokens.

    >>> healer = Healer({b"a": 0, b"b": 1, b"ab": 2, b"abc": 3})
    >>> healer.going_on(b"ab"), healer.taken_back([1, 0, 1])
    ([3], 2)
    """

    def __init__(self, vocab: Mapping[bytes, int]) -> None:
        self._tokens = sorted(vocab)
        self._ids = [vocab[token] for token in self._tokens]
        self._bytes_of = dict(zip(self._ids, self._tokens, strict=True))
        self._longest = max(map(len, self._tokens), default=0)

    def going_on(self, beginning: bytes) -> list[int]:
        """Return the ids of the tokens that begin with these bytes, and have more."""
        first = bisect_left(self._tokens, beginning + b"\0")
        # The least bytes that are greater than all that begin with these.
        stem = beginning.rstrip(b"\xff")
        after_all = bisect_left(self._tokens, stem[:-1] + bytes([stem[-1] + 1])) if stem else len(self._tokens)
        return self._ids[first:after_all]

    def bytes_of(self, ids: Sequence[int]) -> bytes:
        """Return the bytes of tokens."""
        return b"".join(map(self._bytes_of.__getitem__, ids))

    def taken_back(self, ids: Sequence[int]) -> int:
        """Return how many of a prompt's tokens to choose again: those a longer token could replace, but never the first.

        What is taken back begins with a whole character.
        """
        ending, number = b"", 0
        for count, id in enumerate(reversed(ids[1:]), 1):
            if id not in self._bytes_of or len(ending) >= self._longest:
                break
            ending = self._bytes_of[id] + ending
            if self.going_on(ending):
                number = count
        while number and number < len(ids) - 1 and _is_inside(self._bytes_of[ids[-number]]):
            number += 1
        return number if number and not _is_inside(self._bytes_of[ids[-number]]) else 0


class Healing:
    """Watches the first tokens of an answer, so that they begin with what was taken back.

    Args:
        taken: The tokens that were taken back, one at least.
    """

    def __init__(self, healer: Healer, taken: Sequence[int]) -> None:
        self._healer = healer
        self._left = list(taken)

    def __call__(self, last: int | None, logits: Logits) -> Logits | None:
        """Return the logits to choose from, as `hf_sgpe.generation.engines.engine.Watch`."""
        if self._left and last is not None:
            # Any other token had all that was left in it.
            self._left = self._left[1:] if last == self._left[0] else []
        if not self._left:
            return None
        allowed = [self._left[0], *self._healer.going_on(self._healer.bytes_of(self._left))]
        others = np.full_like(logits, -np.inf)
        others[allowed] = logits[allowed]
        return others


def _is_inside(token: bytes) -> bool:
    """Return whether a token begins inside a character."""
    return token[0] & 0xC0 == 0x80
