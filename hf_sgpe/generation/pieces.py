"""What a generation gives: pieces of an answer with their tokens, its progress, and how probable a text is."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, log
from typing import Literal, NamedTuple

from hf_sgpe.generation.engines.engine import ScoredToken


@dataclass
class Progress:
    """What a generation has done so far.

    Attributes:
        prompt_tokens: Tokens in the prompt.
        tokens: Tokens generated, without one that stopped.
        first: Seconds until the first of them, which is how long the prompt took; None before there is one.
        seconds: Since the beginning.
    """

    prompt_tokens: int
    tokens: int = 0
    first: float | None = None
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Of what was generated, without the time that the prompt took."""
        spent = self.seconds - (self.first or 0.0)
        return (self.tokens - 1) / spent if self.tokens > 1 and spent > 0 else 0.0


class PlacedToken(NamedTuple):
    """A token of an answer, how probable it was, and where it is.

    Attributes:
        token: With its log-probability.
        place: Characters of the answer before it, or before the character that it is a part of.
    """

    token: ScoredToken
    place: int


class Piece(NamedTuple):
    """A part of an answer.

    Attributes:
        text: Whole characters; none in the last piece.
        generated: Tokens of the answer until now, with those that a text to stop at was made of.
        finish_reason: In the last piece: ``stop`` where a token or a text ended the answer, ``length`` where
            ``max_new_tokens`` or the context did.
        tokens: Where they are asked for, those whose text has begun to come, each in one piece. What is only a part of a
            text to stop at is in none.
    """

    text: str
    generated: int
    finish_reason: Literal["stop", "length"] | None = None
    tokens: tuple[PlacedToken, ...] = ()


@dataclass(frozen=True)
class Score:
    """How probable a text is to a model.

    Where the tokenizer puts a special token before a text, all of the text is predicted. Otherwise nothing says how probable
    its first token is: that is given, and the rest is predicted from it.

    Attributes:
        ids: Of the tokens that were predicted.
        tokens: Their bytes; a character may be spread over several.
        logprobs: Their log-probabilities, to the base e, each given all tokens before it.
        given: The bytes of the first token, or none where it was predicted, too.
        bytes: In UTF-8, of the whole text as it came or, where its first token is given, of the tokens that were predicted.
    """

    ids: tuple[int, ...]
    tokens: tuple[bytes, ...]
    logprobs: tuple[float, ...]
    given: bytes
    bytes: int

    @property
    def total(self) -> float:
        """The log-probability of all that was predicted."""
        return fsum(self.logprobs)

    @property
    def bits_per_byte(self) -> float:
        """How many bits the model needs for a byte, as ``hf-sgpe evaluate --model`` counts them."""
        return -self.total / log(2) / self.bytes
