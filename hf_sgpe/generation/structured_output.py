"""Answers that follow a JSON schema, a regular expression or a grammar, on every engine.

llguidance reads the rules and computes which tokens may come next. It treats each token as bytes. So every vocabulary works,
even if a character is spread over several tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.generation.engines.engine import Logits, Watch
from hf_sgpe.generation.json_schemas import LIMITS, check_length, closed
from hf_sgpe.generation.rule_trial import PlainVocabulary, RuleTrial
from hf_sgpe.tokenizer import BPETokenizer

# With unlimited white space, an answer could continue to its maximum length and never be complete. With the last option,
# llguidance leaves out what it does not support, such as an unknown format, and reports it.
_OPTIONS = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?", "lenient": True}


@dataclass(frozen=True)
class Rule:
    """A rule for the text of an answer.

    Args:
        source: The rule in llguidance's own format.
    """

    source: str

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any]) -> Rule:
        """Return the rule that the answer must be JSON that is valid for a schema.

        The JSON is on one line. Its objects contain only the properties that the schema lists, unless the schema contains
        ``additionalProperties`` or combines schemas.
        """
        return cls(_library().LLMatcher.grammar_from_json_schema(closed(schema), overrides=_OPTIONS))

    @classmethod
    def regex(cls, pattern: str) -> Rule:
        """Return the rule that a regular expression in Rust's syntax must match the whole answer."""
        check_length("characters of the regular expression", len(pattern), LIMITS.characters)
        return cls(_library().LLMatcher.grammar_from_regex(pattern))

    @classmethod
    def one_of(cls, texts: Sequence[str]) -> Rule:
        """Return the rule that the answer must be one of ``texts``."""
        check_length("texts to choose from", len(texts), LIMITS.values)
        return cls.grammar("start: " + " | ".join(map(literal, texts)))

    @classmethod
    def grammar(cls, text: str) -> Rule:
        """Return the rule that the answer must match a grammar in Lark's syntax, or in llama.cpp's GBNF."""
        if _LARK.search(text):
            check_length("characters of the grammar", len(text), LIMITS.written)
            return cls(_library().LLMatcher.grammar_from_lark(text))
        check_length("characters of the grammar in GBNF", len(text), LIMITS.gbnf)
        try:
            return cls(_library().grammar_from("gbnf", text))
        except ValueError as error:
            raise SGPEError(_in_one_line(str(error)) or _UNREADABLE) from None


class RuleError(SGPEError):
    """The error of an answer that its rule does not allow to continue, as no token of the vocabulary can follow."""


def literal(text: str) -> str:
    """Return a text as a quoted string literal for a Lark grammar."""
    return json.dumps(text, ensure_ascii=False)


def embedded(schema: Mapping[str, Any]) -> str:
    """Return the rule of `Rule.json_schema` as text that can be inserted into a Lark grammar."""
    return f"%json {json.dumps({**closed(schema), 'x-guidance': _OPTIONS}, ensure_ascii=False)}"


