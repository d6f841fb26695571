"""Conversion of chat messages from OpenAI's format to the form that chat templates expect."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hf_sgpe.chat.template_probes import accepts_text_arguments, fields_without_content, knows_developer
from hf_sgpe.serving.parameters import RequestError, kind, parse_json, wrong
from hf_sgpe.splitting.normalization import well_formed

_ROLES = ("system", "developer", "user", "assistant", "tool")


def read_messages(messages: Any, template: str) -> list[dict[str, Any]]:
    """Return the messages of a request as a chat template expects them; ``developer`` is a newer name of ``system``."""
    if not isinstance(messages, list) or not messages:
        raise wrong("messages", "must be a non-empty list")
    read = [_message(message, f"messages[{place}]") for place, message in enumerate(messages)]
    for place, message in enumerate(read):
        for number, call in enumerate(message.get("tool_calls", ())):
            if isinstance(call["function"]["arguments"], str) and not accepts_text_arguments(template):
                field = f"messages[{place}].tool_calls[{number}].function.arguments"
                raise wrong(field, "must be the JSON of an object for the template of this model")
        if message["role"] == "developer" and not ("developer" in template and knows_developer(template)):
            message["role"] = "system"
        if "content" not in message:
            message.update(fields_without_content(template))
    return read


def _message(message: Any, name: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise wrong(name, f"must be an object with role and content, not {kind(message)}")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise RequestError(f"{name}: role must be one of {', '.join(_ROLES)}, not {role!r}", param=f"{name}.role")
    for key, value in message.items():
        if key not in (*_FIELDS, *_FIELDS_OF.get(role, ())) and value not in (None, [], {}):
            problem = f"{name}: {key} is not supported in a message of the role {role}: leave it out"
            raise RequestError(problem, param=f"{name}.{key}", code="unsupported_parameter")
    calls = _tool_calls(message.get("tool_calls"), name)
    read: dict[str, Any] = {"role": role}
    if not calls or message.get("content") is not None:
        content = message.get("content")
        read["content"] = _text("" if content is None and role == "tool" else content, f"{name}.content", name)
    for key in ("name", "tool_call_id"):
        if message.get(key):
            read[key] = _text(message[key], f"{name}.{key}", name)
    if role == "tool" and "tool_call_id" not in read:
        raise RequestError(f"{name}: tool_call_id is missing: give the id of the call", param=f"{name}.tool_call_id")
    for key in ("reasoning", "reasoning_content"):  # the first name is vLLM's and OpenRouter's
        if message.get(key) is not None:
            read["reasoning_content"] = _text(message[key], f"{name}.{key}", name)
    if calls:
        read["tool_calls"] = calls
    return read


def _text(value: Any, param: str, name: str) -> str:
    """Return the text of a field. Only ``content`` may be a list of parts, which are joined with line ends."""
    field = param.rpartition(".")[2]
    if isinstance(value, list) and field == "content":
        for part in value:
            if isinstance(part, dict) and part.get("type", "text") != "text":
                raise RequestError(f"{name}: content must be text, not {part['type']!r}", param=param)
            if not isinstance(part, dict) or "type" not in part or not isinstance(part.get("text"), str):
                form = 'a string, or a list of parts like {"type": "text", "text": "Hello"}'
                raise RequestError(f"{name}: content must be {form}", param=param)
        value = "\n".join(part["text"] for part in value)
    if not isinstance(value, str):
        raise RequestError(f"{name}: {field} must be a string, not {kind(value)}", param=param)
    return well_formed(value)


def _tool_calls(calls: Any, name: str) -> list[dict[str, Any]]:
    param = f"{name}.tool_calls"
    if calls is None:
        return []
    if not isinstance(calls, list):
        raise wrong(param, f"must be a list, not {kind(calls)}")
    return [_tool_call(call, f"{param}[{place}]") for place, call in enumerate(calls)]


def _tool_call(call: Any, param: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type", "function") != "function":
        raise wrong(param, "must be an object with an id, a function, and the type function")
    called, arguments, id = function.get("name"), function.get("arguments"), call.get("id")
    if not isinstance(called, str) or not called:
        raise wrong(f"{param}.function.name", "must be a non-empty string")
    if id is not None and not isinstance(id, str):
        raise wrong(f"{param}.id", f"must be a string, not {kind(id)}")
    function = {"name": well_formed(called), "arguments": _arguments(arguments, f"{param}.function.arguments")}
    return {**({} if id is None else {"id": well_formed(id)}), "type": "function", "function": function}


def _arguments(arguments: Any, param: str) -> Any:
    """Return the arguments of a call as an object, or as a string that is not its JSON, as models sometimes write."""
    record = {} if arguments is None or arguments == "" else arguments
    if isinstance(record, str):
        with suppress(ValueError):
            read = parse_json(record, param, param)
            record = read if isinstance(read, dict) else record
    if not isinstance(record, (dict, str)):
        raise wrong(param, f"must be a string with the JSON of an object, not {kind(arguments)}")
    return well_formed_json(record)


def well_formed_json(value: Any) -> Any:
    """Return a copy of a JSON value in which lone surrogates are replaced: JSON allows them, but UTF-8 does not."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(key): well_formed_json(item) for key, item in value.items()}
    return [well_formed_json(item) for item in value] if isinstance(value, list) else value


_FIELDS = ("role", "content", "name", "cache_control")  # the last one is Anthropic's, and has no effect
_FIELDS_OF: dict[str, tuple[str, ...]] = {
    "assistant": ("tool_calls", "reasoning_content", "reasoning"),
    "tool": ("tool_call_id",),
}
