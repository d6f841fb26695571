"""Chat templates: how a conversation is written as one text for a model. The named ones, and rendering."""

from __future__ import annotations

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
    if system_prompt and not any(message["role"] == "system" for message in messages):
        messages = [{"role": "system", "content": system_prompt}, *messages]
    from jinja2 import TemplateError

    try:
        compiled = _compile(load_template(template))
        return compiled.render(messages=list(messages), add_generation_prompt=add_generation_prompt)
    except (TemplateError, TypeError, ValueError) as error:
        raise SGPEError(f"chat template {template if template in SPECIAL_TOKENS else ''}: {error}") from None


class Part(NamedTuple):
    """A piece of a rendered conversation: ordinary text, or one special token that the template wrote."""

    text: str
    is_special: bool


def render_parts(
    messages: Sequence[Message], template: str, special_tokens: Collection[str], **options: Any
) -> Iterator[Part]:
    """`render` in parts, in which only what the template itself wrote is a special token.

    Every character in a message that a special token begins with is followed by a mark while the template is rendered, so
    that no special token can begin there; the marks are taken out again.

    Raises:
        SGPEError: as `render`.
    """
    written = "".join(text for message in messages for text in message.values() if isinstance(text, str))
    written += options.get("system_prompt") or ""
    # Noncharacters, which no text that is interchanged holds; one that this text does not hold all the same.
    mark = next(chr(point) for point in range(0xFDD0, 0xFDF0) if chr(point) not in written)
    guarded = str.maketrans({token[0]: token[0] + mark for token in special_tokens})
    safe = [{key: _translated(value, guarded) for key, value in message.items()} for message in messages]
    if options.get("system_prompt"):
        options["system_prompt"] = options["system_prompt"].translate(guarded)
    text = render(safe, template, **options)
    position = 0
    for match in any_of(frozenset(special_tokens)).finditer(text) if special_tokens else ():
        yield Part(text[position : match.start()].replace(mark, ""), False)
        yield Part(match.group(), True)
        position = match.end()
    yield Part(text[position:].replace(mark, ""), False)


def _translated(value: Any, table: dict[int, str]) -> Any:
    return value.translate(table) if isinstance(value, str) else value


@cache
def _compile(source: str) -> Template:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # The environment that transformers renders chat templates in.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.globals["raise_exception"] = _raise
    return environment.from_string(source)


def _raise(message: str) -> NoReturn:
    raise SGPEError(message)
