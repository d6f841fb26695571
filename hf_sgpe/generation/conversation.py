"""Conversations with a model: what was said, and where an answer ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from hf_sgpe.chat.marked_text import Finder
from hf_sgpe.chat.templates import render
from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.tokenizer import BPETokenizer

_ANSWER = "ANSWER"


class Chat:
    """A conversation with a model: what was said, and what is said next. Made by `TextGenerator.chat`.

    Attributes:
        messages: What was said, each with ``role`` and ``content``; the system prompt is not among it.
        system_prompt: What to put first, or None.
        stop_ids: The token that the template writes after an answer, where it ends.
    """

    def __init__(
        self,
        tokenizer: BPETokenizer,
        stream: Callable[[list[int], GenerationOptions], Iterator[str]],
        system_prompt: str | None,
        template: str | None,
    ) -> None:
        self._tokenizer, self._stream = tokenizer, stream
        self.system_prompt = system_prompt
        self.messages: list[dict[str, str]] = []
        chosen = template or tokenizer.chat_template
        if not chosen:
            raise SGPEError("the tokenizer has no chat template: name one, llama3, chatml, alpaca or your own")
        self._template = chosen
        self.stop_ids = tuple(end_of_turn(tokenizer, chosen))

    def say(self, text: str, options: GenerationOptions | None = None) -> Iterator[str]:
        """Say something, and give the answer piece by piece, as `TextGenerator.stream` does.

        Both are remembered when the answer is at its end or is broken off; after an error neither is.

        Raises:
            SGPEError: before anything runs: the conversation is too long by now.
        """
        messages = [*self.messages, {"role": "user", "content": text}]
        return self._answered(messages, self.answer(messages, options))

    def answer(self, messages: Sequence[Mapping[str, str]], options: GenerationOptions | None = None) -> Iterator[str]:
        """Return the answer to any messages, piece by piece, after the system prompt; nothing of it is remembered.

        Raises:
            SGPEError: before anything runs: a message is incomplete, or they are too long.
        """
        options = options or GenerationOptions()
        options = replace(options, stop_ids=(*options.stop_ids, *self.stop_ids))
        return self._stream(self.encode(messages), options)

    def encode(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """Return the ids of any messages, after the system prompt: what is written in them is ordinary text.

        Args:
            add_generation_prompt: End with what the assistant's answer begins with.

        Raises:
            SGPEError: a message is incomplete, or the template rejects it.
        """
        ids = self._tokenizer.apply_chat_template(
            messages, self._template, add_generation_prompt=add_generation_prompt, system_prompt=self.system_prompt
        )
        assert not isinstance(ids, str)
        return ids

    def _answered(self, messages: list[dict[str, str]], pieces: Iterator[str]) -> Iterator[str]:
        answer: list[str] = []
        try:
            with closing(pieces):  # type: ignore[type-var]
                for piece in pieces:
                    answer.append(piece)
                    yield piece
        except (GeneratorExit, KeyboardInterrupt):
            self._remember(messages, answer)
            raise
        self._remember(messages, answer)

    def _remember(self, messages: list[dict[str, str]], answer: list[str]) -> None:
        self.messages = [*messages, {"role": "assistant", "content": "".join(answer)}]

    def reset(self) -> None:
        """Forget what was said, but for the system prompt."""
        self.messages = []


def end_of_turn(tokenizer: BPETokenizer, template: str) -> list[int]:
    """Return the special token that a template writes after what the assistant says, in a list: there its answer ends.

    >>> from hf_sgpe import TrainingConfig, WordCounts, train_from_counts
    >>> config = TrainingConfig(vocab_size=260, recipe="bpe", chat_template="chatml")
    >>> tokenizer = train_from_counts(WordCounts.from_texts(["a"], config), config)
    >>> tokenizer.convert_ids_to_tokens(end_of_turn(tokenizer, "chatml"))
    ['<|im_end|>']
    """
    messages: list[Mapping[str, str]] = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": _ANSWER}]
    try:
        text = str(render(messages, template, add_generation_prompt=False, special_tokens=tokenizer.roles))
    except SGPEError:
        return []  # a template that takes other messages
    answered = text.rfind(_ANSWER)
    if answered < 0:
        return []
    spans = Finder(tokenizer.special_tokens).spans(text, answered + len(_ANSWER))
    return [tokenizer.special_tokens[text[start:stop]] for start, stop in spans][:1]
