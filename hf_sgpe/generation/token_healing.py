"""Token healing: a better continuation of prompts that end inside a token.

If a prompt ends inside a word, the model has rarely seen the prompt's last tokens in this position. For ``" strugg"``, the
model would choose the token ``" struggling"``, but the tokens of the prompt exclude this token. Healing removes the last
tokens of the prompt and lets the model choose them again. At each step the model may choose the removed token, or any longer
token that begins with all removed bytes that are still missing. The text of the prompt stays the same, byte for byte; only
its tokens may change. Healing also covers a prompt that ends in a space.

Source: Lundberg, "The Art of Prompt Design: Prompt Boundaries and Token Healing" (2023).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import numpy as np

from hf_sgpe.generation.engines.engine import Logits


class Healer:
    """A search for the tokens of a prompt that are chosen again.

    Args:
        vocab: The ids of all tokens except special tokens, keyed by the tokens' bytes.

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
        """Return the ids of the tokens that begin with ``beginning`` and are longer."""
        first = bisect_left(self._tokens, beginning + b"\0")
        # The smallest byte string above all strings with this prefix.
        stem = beginning.rstrip(b"\xff")
        after_all = bisect_left(self._tokens, stem[:-1] + bytes([stem[-1] + 1])) if stem else len(self._tokens)
        return self._ids[first:after_all]

    def bytes_of(self, ids: Sequence[int]) -> bytes:
        return b"".join(map(self._bytes_of.__getitem__, ids))

    def taken_back(self, ids: Sequence[int]) -> int:
        """Return how many tokens to remove from the end of a prompt, so that the model chooses them again.

        These are the tokens that a longer token could replace, except the first token of the prompt. Their text begins at a
        character boundary.
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
    """A `Watch` that makes the first tokens of an answer repeat the bytes of the removed tokens, ``taken``."""

    def __init__(self, healer: Healer, taken: Sequence[int]) -> None:
        self.taken = taken
        self._healer = healer
        self._left = list(taken)

    def __call__(self, last: int | None, logits: Logits) -> Logits | None:
        """Return logits in which only allowed tokens are possible, or None if all tokens are possible."""
        if self._left and last is not None:
            # If the last token is not the removed token, it contained all remaining bytes.
            self._left = self._left[1:] if last == self._left[0] else []
        if not self._left:
            return None
        allowed = [self._left[0], *self._healer.going_on(self._healer.bytes_of(self._left))]
        masked = np.full_like(logits, -np.inf)
        masked[allowed] = logits[allowed]
        return masked

    def at_most(self, ids: Iterator[int], tokens: int) -> Iterator[int]:
        """Yield the first tokens of an answer: the removed tokens that the model chose again, and ``tokens`` tokens more."""
        left = list(self.taken)
        with closing(ids):  # type: ignore[type-var]
            for id in ids:
                if left and id == left[0]:
                    left.pop(0)
                else:  # its text ends after the prompt
                    left.clear()
                    tokens -= 1
                yield id
                if not tokens:
                    return


def _is_inside(token: bytes) -> bool:
    """Return whether the first byte of a token continues a character that began in an earlier token."""
    return token[0] & 0xC0 == 0x80
