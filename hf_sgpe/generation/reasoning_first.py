"""Answers that follow a rule, such as a JSON schema, only after the model's reasoning."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hf_sgpe.chat.reasoning import Place, ReasoningMarks
from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.engines.engine import Logits, Watch, without_tokens
from hf_sgpe.generation.structured_output import Constrainer
from hf_sgpe.tokenizer import BPETokenizer


@dataclass(frozen=True)
class MarkTokens:
    """The tokens of the marks before and after a model's reasoning, such as ``<think>`` and ``</think>``.

    Args:
        closing: Bytes of the closing mark.
        closing_id: Id of the closing mark, or None if the mark is not a token.
        across: If the closing mark is not a token: the ids that `Constrainer.tokens_across` returns for it.
    """

    opening: tuple[int, ...]
    closing: bytes
    closing_id: int | None
    across: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, marks: ReasoningMarks, tokenizer: BPETokenizer, constrainer: Constrainer) -> MarkTokens:
        added = tokenizer.added_ids
        opening = (added[marks.opening],) if marks.opening in added else tuple(tokenizer.encode_inside(marks.opening))
        closing, closing_id = marks.closing.encode(), added.get(marks.closing)
        return cls(opening, closing, closing_id, constrainer.tokens_across(closing) if closing_id is None else ())


class ReasoningFirst:
    """A `Watch` that applies a rule only after the reasoning of the answer.

    If the answer begins before the reasoning, the model chooses: either it begins to reason with the opening mark, or the
    rule applies from the first token. Inside the reasoning, every token is allowed except those that end an answer, so that
    each complete answer follows the rule.

    Args:
        stop_ids: Tokens that end an answer.
    """

    def __init__(
        self, rule: Watch, tokens: MarkTokens, place: Place, tokenizer: BPETokenizer, stop_ids: Collection[int]
    ) -> None:
        self._rule = rule
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._place: Place = place
        self._stop_ids = list(stop_ids)
        self._opened = 0  # the number of tokens of the opening mark, before the reasoning
        self._may_open = False
        self._end = b""  # the last bytes of the reasoning

    def __call__(self, last: int | None, logits: Logits) -> Logits | None:
        """Return the logits, with minus infinity for tokens that are not allowed."""
        if self._place == "before":
            return self._before(last, logits)
        if self._place == "inside":
            if last is None or not self._closes(last):
                return self._inside(logits)
            self._place, last = "after", None
        return self._rule(last, logits)

    def _before(self, last: int | None, logits: Logits) -> Logits | None:
        opening = self._tokens.opening
        if last is None:
            allowed = self._rule(None, logits)
            self._may_open = allowed is not None and bool(np.isneginf(allowed[opening[0]]))
            if allowed is not None and self._may_open:
                allowed = allowed.copy()
                allowed[opening[0]] = logits[opening[0]]
            return allowed
        if not self._opened and not (self._may_open and last == opening[0]):
            self._place = "after"
            return self._rule(last, logits)
        self._opened += 1
        if self._opened < len(opening):
            only = np.full_like(logits, -np.inf)
            only[opening[self._opened]] = logits[opening[self._opened]]
            return only
        self._place = "inside"
        return self._inside(logits)

    def _closes(self, last: int) -> bool:
        """Return whether a token of the reasoning completes the closing mark."""
        tokens = self._tokens
        if tokens.closing_id is not None:
            return last == tokens.closing_id
        self._end = (self._end + self._bytes_of(last))[-len(tokens.closing) :]
        return self._end == tokens.closing

    def _inside(self, logits: Logits) -> Logits:
        """Return logits that forbid the end of the answer, and tokens that extend beyond the closing mark."""
        forbidden, closing = self._stop_ids.copy(), self._tokens.closing
        if self._tokens.closing_id is None:
            for place in range(len(closing)):
                if self._end.endswith(closing[:place]):
                    forbidden += self._tokens.across[place]
        return without_tokens(logits, forbidden)

    def _bytes_of(self, id: int) -> bytes:
        try:
            return self._tokenizer.token_bytes(id)
        except SGPEError:  # a row that pads the embedding
            return b""
