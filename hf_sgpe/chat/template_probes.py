"""Properties of a chat template, found by rendering short conversations with the template."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hf_sgpe.chat.templates import Message, render
from hf_sgpe.errors import SGPEError

_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
_QUESTION = {"role": "user", "content": "Q"}
_NAME = "probed_function"
_FUNCTION = {"name": _NAME, "description": "D", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
_CALL = {"id": "abcdefghi", "type": "function", "function": {"name": _NAME, "arguments": {"a": "b"}}}
_RESULT = {"role": "tool", "tool_call_id": _CALL["id"], "name": _NAME, "content": "R"}
_ARGUMENT = "probed argument"


@lru_cache(64)
def knows_developer(template: str) -> bool:
    """Return whether a template writes messages with the role ``developer``, instead of ignoring or rejecting them.

    >>> knows_developer("chatml"), knows_developer("{% if 'developer' == 'user' %}{% endif %}")
    (True, False)
    """
    return _ARGUMENT in _rendered(template, [{"role": "developer", "content": _ARGUMENT}, _QUESTION])


@lru_cache(64)
def fields_without_content(template: str) -> tuple[tuple[str, Any], ...]:
    """Return the ``content`` that a message with tool calls but no text must have for a template, as (name, value) pairs. If
    the message must have no ``content``, or if no choice works, return ().

    Some templates expect no ``content``, some an empty string, and some None. With a wrong value, a template fails or does
    not write the calls.
    """
    call = {**_CALL, "function": {"name": _NAME, "arguments": {"a": _ARGUMENT}}}
    candidates: tuple[tuple[tuple[str, Any], ...], ...] = ((), (("content", ""),), (("content", None),))
    # A template that never writes calls should at least not fail.
    for expected, rest in ((_ARGUMENT, [_RESULT]), (_ARGUMENT, []), ("Q", [_RESULT])):
        for fields in candidates:
            message = {"role": "assistant", **dict(fields), "tool_calls": [call]}
            if expected in _rendered(template, [_QUESTION, message, *rest]):
                return fields
    return ()


@lru_cache(64)
def accepts_text_arguments(template: str) -> bool:
    """Return whether a template accepts a tool call whose arguments are a string instead of an object.

    >>> call = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | FILTER }}"
    >>> ends = "{% endfor %}{{ m.content }}{% endfor %}"
    >>> [accepts_text_arguments(call.replace("FILTER", name) + ends) for name in ("tojson", "items | list")]
    [True, False]
    """
    call = {**_CALL, "function": {"name": _NAME, "arguments": _ARGUMENT}}
    message = {"role": "assistant", **dict(fields_without_content(template)), "tool_calls": [call]}
    return any(_rendered(template, [_QUESTION, message, *rest]) for rest in ([_RESULT], []))


def _rendered(template: str, messages: Sequence[Message]) -> str:
    """Render messages with a sample tool. Return an empty string if the template rejects them."""
    variables = {"tools": [{"type": "function", "function": _FUNCTION}]}
    try:
        return str(render(messages, template, special_tokens=_TOKENS, variables=variables))
    except SGPEError:
        return ""
