"""Conversations with a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from hf_sgpe.chat.marked_text import Finder
from hf_sgpe.chat.templates import load_template, render
from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.tokenizer import BPETokenizer

_ANSWER = "ANSWER"


class Chat:
    """A conversation with a model, created by `TextGenerator.chat`.

    Attributes:
        messages: Messages so far, each with ``role`` and ``content``, without the system prompt.
        system_prompt: Text of the system message, or None.
        stop_ids: The id of the special token that the template writes after an answer, where generation stops; empty if
            there is no such token.
        template: The Jinja source of the chat template.
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
            raise SGPEError("the tokenizer has no chat template: give llama3, chatml, alpaca or your own template")
        self._template = chosen
        self.template = load_template(chosen)
        self.stop_ids = tuple(end_of_turn(tokenizer, chosen))

    def say(self, text: str, options: GenerationOptions | None = None) -> Iterator[str]:
        """Send a user message, and return an iterator over the pieces of the answer.

        The message and the answer are added to `messages` when the answer ends or is interrupted, but not if an error
        occurs.
        """
        messages = [*self.messages, {"role": "user", "content": text}]
        return self._answered(messages, self.answer(messages, options))

    def answer(self, messages: Sequence[Mapping[str, str]], options: GenerationOptions | None = None) -> Iterator[str]:
        """Return an iterator over the pieces of the answer to ``messages``, which are checked before the model runs. The
        conversation does not change.
        """
        return self._stream(self.encode(messages), self.ending(options or GenerationOptions()))

    def ending(self, options: GenerationOptions) -> GenerationOptions:
        """Return ``options`` that also stop at `stop_ids`, unless ``ignore_eos`` is set."""
        return options if options.ignore_eos else replace(options, stop_ids=(*options.stop_ids, *self.stop_ids))

    def encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
        continue_final_message: bool = False,
    ) -> list[int]:
        """Return the ids of the system prompt and ``messages``, formatted by the chat template. Text in messages and
        variables is encoded as ordinary text.

        Args:
            add_generation_prompt: Whether to end with the beginning of an assistant message.
            variables: Further variables for the template, such as ``tools``.
            continue_final_message: Whether to end with the content of the last message, so that an answer continues it.
        """
        ids = self._tokenizer.apply_chat_template(
            messages,
            self._template,
            add_generation_prompt=add_generation_prompt,
            system_prompt=self.system_prompt,
            variables=variables,
            continue_final_message=continue_final_message,
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
        """Remove all messages. The system prompt stays."""
        self.messages = []


def end_of_turn(tokenizer: BPETokenizer, template: str) -> list[int]:
    """Return a list with the id of the special token that a template writes after an assistant message. The list is empty if
    it writes none.
    """
    messages: list[Mapping[str, str]] = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": _ANSWER}]
    try:
        text = str(render(messages, template, add_generation_prompt=False, special_tokens=tokenizer.roles))
    except SGPEError:
        return []  # the template does not accept these messages
    answered = text.rfind(_ANSWER)
    if answered < 0:
        return []
    spans = Finder(tokenizer.special_tokens).spans(text, answered + len(_ANSWER))
    return [tokenizer.special_tokens[text[start:stop]] for start, stop in spans][:1]
