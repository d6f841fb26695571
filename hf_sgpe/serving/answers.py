"""Answers in the format of OpenAI's API, whole or as events of a stream."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import isnan
from typing import Any

from hf_sgpe.chat.tool_calls import CallPart, joined
from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.pieces import Piece, PlacedToken
from hf_sgpe.serving.requests import CompletionRequest, Served

_LEAST = -9999.0  # what OpenAI's API returns for an impossible token, because JSON has no minus infinity
_LONG_TEXT = 1 << 16
_LONG_LIST = 100
DONE = b"data: [DONE]\n\n"


def to_json(value: Any) -> bytes:
    """Return the JSON of ``value`` in UTF-8. Lone surrogates, which clients can send, are replaced."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def long_json(value: Any) -> bytes:
    """Return the same as `to_json`, encoded in parts, because Python's encoder lets no other thread run until it has
    finished. A value may contain `bytes`: JSON that is already encoded.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return b"{" + b",".join(to_json(key) + b":" + long_json(item) for key, item in value.items()) + b"}"
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return b"[" + b",".join(value) + b"]"
    if isinstance(value, str) and len(value) > _LONG_TEXT:
        return b'"' + b"".join(_slices(value, _LONG_TEXT)) + b'"'
    if isinstance(value, list) and len(value) > _LONG_LIST:
        return b"[" + b",".join(_slices(value, _LONG_LIST)) + b"]"
    return to_json(value)


def _slices(value: Any, length: int) -> Iterator[bytes]:
    """Yield the JSON of each slice of a string or a list, without the quotes or brackets around it."""
    for start in range(0, len(value), length):
        yield to_json(value[start : start + length])[1:-1]


def event(value: Any, encode: Callable[[Any], bytes] = to_json) -> bytes:
    return b"data: " + encode(value) + b"\n\n"


class Completion:
    """The answer to a request for ``/v1/completions``. The choices of the first prompt come before those of the second."""

    prefix = "cmpl"
    whole_object = part_object = "text_completion"

    def __init__(self, wanted: CompletionRequest, served: Served) -> None:
        self.wanted = wanted
        self._id = f"{self.prefix}-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._model = served.name
        self._tokenizer = served.generator.tokenizer
        self._generated = [0] * (len(wanted.prompts) * wanted.n)
        self._reused = self._generated.copy()

    def whole(self, answers: Sequence[Sequence[Piece]]) -> bytes:
        """Return the JSON of the whole answer, joined from the pieces of each choice."""
        choices = []
        for number, pieces in enumerate(answers):
            self._generated[number], self._reused[number] = pieces[-1].generated, pieces[-1].reused
            text = self._echo(number) + "".join(piece.text for piece in pieces)
            tokens = [token for piece in pieces for token in piece.tokens]
            logprobs = None if self.wanted.top is None else self._logprobs(tokens)
            calls = [part for piece in pieces for part in piece.calls]
            said = self._said(text, calls, "".join(piece.reasoning for piece in pieces))
            choices.append(long_json(self._choice(number, said, logprobs, pieces[-1].finish_reason)))
        return long_json(self._record(self.whole_object, choices, usage=self._usage()))

    def first_parts(self) -> Iterator[dict[str, Any]]:
        """Yield the events that are sent before any generated piece: the prompts, if the choices repeat them."""
        for number in range(len(self._generated)):
            if echo := self._echo(number):
                yield self._part(self._choice(number, self._said(echo)))

    def part(self, number: int, piece: Piece) -> dict[str, Any]:
        self._generated[number], self._reused[number] = piece.generated, piece.reused
        logprobs = self._logprobs(piece.tokens) if piece.tokens else None
        return self._part(self._choice(number, self._said_next(piece), logprobs, piece.finish_reason))

    def last_parts(self) -> Iterator[dict[str, Any]]:
        if self.wanted.has_usage:
            yield self._record(self.part_object, [], usage=self._usage())

    def _echo(self, number: int) -> str:
        if self.wanted.echo is None or self.wanted.scores_prompts:  # scored prompts are pieces
            return ""
        return self.wanted.echo[number // self.wanted.n]

    def _said(self, text: str, calls: Sequence[CallPart] = (), reasoning: str = "") -> dict[str, Any]:
        return {"text": text}

    def _said_next(self, piece: Piece) -> dict[str, Any]:
        return {"text": piece.text}

    def _choice(
        self,
        number: int,
        said: dict[str, Any],
        logprobs: dict[str, Any] | None = None,
        finish_reason: str | None = None,
    ) -> dict[str, Any]:
        return {"index": number, **said, "logprobs": logprobs, "finish_reason": finish_reason}

    def _logprobs(self, tokens: Sequence[PlacedToken]) -> dict[str, Any]:
        named = [self._named((token.id, token.logprob)) for token, _ in tokens]
        best = [dict((*map(self._named, token.top), own)) for (token, _), own in zip(tokens, named, strict=True)]
        # The first token of a prompt has no log-probability.
        scored = [not isnan(token.logprob) for token, _ in tokens]
        return {
            "tokens": [name for name, _ in named],
            "token_logprobs": [logprob if has else None for (_, logprob), has in zip(named, scored, strict=True)],
            "top_logprobs": [top if has else None for top, has in zip(best, scored, strict=True)],
            "text_offset": [place for _, place in tokens],
        }

    def _named(self, scored: tuple[int, float]) -> tuple[str, float]:
        """Return a token's text, or its bytes if they are only a part of a character, and its log-probability."""
        id, logprob = scored
        token = self._bytes_of(id)
        if not token:
            name = f"token_id:{id}"  # a row that pads the embedding
        else:
            try:
                name = token.decode()
            except UnicodeDecodeError:
                name = "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)
        return name, max(logprob, _LEAST)

    def _bytes_of(self, id: int) -> bytes:
        try:
            return self._tokenizer.token_bytes(id)
        except SGPEError:
            return b""

    def _part(self, choice: dict[str, Any]) -> dict[str, Any]:
        return self._record(self.part_object, [choice], **({"usage": None} if self.wanted.has_usage else {}))

    def _record(self, kind: str, choices: Sequence[dict[str, Any] | bytes], **more: Any) -> dict[str, Any]:
        head = {"id": self._id, "object": kind, "created": self._created, "model": self._model}
        return {**head, "choices": choices, **more}

    def _usage(self) -> dict[str, Any]:
        prompts, answers = sum(map(len, self.wanted.prompts)), sum(self._generated)
        counts = {"prompt_tokens": prompts, "completion_tokens": answers, "total_tokens": prompts + answers}
        # A prompt counts once, however many answers it has.
        return {**counts, "prompt_tokens_details": {"cached_tokens": sum(self._reused[:: self.wanted.n])}}


