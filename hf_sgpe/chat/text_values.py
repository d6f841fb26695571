"""Tool calls whose arguments are plain text. The tools' schemas determine how the text is converted to JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hf_sgpe.chat.written_call import WrittenCall


class CallOfTexts(WrittenCall):
    """A base class of readers for tool calls whose arguments are plain text, which they convert to JSON.

    Args:
        parameters: The JSON schema of each tool's parameters, keyed by the tool's name. The schema decides whether an
            argument such as ``5`` becomes a string or a number.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(1)
        self._parameters = parameters
        self._begun = 0  # the place after the last mark
        self._key: str | None = None
        self._waiting = ""
        self._has_values = False

    def take(self) -> str:
        taken, self._waiting = self._waiting, ""
        return taken

    def whole(self) -> tuple[str, str] | None:
        return (self.name, self._waiting) if self.name is not None and self.depth == 0 else None

    def _begin(self, name: str) -> None:
        self.name, self.has_arguments, self._waiting = name, True, "{"

    def _add_value(self, text: str) -> None:
        """Add the text, as JSON, to the arguments as the value of the current key."""
        assert self._key is not None
        value = json.dumps(typed(text, schema_of(self._parameters, self.name, self._key)), ensure_ascii=False)
        self._waiting += f"{', ' if self._has_values else ''}{json.dumps(self._key, ensure_ascii=False)}: {value}"
        self._key, self._has_values = None, True

    def _end(self) -> None:
        self._waiting += "}"
        self.depth = 0


def schema_of(parameters: Mapping[str, Any], name: str | None, key: str) -> Any:
    """Return the JSON schema of the parameter ``key`` of the tool ``name``, or None if one of them is unknown."""
    schema = parameters.get(name or "")
    listed = schema.get("properties") if isinstance(schema, Mapping) else None
    return listed.get(key) if isinstance(listed, Mapping) else None


def typed(text: str, schema: Any) -> Any:
    """Convert the text of an argument to the value that the schema expects.

    If the schema lists the text as an allowed value, return this value. Otherwise, convert the text to the first of the
    schema's types that fits. If no type fits, return the text itself.
    """
    choices = schema.get("enum", _constants(schema)) if isinstance(schema, Mapping) else []
    for choice in choices if isinstance(choices, list) and text not in choices else ():
        if not isinstance(choice, str) and text.strip() in (json.dumps(choice), str(choice)):
            return choice
    for name in types_of(schema):
        if name == "string":
            return text
        try:
            value = json.loads(_OF_PYTHON.get(text.strip(), text))
        except (ValueError, RecursionError):
            continue
        if name in _IS and _IS[name](value):
            return value
    return text


def types_of(schema: Any) -> Iterator[str]:
    """Yield the names of the types that a JSON schema allows, in order. If the schema names no type, yield the types of the
    values that it lists.
    """
    if not isinstance(schema, Mapping):
        return
    named = schema.get("type")
    yield from (name for name in (named if isinstance(named, list) else [named]) if isinstance(name, str))
    for key in ("anyOf", "oneOf"):
        for inner in schema.get(key) or ():
            yield from types_of(inner)
    if named is None:
        for value in [*(schema.get("enum") or ()), *_constants(schema)]:
            yield next((name for name, holds in _IS.items() if holds(value)), "string")
    if "$ref" in schema:  # a reference nearly always refers to an object
        yield "object"


def _constants(schema: Mapping[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else []


_IS: dict[str, Callable[[Any], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "null": lambda value: value is None,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}
_OF_PYTHON = {"True": "true", "False": "false", "None": "null"}
"""The JSON of values that templates write in Python's spelling."""
