"""Parsers of single tool calls: one class for each way in which models write calls. A parser gets the text of a call while
it arrives.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

BEGINNING, PARAMETER, END_OF_VALUE, END = "<function=", "<parameter=", "</parameter>", "</function>"
"""The parts of a tagged call: ``<function=NAME><parameter=KEY>VALUE</parameter>…</function>``."""

KEYED_MARKS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")
"""The marks of a keyed call after its name: ``NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>``."""

ARGUMENTS = "[ARGS]"
"""The mark between the name and the arguments of a named call."""

CALL_ID = "[CALL_ID]"
"""The mark of an id, which may follow the name of a named call."""

_KEY, _END_OF_KEY, _VALUE, _END_OF_VALUE, _END = KEYED_MARKS
_NAME = re.compile(r"[^\s<>]+")
_MOST_IN_NAME = 300


class CallParser(ABC):
    """A parser of one tool call. Pass it the text of the call one character at a time, until ``depth`` is 0.

    Attributes:
        depth: A positive number while the call is incomplete, such as the number of open brackets. After the first
            character, 0 means that the call has ended.
        name: The name of the function, as soon as the name is complete.
        has_arguments: Whether the arguments have begun.
        is_announced: Whether the first part of the call has been sent.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.name: str | None = None
        self.has_arguments = False
        self.is_announced = False
        self._characters: list[str] = []

    @property
    def text(self) -> str:
        """The characters of the call that have been read."""
        return "".join(self._characters)

    @abstractmethod
    def add(self, character: str) -> None:
        """Read one character."""

    @abstractmethod
    def take(self) -> str:
        """Return the characters of the arguments' JSON that `take` has not returned yet."""

    @abstractmethod
    def whole(self) -> tuple[str, str] | None:
        """Return the name and the JSON of the arguments of a complete call, or None if the text is not a complete call."""


def call_parser(kind: str, key: str, parameters: Mapping[str, Any]) -> CallParser:
    """Return a parser of a call.

    Args:
        kind: `hf_sgpe.chat.tool_calls.CallFormat.kind`.
        key: Name of the field with the arguments, for ``json``.
        parameters: The JSON schema of each tool's parameters, keyed by the tool's name. It decides whether an argument that
            is plain text, such as ``5``, becomes a string or a number.
    """
    if kind == "json":
        return _JsonCall(key)
    if kind == "named":
        return _NamedCall()
    return _TaggedCall(parameters) if kind == "tagged" else _KeyedCall(parameters)


