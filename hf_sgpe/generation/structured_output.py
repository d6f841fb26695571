"""Answers that follow a JSON schema, a regular expression or a grammar, on every engine.

llguidance reads the rules and computes which tokens may come next. It treats each token as bytes. So every vocabulary works,
even if a character is spread over several tokens.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.generation.engines.engine import Logits
from hf_sgpe.tokenizer import BPETokenizer

# With unlimited white space, an answer could continue to its maximum length and never be complete.
_IN_ONE_LINE = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}


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
        return cls(_library().LLMatcher.grammar_from_json_schema(_closed(schema), overrides=_IN_ONE_LINE))

    @classmethod
    def regex(cls, pattern: str) -> Rule:
        """Return the rule that a regular expression in Rust's syntax must match the whole answer."""
        return cls(_library().LLMatcher.grammar_from_regex(pattern))

    @classmethod
    def one_of(cls, texts: Sequence[str]) -> Rule:
        """Return the rule that the answer must be one of ``texts``."""
        return cls.grammar("start: " + " | ".join(map(literal, texts)))

    @classmethod
    def grammar(cls, text: str) -> Rule:
        """Return the rule that the answer must match a grammar in Lark's syntax, or in llama.cpp's GBNF.

        Raises:
            SGPEError: the grammar cannot be read.
        """
        try:
            return cls(_library().grammar_from("grammar", text))
        except ValueError as error:
            raise SGPEError(_in_one_line(str(error))) from None


def literal(text: str) -> str:
    """Return a text as a quoted string literal for a Lark grammar."""
    return json.dumps(text, ensure_ascii=False)


def embedded(schema: Mapping[str, Any]) -> str:
    """Return the rule of `Rule.json_schema` as text that can be inserted into a Lark grammar."""
    return f"%json {json.dumps({**_closed(schema), 'x-guidance': _IN_ONE_LINE}, ensure_ascii=False)}"


class Constrainer:
    """The vocabulary of a model, prepared for checking rules and for applying them to answers.

    Args:
        tokenizer: The tokenizer.
        vocab_size: Number of rows of the model's embedding.

    Raises:
        SGPEError: llguidance is not installed.
    """

    def __init__(self, tokenizer: BPETokenizer, vocab_size: int) -> None:
        library = _library()
        added = {*tokenizer.special_tokens.values(), *tokenizer.added_tokens.values()}
        ids = set(tokenizer.get_vocab().values()) - added
        # The last row is an invented stop token, because the real stop tokens differ between requests. Tokens that are not
        # text need different names. llguidance marks them with a byte that no text contains.
        rows = range(vocab_size + 1)
        tokens = [tokenizer.token_bytes(id) if id in ids else f"<{id}>".encode() for id in rows]
        wrapped = library.TokenizerWrapper(_Vocabulary(tokenizer, tokens, sorted({*rows} - ids)))
        self._size = vocab_size
        self._texts = {id: tokens[id] for id in ids if id < vocab_size}
        self._tokens = library.LLTokenizer(wrapped, n_vocab=vocab_size + 1, eos_token=vocab_size)
        self._check = lru_cache(64)(self._problem_of)
        self.tokens_across = lru_cache(8)(self._tokens_across)

    def check(self, rule: Rule) -> None:
        """Check that a rule is valid and supported.

        Raises:
            SGPEError: the rule is invalid or not supported.
        """
        if problem := self._check(rule):
            raise SGPEError(problem)

    def watch(self, rule: Rule, stop_ids: Collection[int]) -> Constrained:
        """Return a `Watch` that makes a single answer follow the rule. See `Constrained`.

        Raises:
            SGPEError: the rule is invalid, or there is no stop token, so an answer could not end.
        """
        stop_ids = [id for id in stop_ids if id < self._size]
        if not stop_ids:
            raise SGPEError("the model has no token that ends an answer: set eos_token_id to its end-of-text token")
        matcher = _library().LLMatcher(self._tokens, rule.source, log_level=0)
        if matcher.is_error():
            raise SGPEError(_in_one_line(matcher.get_error()))
        return Constrained(matcher, stop_ids, self._size)

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

    def _problem_of(self, rule: Rule) -> str:
        return _in_one_line(_library().LLMatcher.validate_grammar(rule.source, self._tokens))


