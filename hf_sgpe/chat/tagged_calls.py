"""Tool calls with arguments as text between tags, as in Qwen 3 Coder and Qwen 3.5. The arguments are converted to JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hf_sgpe.chat.written_call import WrittenCall

BEGINNING = "<function="
"""The beginning of a call: ``<function=NAME><parameter=KEY>VALUE</parameter>…</function>``."""

PARAMETER, END_OF_VALUE, END = "<parameter=", "</parameter>", "</function>"
"""The other parts of a call."""


class TaggedCall(WrittenCall):
    """A reader that takes the text of a call one character at a time.

    Args:
        parameters: The JSON schema of each tool's parameters, keyed by the tool's name. The types in the schema decide
            whether a value is text or JSON.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(1)
        self._parameters = parameters
        self._begun = 0  # the place after the last tag
        self._key: str | None = None
        self._waiting = ""
        self._has_values = False

    def add(self, character: str) -> None:
        self._characters.append(character)
        if character != ">":
            return
        if self._key is not None and "".join(self._characters[-len(END_OF_VALUE) :]) != END_OF_VALUE:
            return
        part = "".join(self._characters[self._begun :])
        self._begun = len(self._characters)
        if self.name is None:
            self.name = part[len(BEGINNING) : -1].strip()
            self.has_arguments, self._waiting = True, "{"
        elif self._key is not None:
            text = part[: -len(END_OF_VALUE)].removeprefix("\n").removesuffix("\n")
            value = json.dumps(typed(text, schema_of(self._parameters, self.name, self._key)), ensure_ascii=False)
            self._waiting += f"{', ' if self._has_values else ''}{json.dumps(self._key, ensure_ascii=False)}: {value}"
            self._key, self._has_values = None, True
        elif part.strip() == END:
            self._waiting += "}"
            self.depth = 0
        elif part.lstrip().startswith(PARAMETER):
            self._key = part.strip()[len(PARAMETER) : -1].strip()

    def take(self) -> str:
        taken, self._waiting = self._waiting, ""
        return taken

    def whole(self) -> tuple[str, str] | None:
        return (self.name, self._waiting) if self.name is not None and self.depth == 0 else None


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