class Constrainer:
    """The vocabulary of a model, prepared for checking rules and for applying them to answers.

    Args:
        vocab_size: Number of rows of the model's embedding.
    """

    def __init__(self, tokenizer: BPETokenizer, vocab_size: int) -> None:
        library = _library()
        added = {*tokenizer.special_tokens.values(), *tokenizer.added_tokens.values()}
        ids = set(tokenizer.get_vocab().values()) - added
        # The last row is an invented stop token, because the real stop tokens differ between requests. Tokens that are not
        # text need different names. llguidance marks them with a byte that no text contains.
        rows = range(vocab_size + 1)
        tokens = [tokenizer.token_bytes(id) if id in ids else f"<{id}>".encode() for id in rows]
        vocabulary = _Vocabulary(tokenizer, tokens, sorted({*rows} - ids))
        wrapped = library.TokenizerWrapper(vocabulary)
        self._size = vocab_size
        self._texts = {id: tokens[id] for id in ids if id < vocab_size}
        self._tokens = library.LLTokenizer(wrapped, n_vocab=vocab_size + 1, eos_token=vocab_size)
        self._trial = RuleTrial(vocabulary.tokens, vocabulary.special_token_ids)
        self._try = lru_cache(64)(self._trial)
        self._matcher = lru_cache(8)(self._compiled)
        self.tokens_across = lru_cache(8)(self._tokens_across)

    def check(self, rule: Rule) -> tuple[str, ...]:
        """Check that a rule is valid and supported, in a separate process (`hf_sgpe.generation.rule_trial`). Return the
        constraints of the rule that llguidance does not apply, such as an unknown format.
        """
        problem, left_out = self._try(rule.source)
        if problem:
            raise SGPEError(_in_one_line(problem) or _UNREADABLE)
        return left_out

    def close(self) -> None:
        """End the separate process and all checks that wait for it."""
        self._trial.close()

    def watch(self, rule: Rule, stop_ids: Collection[int]) -> Watch:
        """Return a `Watch` that makes a single answer follow the rule. Call `check` before for a rule of another person."""
        stop_ids = [id for id in stop_ids if id < self._size]
        if not stop_ids:
            raise SGPEError("the model has no token that ends an answer: set eos_token_id to its end-of-text token")
        return _Constrained(self._matcher(rule.source).deep_copy(), stop_ids, self._size)

    def _compiled(self, source: str) -> Any:
        matcher = _library().LLMatcher(self._tokens, source, log_level=0)
        if matcher.is_error():
            raise SGPEError(_in_one_line(matcher.get_error()))
        return matcher

    def _tokens_across(self, mark: bytes) -> tuple[tuple[int, ...], ...]:
        """Return the ids of all tokens that contain the end of a mark and further bytes after it.

        The tokens are grouped by the number of bytes of the mark that come before the token. So group 0 consists of the
        tokens that contain the whole mark.
        """
        across: list[list[int]] = [[] for _ in mark]
        for id, token in self._texts.items():
            if mark in token and not token.endswith(mark):
                across[0].append(id)
            for place in range(1, len(mark)):
                if len(token) > len(mark) - place and token.startswith(mark[place:]):
                    across[place].append(id)
        return tuple(map(tuple, across))


class _Constrained:
    """A `Watch` that allows only tokens with which the answer can follow a rule.

    Special and other added tokens are not allowed. A stop token is allowed as soon as the text is complete.
    """

    def __init__(self, matcher: Any, stop_ids: Collection[int], size: int) -> None:
        self._matcher = matcher
        self._stop_ids = sorted(stop_ids)
        self._size = size
        self._is_over = False

    def __call__(self, last: int | None, logits: Logits) -> Logits | None:
        """Return a copy of the logits with minus infinity for each token that is not allowed, or None after the end of the
        answer.
        """
        self._is_over = self._is_over or last in self._stop_ids
        if self._is_over:
            return None
        if last is not None:
            self._matcher.consume_token(last)
        allowed = self._allowed()
        if self._matcher.is_error() or not allowed.any():
            reason = _in_one_line(self._matcher.get_error().partition("<state>")[0]) or "no token can follow"
            raise RuleError(f"the answer cannot follow its rule with the tokens of this vocabulary: {reason}")
        return np.where(allowed[: len(logits)], logits, np.float32(-np.inf))

    def _allowed(self) -> NDArray[np.bool_]:
        matcher = self._matcher
        mask = np.zeros(self._size, np.bool_)
        if not matcher.is_stopped():
            bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
            mask = bits[: self._size].astype(np.bool_)
        mask[self._stop_ids] = matcher.is_accepting()
        return mask


class _Vocabulary(PlainVocabulary):
    """A vocabulary that converts text to the ids with which the model usually writes the text."""

    def __init__(self, tokenizer: BPETokenizer, tokens: list[bytes], special_ids: list[int]) -> None:
        super().__init__(tokens, special_ids)
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        """Return the ids of a text that must come next in the answer. llguidance then allows only these tokens."""
        written = text.encode()
        ids = self._tokenizer.encode_inside(text)
        is_same = b"".join(self.tokens[id] for id in ids) == written
        return ids if is_same else super().__call__(text)  # normalization changes some texts


# llguidance recognizes Lark in the same way, but its own regex takes quadratic time for empty lines.
_LARK = re.compile(r"^[^\S\n]*(?:%llguidance\b|start\s*:)", re.MULTILINE)

_UNREADABLE = "the rule cannot be read"


def _library() -> Any:
    return optional("llguidance", "structured output needs llguidance", extra="structured")


def _in_one_line(message: str) -> str:
    """Return a message of llguidance on one line, without the lines that show the position of an error."""
    lines = [line.strip() for line in message.splitlines()]
    text = " ".join(line for line in lines if line.strip("^ |") and not line[:1].isdigit())
    return text[:300]
