"""Tool calls with arguments as text, which are converted to JSON by the tools' schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hf_sgpe.chat.written_call import WrittenCall


class CallOfTexts(WrittenCall):
    """A reader of a call whose values are text.

    Args:
        parameters: The JSON schema of each tool's parameters, keyed by the tool's name. The types in the schema decide
            whether a value is text or JSON.
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
        """Add the value of the current key."""
        assert self._key is not None
        value = json.dumps(typed(text, schema_of(self._parameters, self.name, self._key)), ensure_ascii=False)
        self._waiting += f"{', ' if self._has_values else ''}{json.dumps(self._key, ensure_ascii=False)}: {value}"
        self._key, self._has_values = None, True

    def _end(self) -> None:
        self._waiting += "}"
        self.depth = 0


def schema_of(parameters: Mapping[str, Any], name: str | None, key: str) -> Any:
    """Return the JSON schema of a tool's parameter, or None if the parameter is unknown."""
    schema = parameters.get(name or "")
    listed = schema.get("properties") if isinstance(schema, Mapping) else None
    return listed.get(key) if isinstance(listed, Mapping) else None


def typed(text: str, schema: Any) -> Any:
    """Return the value of a parameter. If the schema lists values and the text is one of them, return this value. Otherwise,
    read the text as the first of the schema's types that fits. If no type fits, return the text itself.
    """
    choices = schema.get("enum", [schema["const"]] if "const" in schema else []) if isinstance(schema, Mapping) else []
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
    """Yield the types that a JSON schema names, in order."""
    if not isinstance(schema, Mapping):
        return
    named = schema.get("type")
    yield from (name for name in (named if isinstance(named, list) else [named]) if isinstance(name, str))
    for key in ("anyOf", "oneOf"):
        for inner in schema.get(key) or ():
            yield from types_of(inner)
    for value in [*(schema.get("enum") or ()), *([schema["const"]] if "const" in schema else ())] if named is None else ():
        yield next((name for name, holds in _IS.items() if holds(value)), "string")
    if "$ref" in schema:  # a reference nearly always refers to an object
        yield "object"


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
