"""The parts of an answer to a chat: text, reasoning and tool calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hf_sgpe.chat.reasoning import AnswerReader, Place, ReasoningMarks, ReasoningReader, place_after, reasoning_of
from hf_sgpe.chat.tool_calls import CallPart, Mark, Reasoning
from hf_sgpe.generation.pieces import Piece
from hf_sgpe.generation.reasoning_first import MarkTokens, ReasoningFirst
from hf_sgpe.generation.structured_output import Rule
from hf_sgpe.generation.text_generator import TextGenerator

_END_OF_PROMPT = 40


@dataclass(frozen=True)
class Thinking:
    """The format of the reasoning that an answer may begin with.

    Args:
        place: Where the answer begins, relative to the reasoning.
        marks: The ids of those marks, such as ``<think>``, that are tokens of the vocabulary.
        shown: What is shown instead of these marks where they do not begin or end reasoning.
    """

    written: ReasoningMarks
    place: Place
    marks: Mapping[int, str]
    shown: Mapping[str, str]

    def reader(self, then: AnswerReader | None, *, is_exact: bool) -> ReasoningReader:
        return ReasoningReader(self.written, self.place, tokens=self.shown, then=then, is_exact=is_exact)

    def watch(self, rule: Rule, generator: TextGenerator, stop_ids: frozenset[int]) -> ReasoningFirst:
        constrained = generator.constrainer.watch(rule, stop_ids)
        tokens = MarkTokens.of(self.written, generator.tokenizer, generator.constrainer)
        return ReasoningFirst(constrained, tokens, self.place, generator.tokenizer, stop_ids)


def read_thinking(
    template: str,
    generator: TextGenerator,
    ids: Sequence[int],
    *,
    last: Mapping[str, Any] | None = None,
    skips_special: bool = True,
) -> Thinking | None:
    """Return how the reasoning at the beginning of an answer is written; None if it cannot begin with reasoning. ``ids`` are
    those of the prompt; ``last`` is the message that the answer continues, if any.
    """
    written = reasoning_of(template)
    if written is None:
        return None
    tokenizer = generator.tokenizer
    continued = str(last["content"]) if last is not None else ""
    place = place_after(tokenizer.decode(ids[-_END_OF_PROMPT:]), written, continued=continued)
    if last is not None and place == "after":
        return None
    added = tokenizer.added_ids
    marks = {added[mark]: mark for mark in (written.opening, written.closing) if mark in added}
    shown = {mark: "" if skips_special and mark in tokenizer.special_tokens else mark for mark in marks.values()}
    return Thinking(written, place, marks, shown)


def with_parts(pieces: Iterator[Piece], reader: AnswerReader, *, has_text: bool) -> Iterator[Piece]:
    """Yield the pieces in which an answer is generated. Reasoning and tool calls that ``reader`` finds replace the text from
    which they were read. The answer ends when it has the maximum number of calls. Without ``has_text``, text is dropped.
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
    calls = tuple(part for part in parts if isinstance(part, CallPart))
    reasoning = "".join(part for part in parts if isinstance(part, Reasoning))
    text = "".join(part for part in parts if isinstance(part, str) and not isinstance(part, Reasoning))
    text = text if has_text else ""
    if text or reasoning or calls or piece.tokens or finish_reason is not None:
        yield Piece(
            text, piece.generated, finish_reason, piece.tokens, calls=calls, reasoning=reasoning, reused=piece.reused
        )


def _split(piece: Piece, place: int) -> Iterator[str]:
    """Yield the text of a piece, which begins at ``place`` of the answer, and its marks in order."""
    done = 0
    for mark in piece.marks:
        end = max(mark.place - place, done)
        yield piece.text[done:end]
        yield Mark(mark.text)
        done = end
    yield piece.text[done:]