def _call_delta(number: int, parts: Sequence[CallPart]) -> dict[str, Any]:
    """Return the next parts of a tool call for a stream event. Only the first entry has the id and the name."""
    arguments = "".join(part.arguments for part in parts)
    if parts[0].name is None:
        return {"index": number, "function": {"arguments": arguments}}
    function = {"name": parts[0].name, "arguments": arguments}
    return {"index": number, "id": _new_id(), "type": "function", "function": function}


def _new_id() -> str:
    return uuid.uuid4().hex[:9]  # Mistral's templates accept only ids of nine letters and digits


class ChatCompletion(Completion):
    """The answer to a request for ``/v1/chat/completions``."""

    prefix = "chatcmpl"
    whole_object = "chat.completion"
    part_object = "chat.completion.chunk"

    def first_parts(self) -> Iterator[dict[str, Any]]:
        for number in range(len(self._generated)):
            yield self._part(self._choice(number, {"delta": {"role": "assistant", "content": ""}}))

    def _said(self, text: str, calls: Sequence[CallPart] = (), reasoning: str = "") -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text or None if calls else text, "refusal": None}
        called = [{"id": _new_id(), "type": "function", "function": function} for function in joined(calls)]
        if called:
            message["tool_calls"] = called
        if reasoning:
            message["reasoning_content"] = reasoning
        return {"message": message}

    def _said_next(self, piece: Piece) -> dict[str, Any]:
        delta: dict[str, Any] = {"content": piece.text} if piece.text else {}
        if piece.reasoning:
            delta["reasoning_content"] = piece.reasoning
        if piece.calls:
            # Some clients read only the first entry of a delta, so each call has one.
            by_number = groupby(piece.calls, key=lambda part: part.number)
            delta["tool_calls"] = [_call_delta(number, [*parts]) for number, parts in by_number]
        return {"delta": delta}

    def _logprobs(self, tokens: Sequence[PlacedToken]) -> dict[str, Any]:
        return {"content": [self._scored(token.id, token.logprob, token.top) for token, _ in tokens], "refusal": None}

    def _scored(self, id: int, logprob: float, top: Sequence[tuple[int, float]] | None = None) -> dict[str, Any]:
        name, logprob = self._named((id, logprob))
        more = {} if top is None else {"top_logprobs": [self._scored(*other) for other in top]}
        return {"token": name, "logprob": logprob, "bytes": list(self._bytes_of(id)), **more}
