"""The reasoning of a model before its answer: text between two marks, such as ``<think>…</think>``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from hf_sgpe.chat.tool_calls import CallPart, CallReader, Mark, Reasoning, until_mark

if TYPE_CHECKING:
    from hf_sgpe.chat.response_reader import ResponseReader


@dataclass(frozen=True)
class ReasoningMarks:
    """The marks before and after the reasoning. Many templates write the opening mark at the end of the prompt."""

    opening: str
    closing: str


REASONING_MARKS = (
    ReasoningMarks("<think>", "</think>"),
    ReasoningMarks("[THINK]", "[/THINK]"),
    ReasoningMarks("<seed:think>", "</seed:think>"),
    ReasoningMarks("<mm:think>", "</mm:think>"),
    ReasoningMarks("<|START_THINKING|>", "<|END_THINKING|>"),
)
"""The supported marks."""

Place: TypeAlias = Literal["before", "inside", "after"]
"""The place where an answer begins: before possible reasoning, inside the reasoning, or after the reasoning."""


def reasoning_of(template: str) -> ReasoningMarks | None:
    """Return the reasoning marks that a chat template contains, or None."""
    return next((marks for marks in REASONING_MARKS if marks.opening in template), None)


def place_after(prompt: str, marks: ReasoningMarks, *, continued: str = "") -> Place:
    """Return where the answer to a prompt begins.

    Args:
        prompt: The end of the prompt, with special tokens.
        continued: The beginning of the assistant's message, if the answer continues this message.

    >>> place_after("<|im_start|>assistant\\n<think>\\n", REASONING_MARKS[0])
    'inside'
    """
    if continued:
        if marks.closing not in continued and marks.opening in continued:
            return "inside"
        return "after"
    if prompt.rstrip().endswith(marks.opening):
        return "inside"
    return "after" if prompt.rstrip().endswith(marks.closing) else "before"


AnswerReader: TypeAlias = "ReasoningReader | CallReader | ResponseReader"
"""A reader of an answer. Its method ``read`` takes the next text of the answer, and ``end`` ends the answer. Both yield the
text, reasoning and parts of tool calls that are now certain.
"""


class ReasoningReader:
    """A reader that separates the reasoning at the beginning of a streamed answer from the rest. White space around the
    reasoning is dropped.

    If a mark is a token of the vocabulary, only this token counts as the mark, and `read` must get it as a `Mark`. The same
    characters in other tokens are text.

    Args:
        tokens: The marks that are tokens of the vocabulary, each with a replacement. The replacement is used where the token
            neither begins nor ends the reasoning.
        then: Reader of the rest. None if the rest is only text.
        is_exact: Whether white space after the reasoning belongs to the answer.

    >>> reader = ReasoningReader(REASONING_MARKS[0], "before")
    >>> [*reader.read("<think>\\nHm"), *reader.read("m.\\n</think>\\n\\nWell.")]
    ['Hm', 'm.', 'Well.']
    """

    def __init__(
        self,
        marks: ReasoningMarks,
        place: Place,
        *,
        tokens: Mapping[str, str] | None = None,
        then: AnswerReader | None = None,
        is_exact: bool = False,
    ) -> None:
        self._marks = marks
        self._place: Place = place
        self._tokens = tokens or {}
        self._then = then
        self._is_exact = is_exact
        self._held = ""
        # Whether no character of the reasoning, or of the answer after it, has been yielded.
        self._is_first = place != "after" or not is_exact

    @property
    def calls(self) -> int:
        return self._then.calls if self._then else 0

    @property
    def is_full(self) -> bool:
        return self._then is not None and self._then.is_full

    def read(self, text: str) -> Iterator[str | CallPart]:
        """Yield the reasoning as `Reasoning`, and the rest as ``then`` yields it."""
        if isinstance(text, Mark) and self._place == "before" and text == self._marks.opening and not self._held.strip():
            self._held, self._place = "", "inside"
        elif isinstance(text, Mark) and self._place == "inside":
            if text == self._marks.closing:
                yield from self._close()
            else:
                yield from self._inside(str(text))
        elif isinstance(text, Mark):
            yield from self._flush()
            yield from self._rest(Mark(text) if text not in self._tokens else self._tokens[text])
        elif self._place == "before":
            yield from self._before(text)
        elif self._place == "inside":
            yield from self._inside(text)
        else:
            yield from self._rest(text)

    def end(self) -> Iterator[str | CallPart]:
        if self._place == "inside":
            yield from self._thought()
        else:
            yield from self._flush()
        if self._then is not None:
            yield from self._then.end()

    def _before(self, text: str) -> Iterator[str | CallPart]:
        self._held += text
        opening, begun_text = self._marks.opening, self._held.lstrip()
        is_text = opening not in self._tokens
        if is_text and begun_text.startswith(opening):
            self._held, self._place = "", "inside"
            yield from self._inside(begun_text[len(opening) :])
        elif begun_text and not (is_text and opening.startswith(begun_text)):
            yield from self._flush()

    def _flush(self) -> Iterator[str | CallPart]:
        """Yield held-back text that could have been the beginning of reasoning, but is part of the answer."""
        held, self._held = self._held, ""
        if self._place == "before":
            self._place, self._is_first = "after", False
            if held:
                yield from self._rest(held)

    def _inside(self, text: str) -> Iterator[str | CallPart]:
        closing = self._marks.closing
        thought, has_mark, after = until_mark(self._held + text, closing, is_text=closing not in self._tokens)
        if has_mark:
            self._held = thought
            yield from self._close()
            yield from self._rest(after)
            return
        self._held = after
        if self._is_first:
            thought = thought.lstrip()
        if thought:
            self._is_first = False
            yield Reasoning(thought)

    def _close(self) -> Iterator[str | CallPart]:
        yield from self._thought()
        self._held, self._place, self._is_first = "", "after", not self._is_exact

    def _thought(self) -> Iterator[str | CallPart]:
        thought = self._held.rstrip()
        if self._is_first:
            thought = thought.lstrip()
        if thought:
            yield Reasoning(thought)

    def _rest(self, text: str) -> Iterator[str | CallPart]:
        if self._is_first and self._place == "after" and not isinstance(text, Mark):
            text = text.lstrip()
            self._is_first = not text
        if text:
            if self._then is not None:
                yield from self._then.read(text)
            elif not isinstance(text, Mark):
                yield text
