"""Tool calls in the answers of models: the formats in which models write calls, and a reader for streams.

The text of a format's marks (``<tool_call>``, ``[TOOL_CALLS]``) begins a call. If a mark is a token of the vocabulary, only
this token begins a call; the same text in other tokens is text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class CallPart(NamedTuple):
    """A part of a tool call.

    Attributes:
        number: Number of the call in the answer, from 0.
        name: Name of the function in the first part of the call; None in later parts.
        arguments: The next characters of the arguments' JSON.
    """

    number: int
    name: str | None
    arguments: str


class Mark(str):
    """The text of a token that is a mark of a format, as `CallReader.read` gets it."""

    __slots__ = ()


@dataclass(frozen=True)
class CallFormat:
    """A format in which models write tool calls. A call is a JSON object with the name of a function and its arguments.

    Args:
        name: Name of the format.
        pattern: Regular expression that is found in the chat templates of models with this format.
        key: Name of the object's field with the arguments.
        opening: Mark in front of calls. If it is empty, an answer is a call if it begins with a JSON object that has the
            name of a tool.
        closing: Mark after calls; empty if there is none.
        before, between, after: Text in front of the first call, between calls, and after the last call.
        is_repeated: Whether the marks are repeated for each call.
        also: Other marks, without effect on the calls.
    """

    name: str
    pattern: str
    key: str = "arguments"
    opening: str = ""
    closing: str = ""
    before: str = ""
    between: str = ""
    after: str = ""
    is_repeated: bool = False
    also: tuple[str, ...] = ()

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of the format."""
        return tuple(filter(None, (self.opening, self.closing, *self.also)))


FORMATS = (
    CallFormat(
        "hermes",
        "<tool_call>(?![^<]*<function=)",
        opening="<tool_call>",
        closing="</tool_call>",
        before="\n",
        between="\n",
        after="\n",
        is_repeated=True,
    ),
    CallFormat(
        "mistral", r"\[TOOL_CALLS\](?!.{0,200}\[ARGS\])", opening="[TOOL_CALLS]", before="[", between=", ", after="]"
    ),
    CallFormat("llama3", r"ipython[\s\S]*\"parameters\\?\"", "parameters", between="; ", also=("<|python_tag|>",)),
)
"""The supported formats. Hermes is also the format of Qwen 2.5 and Qwen 3."""


def format_of(template: str) -> CallFormat | None:
    """Return the format of the tool calls of models with a chat template, or None if it is not known.

    >>> format_of("{{ '<tool_call>\\n' + call | tojson + '\\n</tool_call>' }}").name
    'hermes'
    """
    return next((known for known in FORMATS if re.search(known.pattern, template)), None)


def has_tools(template: str) -> bool:
    """Return whether a chat template uses tools."""
    return re.search(r"\btools\b", template) is not None


