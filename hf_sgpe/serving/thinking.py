"""The reasoning in a model's answers to chats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hf_sgpe.chat.reasoning import AnswerReader, Place, ReasoningMarks, ReasoningReader, place_after, reasoning_of
from hf_sgpe.generation.reasoning_first import MarkTokens, ReasoningFirst
from hf_sgpe.generation.structured_output import Rule
from hf_sgpe.generation.text_generator import TextGenerator

_END_OF_PROMPT = 40


@dataclass(frozen=True)
class Thinking:
    """The format of the reasoning that an answer may begin with.

    Args:
        written: The strings at the start and end of the reasoning (marks), such as ``<think>`` and ``</think>``.
        place: Where the answer begins, relative to the reasoning.
        marks: Dict from ids to marks. Only marks that are tokens of the vocabulary have an entry.
        shown: Dict from the same marks to the strings that are shown where a mark does not begin or end reasoning.
    """

    written: ReasoningMarks
    place: Place
    marks: Mapping[int, str]
    shown: Mapping[str, str]

    def reader(self, then: AnswerReader | None, *, is_exact: bool) -> ReasoningReader:
        """Return the reader that separates the reasoning from the answer; see `ReasoningReader`."""
        return ReasoningReader(self.written, self.place, tokens=self.shown, then=then, is_exact=is_exact)

    def watch(self, rule: Rule, generator: TextGenerator, stop_ids: frozenset[int]) -> ReasoningFirst:
        """Return the function that restricts each next token so that an answer follows a rule after its reasoning.

        Raises:
            SGPEError: the model has no token that ends an answer.
        """
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
    """Return how the reasoning at the beginning of an answer is written. If the answer cannot begin with reasoning, return
    None.

    Args:
        template: Source of the chat template.
        ids: Ids of the prompt.
        last: The message that the answer continues, if any.
        skips_special: Whether answers leave out special tokens.
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
