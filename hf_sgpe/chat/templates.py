"""Chat templates: how a conversation is written as one text for a model. The named ones, and rendering."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from hf_sgpe.errors import SGPEError
from hf_sgpe.special_tokens import any_of

if TYPE_CHECKING:
    from jinja2 import Template

Message = Mapping[str, Any]

SPECIAL_TOKENS: dict[str, tuple[str, ...]] = {
    "llama3": (
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
    ),
    "chatml": ("<|im_start|>", "<|im_end|>"),
    "alpaca": (),
}
"""Name of a chat template → the special tokens to train a tokenizer with that is to use it."""


def load_template(name: str) -> str:
    """The Jinja source of a named chat template, or ``name`` itself if it is a source.

    Raises:
        SGPEError: it looks like a name and is none of `SPECIAL_TOKENS`.
    """
    if name in SPECIAL_TOKENS:
        return (Path(__file__).parent / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
    if "{" not in name:
        raise SGPEError(f"unknown chat template {name!r}: known are {', '.join(SPECIAL_TOKENS)}, or give a Jinja template")
    return name


def render(
    messages: Sequence[Message], template: str, *, add_generation_prompt: bool = True, system_prompt: str | None = None
) -> str:
    """A conversation as text.

    Args:
        messages: Each with a ``role`` and a ``content``.
        template: Name of a chat template, or Jinja source.
        add_generation_prompt: End with what the assistant's answer begins with.
        system_prompt: Put first, as a system message, unless there is one.

    Raises:
        SGPEError: a message is incomplete or not one the template takes, or the template is wrong.

    >>> render([{"role": "user", "content": "Hi"}], "chatml")
    '<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n'
    """
    for place, message in enumerate(messages):
        for key in ("role", "content"):
            if not isinstance(message, Mapping) or not isinstance(message.get(key), str):
                raise SGPEError(f"message {place} has no text for {key!r}: {message!r}")
    messages = _with_system_prompt(messages, system_prompt)
    source = load_template(template)
    try:
        return _compile(source).render(messages=messages, add_generation_prompt=add_generation_prompt)
    except Exception as error:  # whatever a template can do wrong
        raise SGPEError(f"chat template{f' {template}' if template in SPECIAL_TOKENS else ''}: {error}") from None


def _with_system_prompt(messages: Sequence[Message], system_prompt: str | None) -> list[Message]:
    if system_prompt and not any(message["role"] == "system" for message in messages):
        return [{"role": "system", "content": system_prompt}, *messages]
    return list(messages)


class Part(NamedTuple):
    """A piece of a rendered conversation: ordinary text, or one special token that the template wrote."""

    text: str
    is_special: bool


def render_parts(
    messages: Sequence[Message],
    template: str,
    special_tokens: Collection[str],
    *,
    add_generation_prompt: bool = True,
    system_prompt: str | None = None,
) -> Iterator[Part]:
    """`render` in parts, in which only what the template itself wrote is a special token.

    The template is rendered a second time with a placeholder for every text in the messages but their roles. What that
    comes to holds the template's own writing only; the texts are put into it afterwards.

    Raises:
        SGPEError: as `render`; or a role holds a special token; or a text does, and the template does more with it than to
            write it as it is or without the white space around it.
    """
    whole = render(messages, template, add_generation_prompt=add_generation_prompt, system_prompt=system_prompt)
    messages = _with_system_prompt(messages, system_prompt)
    special = any_of(frozenset(special_tokens)) if special_tokens else None
    for place, message in enumerate(messages):
        if special and special.search(message["role"]):
            raise SGPEError(f"the role of message {place} holds a special token: {message['role']!r}")

    texts: list[str] = []
    marks = [mark for mark in _NONCHARACTERS if mark not in f"{template}{messages}{whole}"][:2]
    if len(marks) < 2:
        raise SGPEError("the messages hold all of Unicode's noncharacters: take some out")
    opening, closing = marks

    def hidden(value: Any) -> Any:
        if isinstance(value, str) and value:
            texts.append(value)
            return f"{opening}{len(texts) - 1}{closing}"
        if isinstance(value, Mapping):
            return {key: item if key == "role" else hidden(item) for key, item in value.items()}
        return [hidden(item) for item in value] if isinstance(value, (list, tuple)) else value

    placeholder = re.compile(f"{opening}([0-9]+){closing}")
    try:
        skeleton = render([hidden(one) for one in messages], template, add_generation_prompt=add_generation_prompt)
    except SGPEError:
        skeleton = ""
    for written in (texts, [text.strip() for text in texts]):

        def filled(part: str, written: list[str] = written) -> str:
            return placeholder.sub(lambda match: written[int(match[1])], part)

        if filled(skeleton) == whole:
            yield from (Part(filled(text), is_special) for text, is_special in _split(skeleton, special))
            return
    if special and any(map(special.search, texts)):
        raise SGPEError("this chat template looks into the messages, which hold special tokens: take those out")
    yield from _split(whole, special)


# Code points that no text that is interchanged holds.
_NONCHARACTERS = [*map(chr, range(0xFDD0, 0xFDF0)), *(chr(plane << 16 | 0xFFFE) for plane in range(1, 17))]


def _split(text: str, special: re.Pattern[str] | None) -> Iterator[Part]:
    position = 0
    for match in special.finditer(text) if special else ():
        yield Part(text[position : match.start()], False)
        yield Part(match.group(), True)
        position = match.end()
    yield Part(text[position:], False)


@cache
def _compile(source: str) -> Template:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # The environment that transformers renders chat templates in.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.globals["raise_exception"] = _raise
    return environment.from_string(source)


def _raise(message: str) -> NoReturn:
    raise SGPEError(message)
