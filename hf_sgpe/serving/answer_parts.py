"""The parts of an answer: text, reasoning and tool calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from hf_sgpe.chat.reasoning import AnswerReader, Reasoning
from hf_sgpe.chat.tool_calls import CallPart, Mark
from hf_sgpe.generation.pieces import Piece


def with_parts(pieces: Iterator[Piece], reader: AnswerReader, *, has_text: bool) -> Iterator[Piece]:
    """Yield the pieces in which an answer is generated. Reasoning and tool calls that ``reader`` finds replace the text from
    which they were read.

    The answer ends early when it has the maximum number of tool calls.

    Args:
        has_text: Whether the answer may contain text. If False, only reasoning and tool calls are yielded. All text is
            dropped, including the text of an incomplete call.
    """
    place = 0
    with closing(pieces):  # type: ignore[type-var]
        for piece in pieces:
            parts = [part for text in _split(piece, place) for part in reader.read(text)]
            place += len(piece.text)
            finish_reason = "stop" if reader.is_full else piece.finish_reason
            if finish_reason is not None:
                parts += reader.end()
                if reader.calls and finish_reason == "stop":
                    finish_reason = "tool_calls"
            yield from _said(parts, piece, finish_reason, has_text=has_text)
            if finish_reason is not None:
                return


def _said(parts: list[str | CallPart], piece: Piece, finish_reason: Any, *, has_text: bool) -> Iterator[Piece]:
    """Yield ``piece`` with ``parts`` in place of its text. If there is then nothing to send, yield nothing."""
    calls = tuple(part for part in parts if isinstance(part, CallPart))
    reasoning = "".join(part for part in parts if isinstance(part, Reasoning))
    text = "".join(part for part in parts if isinstance(part, str) and not isinstance(part, Reasoning))
    text = text if has_text else ""
    if text or reasoning or calls or piece.tokens or finish_reason is not None:
        yield Piece(
            text, piece.generated, finish_reason, piece.tokens, calls=calls, reasoning=reasoning, reused=piece.reused
        )


def _split(piece: Piece, place: int) -> Iterator[str]:
    """Yield the text of a piece, divided at its marks (tokens such as ``<tool_call>``), and the marks themselves, in order.
    ``place`` is the number of characters of the answer before the piece.
    """
    done = 0
    for mark in piece.marks:
        end = max(mark.place - place, done)
        yield piece.text[done:end]
        yield Mark(mark.text)
        done = end
    yield piece.text[done:]