class Constrained:
    """A `hf_sgpe.generation.engines.engine.Watch` that allows only tokens with which the answer can follow a rule.

    Special tokens and other added tokens are not allowed in the text. A stop token is allowed as soon as the text is
    complete.
    """

    def __init__(self, matcher: Any, stop_ids: Collection[int], size: int) -> None:
        self._matcher = matcher
        self._stop_ids = sorted(stop_ids)
        self._size = size
        self._is_over = False

    def __call__(self, last: int | None, logits: Logits) -> Logits | None:
        """Return a copy of the logits with minus infinity for each token that is not allowed. Return None after the end of
        the answer.

        Raises:
            SGPEError: llguidance's limits are exceeded, or no token of the vocabulary can follow.
        """
        self._is_over = self._is_over or last in self._stop_ids
        if self._is_over:
            return None
        if last is not None:
            self._matcher.consume_token(last)
        allowed = self._allowed()
        if self._matcher.is_error() or not allowed.any():
            reason = _in_one_line(self._matcher.get_error().partition("<state>")[0]) or "no token can follow"
            raise SGPEError(f"the answer cannot follow its rule with the tokens of this vocabulary: {reason}")
        return np.where(allowed[: len(logits)], logits, np.float32(-np.inf))

    def _allowed(self) -> NDArray[np.bool_]:
        matcher = self._matcher
        mask = np.zeros(self._size, np.bool_)
        if not matcher.is_stopped():
            bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
            mask = bits[: self._size].astype(np.bool_)
        mask[self._stop_ids] = matcher.is_accepting()
        return mask


class _Vocabulary:
    """A vocabulary in the form that llguidance reads."""

    bos_token_id = None

    def __init__(self, tokenizer: BPETokenizer, tokens: list[bytes], special_token_ids: list[int]) -> None:
        self.tokens = tokens
        self.special_token_ids = special_token_ids
        self.eos_token_id = len(tokens) - 1
        self._tokenizer = tokenizer
        no_text = set(special_token_ids)
        self._ids = {token: id for id, token in reversed([*enumerate(tokens)]) if id not in no_text}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: str) -> list[int]:
        """Return the ids of a text that must come next in the answer. llguidance then allows only these tokens."""
        written = text.encode()  # llguidance first sends bytes, and this error makes it send strings
        ids = self._tokenizer.encode_inside(text)
        if b"".join(self.tokens[id] for id in ids) == written:
            return ids
        # Normalization changes this text, so take the longest token at each place.
        ids, place = [], 0
        while place < len(written):
            ends = range(min(len(written), place + self._longest), place, -1)
            end = next((end for end in ends if written[place:end] in self._ids), None)
            if end is None:
                break
            ids.append(self._ids[written[place:end]])
            place = end
        return ids


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stricter schema, whose objects allow only the properties that it lists. Otherwise, answers could grow without
    limit.

    Every answer is also valid for the original schema. A schema that combines schemas, for example by ``allOf``, stays as it
    is, because each part of a combination lists only some of the properties.

    Raises:
        SGPEError: the schema contains a whole number that llguidance would change.
    """
    text = json.dumps(schema)
    json.loads(text, parse_int=_check_exact)
    return dict(schema) if any(f'"{key}":' in text for key in _COMBINING) else _closed_inside(dict(schema))


def _check_exact(digits: str) -> None:
    """Check that a whole number is at most 2^53. llguidance computes with doubles, which round larger numbers."""
    if abs(int(digits)) > 1 << 53:
        raise SGPEError(f"the number {digits[:40]} in the schema is above 2^53 and would be rounded: use a string")


def _closed_inside(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    closed = dict(schema)
    for key in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(key), dict):
            closed[key] = {name: _closed_inside(item) for name, item in schema[key].items()}
    for key in ("anyOf", "prefixItems"):
        if isinstance(schema.get(key), list):
            closed[key] = [*map(_closed_inside, schema[key])]
    if "items" in schema:
        closed["items"] = _closed_inside(schema["items"])
    listed, required = schema.get("properties"), schema.get("required", [])
    is_open = not {"additionalProperties", "patternProperties", "anyOf", "$ref"}.isdisjoint(schema)
    if isinstance(listed, dict) and isinstance(required, list) and listed.keys() >= {*map(str, required)} and not is_open:
        closed["additionalProperties"] = False
    return closed


_COMBINING = ("allOf", "oneOf", "not", "if", "dependentSchemas", "unevaluatedProperties")


def _library() -> Any:
    return optional("llguidance", "structured output needs llguidance", extra="structured")


def _in_one_line(message: str) -> str:
    """Return a message of llguidance on one line. The lines that show the position of an error are left out, and options
    that a request cannot set are replaced by what it can do.
    """
    lines = [line.strip() for line in message.splitlines()]
    text = " ".join(line for line in lines if line.strip("^ |") and not line[:1].isdigit())
    return text.replace("Enable 'coerce_one_of' option to approximate oneOf with anyOf", "Use anyOf instead")[:300]
