"""What clients are answered, in the form of OpenAI's API: whole, and as events of a stream."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from hf_sgpe.generation.text import Piece
from hf_sgpe.serving.requests import Asked

DONE = b"data: [DONE]\n\n"
"""The event that ends a stream."""


def to_json(value: Any) -> bytes:
    """JSON in UTF-8, whatever characters a client has put into what is answered."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def event(value: Any) -> bytes:
    """An event of a stream."""
    return b"data: " + to_json(value) + b"\n\n"


class Completion:
    """The answer to a completion.

    Choices are numbered through: those to the first prompt, then those to the second.

    Args:
        asked: What was asked for.
        model: As clients call it.
    """

    prefix = "cmpl"
    whole_object = part_object = "text_completion"

    def __init__(self, asked: Asked, model: str) -> None:
        self.asked = asked
        self._id = f"{self.prefix}-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._model = model
        self._generated = [0] * (len(asked.prompts) * asked.n)

    def whole(self, answers: Sequence[Sequence[Piece]]) -> dict[str, Any]:
        """All of it, from the pieces of each choice."""
        choices = []
        for number, pieces in enumerate(answers):
            self._generated[number] = pieces[-1].generated
            text = self._echo(number) + "".join(piece.text for piece in pieces)
            choices.append(self._choice(number, pieces, self._said(text)))
        return self._record(self.whole_object, choices, usage=self._usage())

    def first_parts(self) -> Iterator[dict[str, Any]]:
        """What comes before the first piece of each choice."""
        for number in range(len(self._generated) if self.asked.echo is not None else 0):
            yield self._part([self._choice(number, (), self._said(self._echo(number)))])

    def part(self, number: int, piece: Piece) -> dict[str, Any]:
        """A piece of a choice."""
        self._generated[number] = piece.generated
        return self._part([self._choice(number, (piece,), self._said_next(piece))])

    def last_parts(self) -> Iterator[dict[str, Any]]:
        """What comes when all choices are at their ends."""
        if self.asked.has_usage:
            yield self._record(self.part_object, [], usage=self._usage())

    def _echo(self, number: int) -> str:
        return self.asked.echo[number // self.asked.n] if self.asked.echo is not None else ""

    def _said(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def _said_next(self, piece: Piece) -> dict[str, Any]:
        return {"text": piece.text}

    def _choice(self, number: int, pieces: Sequence[Piece], said: dict[str, Any]) -> dict[str, Any]:
        finish_reason = pieces[-1].finish_reason if pieces else None
        return {"index": number, **said, "logprobs": None, "finish_reason": finish_reason}

    def _part(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return self._record(self.part_object, choices, **({"usage": None} if self.asked.has_usage else {}))

    def _record(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        head = {"id": self._id, "object": kind, "created": self._created, "model": self._model}
        return {**head, "choices": choices, **more}

    def _usage(self) -> dict[str, int]:
        prompts, answers = sum(map(len, self.asked.prompts)), sum(self._generated)
        return {"prompt_tokens": prompts, "completion_tokens": answers, "total_tokens": prompts + answers}


class ChatCompletion(Completion):
    """The answer to a chat: the same in other words."""

    prefix = "chatcmpl"
    whole_object = "chat.completion"
    part_object = "chat.completion.chunk"

    def first_parts(self) -> Iterator[dict[str, Any]]:
        for number in range(len(self._generated)):
            yield self._part([self._choice(number, (), {"delta": {"role": "assistant", "content": ""}})])

    def _said(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}

    def _said_next(self, piece: Piece) -> dict[str, Any]:
        return {"delta": {"content": piece.text} if piece.text else {}}