class _JsonCall(CallParser):
    """A parser of a tool call such as ``{"name": "add", "arguments": {"a": 1}}``."""

    def __init__(self, key: str) -> None:
        super().__init__(0)
        self._key = key
        self._is_string = self._is_escaped = False
        self._begun = 0  # where the current string or value begins
        self._field: str | None = None  # the field whose value is being read
        self._string = ""
        self._waiting: list[str] = []  # characters of the arguments that `take` has not returned

    def add(self, character: str) -> None:
        self._characters.append(character)
        was_inside = self._field == self._key and self.depth >= 2
        if self._is_string:
            if self._is_escaped:
                self._is_escaped = False
            elif character == "\\":
                self._is_escaped = True
            elif character == '"':
                self._is_string = False
                self._end_string()
        elif character == '"':
            self._is_string, self._begun = True, len(self._characters) - 1
        elif character in "{[":
            self.depth += 1
            was_inside = was_inside or (self._field == self._key and self.depth == 2 and character == "{")
            self.has_arguments = self.has_arguments or was_inside
        elif character in "}]":
            self.depth -= 1
        elif character == ":" and self.depth == 1:
            self._field = self._string
        elif character == "," and self.depth == 1:
            self._field = None
        if was_inside:
            self._waiting.append(character)

    def _end_string(self) -> None:
        if self.depth != 1:
            return
        try:
            self._string = json.loads("".join(self._characters[self._begun :]))
        except ValueError:
            return
        if self._field == "name":
            self.name = self._string

    def take(self) -> str:
        taken = "".join(self._waiting)
        self._waiting.clear()
        return taken

    def whole(self) -> tuple[str, str] | None:
        try:
            record = json.loads(self.text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or not isinstance(record.get("name"), str) or self._key not in record:
            return None
        arguments = record[self._key]
        if isinstance(arguments, str):  # JSON in JSON
            return record["name"], arguments
        if self.has_arguments:
            return record["name"], "".join(self._waiting)
        return record["name"], json.dumps(arguments or {}, ensure_ascii=False)


class _NamedCall(CallParser):
    """A parser of a tool call of newer Mistral models, such as ``add[ARGS]{"a": 1}``."""

    def __init__(self) -> None:
        super().__init__(1)
        self._begun = 0  # where the arguments begin
        self._brackets = 0
        self._is_string = self._is_escaped = False
        self._taken = 0

    def add(self, character: str) -> None:
        self._characters.append(character)
        if self.name is None:
            self._add_to_name(character)
        elif self._is_escaped:
            self._is_escaped = False
        elif self._is_string:
            self._is_escaped = character == "\\"
            self._is_string = character != '"'
        elif character == '"':
            self._is_string = True
        elif character in "{[":
            self._brackets += 1
            self.has_arguments = True
        elif character in "}]":
            self._brackets -= 1
            self.depth = int(self._brackets > 0)

    def _add_to_name(self, character: str) -> None:
        if character == "]" and "".join(self._characters[-len(ARGUMENTS) :]) == ARGUMENTS:
            self.name = self.text[: -len(ARGUMENTS)].partition(CALL_ID)[0].strip()
            self._begun = self._taken = len(self._characters)
        elif character in "{\n" or len(self._characters) > _MOST_IN_NAME:
            self.depth = 0  # no call

    def take(self) -> str:
        taken = "".join(self._characters[self._taken :])
        if not self._taken or not taken.strip():
            return ""
        taken = taken.lstrip() if self._taken == self._begun else taken
        self._taken = len(self._characters)
        return taken

    def whole(self) -> tuple[str, str] | None:
        arguments = "".join(self._characters[self._begun :]).strip()
        try:
            is_object = self.name is not None and isinstance(json.loads(arguments), dict)
        except (ValueError, RecursionError):
            return None
        return (self.name, arguments) if is_object and self.name else None


class _CallOfTexts(CallParser):
    """A base class of parsers for tool calls whose arguments are plain text, which they convert to JSON."""

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
        value = json.dumps(_typed(text, _schema_of(self._parameters, self.name, self._key)), ensure_ascii=False)
        self._waiting += f"{', ' if self._has_values else ''}{json.dumps(self._key, ensure_ascii=False)}: {value}"
        self._key, self._has_values = None, True

    def _end(self) -> None:
        self._waiting += "}"
        self.depth = 0


class _TaggedCall(_CallOfTexts):
    """A parser of a tool call such as ``<function=add><parameter=a>1</parameter></function>``."""

    def add(self, character: str) -> None:
        self._characters.append(character)
        if character != ">":
            return
        if self._key is not None and "".join(self._characters[-len(END_OF_VALUE) :]) != END_OF_VALUE:
            return
        part = "".join(self._characters[self._begun :])
        self._begun = len(self._characters)
        if self.name is None:
            self._begin(part[len(BEGINNING) : -1].strip())
        elif self._key is not None:
            self._add_value(part[: -len(END_OF_VALUE)].removeprefix("\n").removesuffix("\n"))
        elif part.strip() == END:
            self._end()
        elif part.lstrip().startswith(PARAMETER):
            self._key = part.strip()[len(PARAMETER) : -1].strip()


class _KeyedCall(_CallOfTexts):
    """A parser of a tool call such as ``add<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>``."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        self._is_value = False

    def add(self, character: str) -> None:
        self._characters.append(character)
        if self.name is None and len(self._characters) > _MOST_IN_NAME:
            self.depth = 0  # no call
        if character != ">":
            return
        end = "".join(self._characters[-len(_END_OF_VALUE) :])
        mark = next((mark for mark in KEYED_MARKS if end.endswith(mark)), None)
        if mark is None or (self._is_value and mark != _END_OF_VALUE):
            return
        text = "".join(self._characters[self._begun : -len(mark)])
        self._begun = len(self._characters)
        if self.name is None and mark in (_KEY, _END):
            if not _NAME.fullmatch(text.strip()):
                self.depth = 0  # no call
                return
            self._begin(text.strip())
        if mark == _END_OF_KEY:
            self._key = text.strip()
        elif mark == _VALUE:
            self._is_value = True
        elif mark == _END_OF_VALUE and self._key is not None:
            self._add_value(text)
            self._is_value = False
        elif mark == _END:
            self._end()


def _schema_of(parameters: Mapping[str, Any], name: str | None, key: str) -> Any:
    """Return the JSON schema of the parameter ``key`` of the tool ``name``, or None if one of them is unknown."""
    schema = parameters.get(name or "")
    listed = schema.get("properties") if isinstance(schema, Mapping) else None
    return listed.get(key) if isinstance(listed, Mapping) else None


def _typed(text: str, schema: Any) -> Any:
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