class CallReader:
    """A reader that finds tool calls in the stream of an answer.

    Text that is no complete call stays text. So does a call of an unknown function, if the format has no mark in front of
    calls.

    Args:
        written: The format.
        names: Names of the tools.
        tokens: The marks that are tokens of the vocabulary. They arrive as `Mark`.
        most: Maximum number of calls; the rest of the answer is dropped. None for no limit.

    Attributes:
        calls: The number of calls that have begun.

    >>> reader = CallReader(FORMATS[0], ["add"])
    >>> [*reader.read('Wait. <tool_call>{"name": "add", "arguments": {"a"'), *reader.read(": 1}}</tool_call>")]
    ['Wait.', CallPart(number=0, name='add', arguments=''), CallPart(number=0, name=None, arguments='{"a"'), \
CallPart(number=0, name=None, arguments=': 1}')]
    """

    def __init__(
        self, written: CallFormat, names: Collection[str], *, tokens: Collection[str] = (), most: int | None = None
    ) -> None:
        self.calls = 0
        self._format = written
        self._names = frozenset(names)
        self._tokens = frozenset(tokens)
        self._most = most
        self._held = ""  # characters that may begin a mark, or white space in front of a mark
        self._opened = ""  # the marks and brackets in front of the current call
        self._object: _Object | None = None
        self._may_call = not written.opening  # whether the next character may begin a call
        self._is_full = False

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of calls is complete, so that the rest of the answer has no effect."""
        return self._is_full

    def read(self, text: str) -> Iterator[str | CallPart]:
        """Read the next part of the answer. Yield the text and the parts of calls that it completes, in order."""
        if isinstance(text, Mark):
            yield from self._marked(text)
            return
        said: list[str] = []
        for character in text:
            for part in self._next(character):
                if isinstance(part, str):
                    said.append(part)
                    continue
                if said:
                    yield "".join(said)
                    said.clear()
                yield part
        if said:
            yield "".join(said)
        if self._object is not None:
            yield from self._arguments()

    def end(self) -> Iterator[str | CallPart]:
        """End the answer, and yield the text that was held back."""
        if self._object is not None:
            yield from self._close_object()
        rest = self._opened + self._held
        if self.calls and not self._opened and (self._may_call or rest.isspace()):
            rest = ""  # brackets and white space after a call
        self._held = self._opened = ""
        if rest and not self._is_full:
            yield rest

    def _marked(self, mark: str) -> Iterator[str | CallPart]:
        if self._object is not None:
            yield from self._close_object()
        if mark == self._format.closing:
            self._after_call()
        elif mark == self._format.opening or not self._format.opening:
            self._held = self._held.rstrip()
            yield from self._flush()
            self._opened, self._may_call = mark, True

    def _next(self, character: str) -> Iterator[str | CallPart]:
        """Read one character."""
        if self._is_full:
            return
        if self._object is not None:
            yield from self._in_object(character)
        elif self._may_call:
            yield from self._in_front(character)
        else:
            yield from self._in_text(character)

    def _in_text(self, character: str) -> Iterator[str]:
        self._held += character
        opening = self._format.opening
        if opening and opening not in self._tokens and self._held.endswith(opening):
            self._held = self._held[: -len(opening)].rstrip()
            yield from self._flush()
            self._opened, self._may_call = opening, True
        elif opening:
            # White space is held back, because it is dropped in front of a call.
            begun = 0 if opening in self._tokens else _begun(self._held, opening)
            safe = self._held[: len(self._held) - begun].rstrip()
            if self.calls:
                safe = safe.lstrip() and safe
            if safe:
                self._held = self._held[len(safe) :]
                yield safe
        else:
            yield from self._flush()

    def _in_front(self, character: str) -> Iterator[str | CallPart]:
        """Read a character between a mark and an object, or between objects."""
        closing = self._format.closing
        if character == "{":
            self._opened += self._held
            self._held = ""
            self._object = _Object(self._format.key)
            yield from self._in_object(character)
            return
        self._held += character
        rest = self._held.strip()
        if closing and closing not in self._tokens and rest.lstrip("];, \n").startswith(closing[: len(rest)] or closing):
            if rest == closing:
                self._after_call()
            return
        if rest.strip("[];, \n"):  # no call
            yield from self._as_text()

    def _in_object(self, character: str) -> Iterator[str | CallPart]:
        assert self._object is not None
        self._object.add(character)
        if self._object.depth == 0:
            yield from self._close_object()

    def _arguments(self) -> Iterator[CallPart]:
        """Yield the parts of the current call that are known by now."""
        call = self._object
        assert call is not None
        if not call.is_announced and call.name is not None and call.has_arguments and self._is_known(call.name):
            call.is_announced = True
            self.calls += 1
            yield CallPart(self.calls - 1, call.name, "")
        if call.is_announced and (arguments := call.take()):
            yield CallPart(self.calls - 1, None, arguments)

    def _close_object(self) -> Iterator[str | CallPart]:
        call = self._object
        assert call is not None
        whole = call.whole()
        if not call.is_announced and whole is not None and self._is_known(whole[0]):
            self._object = None
            self.calls += 1
            yield CallPart(self.calls - 1, whole[0], "")
            if whole[1]:
                yield CallPart(self.calls - 1, None, whole[1])
        elif call.is_announced:
            yield from self._arguments()
            self._object = None
        else:
            self._object = None
            self._held = call.text
            yield from self._as_text()
            return
        self._opened = self._held = ""
        self._is_full = self.calls == self._most

    def _after_call(self) -> None:
        """Go from calls to text."""
        self._held = self._opened = ""
        self._may_call = False

    def _as_text(self) -> Iterator[str]:
        """Yield what was read as the beginning of a call: it is text."""
        self._held = self._opened + self._held
        self._opened, self._may_call = "", False
        yield from self._flush()

    def _flush(self) -> Iterator[str]:
        if self._held:
            yield self._held
            self._held = ""

    def _is_known(self, name: str) -> bool:
        return bool(self._format.opening) or name in self._names


class _Object:
    """The JSON object of a call, read character by character.

    Args:
        key: Name of the field with the arguments.

    Attributes:
        text: The characters of the object.
        depth: The number of open brackets.
        name: The value of ``name``, once it is complete.
        has_arguments: Whether the arguments have begun.
        is_announced: Whether the first part of the call was sent.
    """

    def __init__(self, key: str) -> None:
        self.text = ""
        self.depth = 0
        self.name: str | None = None
        self.has_arguments = False
        self.is_announced = False
        self._key = key
        self._is_string = self._is_escaped = False
        self._begun = 0  # where the current string or value begins
        self._field: str | None = None  # the field whose value is being read
        self._string = ""
        self._waiting = ""  # characters of the arguments that were not taken

    def add(self, character: str) -> None:
        """Read one character."""
        self.text += character
        place = len(self.text) - 1
        was_inside = self._field == self._key and self.depth >= 2
        if self._is_string:
            if self._is_escaped:
                self._is_escaped = False
            elif character == "\\":
                self._is_escaped = True
            elif character == '"':
                self._is_string = False
                self._end_string(place)
        elif character == '"':
            self._is_string, self._begun = True, place
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
            self._waiting += character

    def _end_string(self, place: int) -> None:
        if self.depth != 1:
            return
        try:
            self._string = json.loads(self.text[self._begun : place + 1])
        except ValueError:
            return
        if self._field == "name":
            self.name = self._string

    def take(self) -> str:
        """Return the next characters of the arguments."""
        taken, self._waiting = self._waiting, ""
        return taken

    def whole(self) -> tuple[str, str] | None:
        """Return the name and the JSON of the arguments of a complete call, or None if the object is no call."""
        try:
            record = json.loads(self.text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or not isinstance(record.get("name"), str) or self._key not in record:
            return None
        arguments = record[self._key]
        if isinstance(arguments, str):  # JSON in JSON
            return record["name"], arguments
        return record["name"], self._waiting or json.dumps(arguments or {}, ensure_ascii=False)


def joined(parts: Iterable[CallPart]) -> list[dict[str, Any]]:
    """Return the calls of which ``parts`` are the parts, each with ``name`` and ``arguments``."""
    calls: dict[int, dict[str, Any]] = {}
    for part in parts:
        call = calls.setdefault(part.number, {"name": part.name, "arguments": ""})
        call["arguments"] += part.arguments
    return list(calls.values())


def tools_by_name(tools: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the functions of ``tools``, keyed by name."""
    return {tool["function"]["name"]: tool["function"] for tool in tools}


def _begun(text: str, mark: str) -> int:
    """Return the number of characters at the end of ``text`` that begin ``mark``."""
    return next((size for size in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-size:])), 0)
