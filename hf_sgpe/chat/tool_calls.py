"""Tool calls in the answers of models: the formats of calls, and a reader for streams.

A mark of the format (``<tool_call>``, ``[TOOL_CALLS]``) begins a call. If a mark is a token of the vocabulary, only this
token begins a call. The same characters in other tokens are text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from hf_sgpe.chat.call_parsers import ARGUMENTS, BEGINNING, CALL_ID, KEYED_MARKS, CallParser, call_parser


class CallPart(NamedTuple):
    """A part of a tool call, as it arrives in a stream.

    Attributes:
        number: Number of the call in the answer, from 0.
        name: In the first part of a call, the name of the function. In later parts, None.
        arguments: The next characters of the arguments' JSON.
    """

    number: int
    name: str | None
    arguments: str


class Mark(str):
    """The text of a token that is a mark of a format. This class tells the token from the same characters in other
    tokens.
    """

    __slots__ = ()


@dataclass(frozen=True)
class CallFormat:
    """A format in which models write tool calls.

    Args:
        pattern: Regular expression. It matches a part of every chat template that uses this format.
        key: Name of the field with the arguments, in calls of the kind ``json``.
        opening: Mark before calls. If it is empty, an answer is a call if it begins with a JSON object that contains the
            name of a tool.
        closing: Mark after calls, or an empty string if there is none.
        before, between, after: Text before the first call, between calls, and after the last call.
        is_repeated: Whether the marks are repeated for each call.
        kind: How a call is written: as an object with the name and the arguments (``json``), with the arguments as text
            between tags (``tagged``), as the name followed by the arguments' JSON (``named``), or as the name followed by
            marked keys and values (``keyed``).
        around: Text before and after the values of a ``tagged`` call.
        also: Other marks. They may occur inside calls, and have no effect elsewhere.
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
    kind: Literal["json", "tagged", "named", "keyed"] = "json"
    around: str = ""
    also: tuple[str, ...] = ()

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.opening, self.closing, *self.also)))


_on_lines = partial(CallFormat, before="\n", between="\n", after="\n")
_in_list = partial(CallFormat, before="[", between=", ", after="]")

FORMATS = (
    _on_lines(
        "qwen3-coder",
        r"<tool_call>[\s\S]*<function=",
        opening="<tool_call>",
        closing="</tool_call>",
        is_repeated=True,
        kind="tagged",
        around="\n",
    ),
    _on_lines(
        "seed", "<seed:tool_call>", opening="<seed:tool_call>", closing="</seed:tool_call>", is_repeated=True, kind="tagged"
    ),
    CallFormat(
        "glm",
        r"<tool_call>[\s\S]*<arg_key>",
        opening="<tool_call>",
        between="\n",
        is_repeated=True,
        kind="keyed",
        also=KEYED_MARKS,
    ),
    _in_list("apriel", r"<tool_calls>\[", opening="<tool_calls>", closing="</tool_calls>"),
    _on_lines("minimax-m1", r"<tool_calls>(?:\n|\\n)\{", opening="<tool_calls>", closing="</tool_calls>"),
    _in_list("nemotron", r"<TOOLCALL>\[", opening="<TOOLCALL>", closing="</TOOLCALL>"),
    _on_lines(
        "hermes",
        r"^(?![\s\S]*(?:<function=|<tool_sep>|<invoke))[\s\S]*<tool_call>[\s\S]*arguments",
        opening="<tool_call>",
        closing="</tool_call>",
        is_repeated=True,
    ),
    _in_list("mistral", r"^(?![\s\S]*\[ARGS\])[\s\S]*\[TOOL_CALLS\]", opening="[TOOL_CALLS]"),
    CallFormat(
        "mistral-args",
        r"\[TOOL_CALLS\][\s\S]*\[ARGS\]",
        opening="[TOOL_CALLS]",
        kind="named",
        is_repeated=True,
        also=(ARGUMENTS, CALL_ID),
    ),
    CallFormat("llama3", r"ipython[\s\S]*\"parameters\\?\"", "parameters", between="; ", also=("<|python_tag|>",)),
)
"""The supported formats. Hermes is also the format of Qwen 2.5 and Qwen 3, and qwen3-coder that of Qwen 3.5.
The first format that fits a template counts."""


def format_of(template: str) -> CallFormat | None:
    """Return the format in which a chat template writes tool calls, or None if the format is unknown."""
    return next((known for known in FORMATS if re.search(known.pattern, template)), None)


def has_tools(template: str) -> bool:
    """Return whether a chat template contains the variable ``tools``."""
    return re.search(r"\btools\b", template) is not None


class CallReader:
    """A reader that finds tool calls in a streamed answer.

    If text looks like the beginning of a call, but does not become a call, it is yielded as text. If the format has no mark
    before calls, a call of an unknown function is yielded as text, too.

    Args:
        parameters: The JSON schema of each tool's parameters, keyed by the tool's name.
        tokens: The marks that are tokens of the vocabulary. `read` must get each of these tokens as a `Mark`.
        most: Maximum number of calls, at which the answer is cut. None means no limit.

    Attributes:
        calls: The number of calls that have begun.
        is_full: Whether the answer has the maximum number of complete calls. Text after the last call is then ignored.

    >>> reader = CallReader(format_of("<tool_call> arguments"), {"add": {}})
    >>> [*reader.read('Wait. <tool_call>{"name": "add", "arguments": {"a"'), *reader.read(": 1}}</tool_call>")]
    ['Wait.', CallPart(number=0, name='add', arguments=''), CallPart(number=0, name=None, arguments='{"a"'), \
CallPart(number=0, name=None, arguments=': 1}')]
    """

    def __init__(
        self,
        call_format: CallFormat,
        parameters: Mapping[str, Any],
        *,
        tokens: Collection[str] = (),
        most: int | None = None,
    ) -> None:
        self.calls = 0
        self._format = call_format
        self._parameters = parameters
        self._tokens = frozenset(tokens)
        self._most = most
        self._held = ""  # characters that may begin a mark, or white space in front of a mark
        self._opened = ""  # the marks and brackets in front of the current call
        self._object: CallParser | None = None
        self._may_call = not call_format.opening  # whether the next character may begin a call
        self.is_full = False

    def read(self, text: str) -> Iterator[str | CallPart]:
        if isinstance(text, Mark):
            yield from self._read_mark(text)
            return
        shown: list[str] = []
        while text and not self.is_full:
            if self._object is not None:
                parts, text = self._in_object(text[0]), text[1:]
            elif self._may_call:
                parts, text = self._in_front(text[0]), text[1:]
            else:
                parts, text = self._in_text(text)
            for part in parts:
                if isinstance(part, str):
                    shown.append(part)
                    continue
                if shown:
                    yield "".join(shown)
                    shown.clear()
                yield part
        if shown:
            yield "".join(shown)
        if self._object is not None:
            yield from self._arguments()

    def end(self) -> Iterator[str | CallPart]:
        if self._object is not None:
            yield from self._close_object()
        rest = self._opened + self._held
        if self.calls and not self._opened and (self._may_call or rest.isspace()):
            rest = ""  # brackets and white space after a call
        self._held = self._opened = ""
        if rest and not self.is_full:
            yield rest

    def _read_mark(self, mark: str) -> Iterator[str | CallPart]:
        if self._object is not None and mark in self._format.also:
            for character in mark:
                yield from self._in_object(character)
            return
        if self._object is not None:
            yield from self._close_object()
        if mark == self._format.closing:
            self._held += mark
            yield from self._closed() if self._may_call else self._flush()
        elif mark == self._format.opening or not self._format.opening:
            yield from self._open(self._opened + self._held, mark)

    def _in_text(self, text: str) -> tuple[Iterator[str], str]:
        """Read text up to a mark. Return the text before the mark, and the rest after it."""
        self._held += text
        opening = self._format.opening
        if not opening:
            return self._flush(), ""
        before, has_mark, after = until_mark(self._held, opening, is_text=opening not in self._tokens)
        if has_mark:
            return self._open(before, opening), after
        self._held = after
        return iter([before] if before else []), ""

    def _open(self, before: str, mark: str) -> Iterator[str]:
        """Switch from text to calls. Return the text before the call, without trailing white space."""
        shown = before.rstrip()
        self._opened, self._held, self._may_call = before[len(shown) :] + mark, "", True
        return iter([shown] if shown else [])

    def _in_front(self, character: str) -> Iterator[str | CallPart]:
        """Read a character between a mark and a call, or between calls."""
        closing = self._format.closing
        # A call of another kind may begin with any character.
        beginning = {"json": "{", "tagged": BEGINNING}.get(self._format.kind, "")
        self._held += character
        if self._held.endswith(beginning) and not character.isspace():
            first = beginning or character
            self._opened += self._held.removesuffix(first)
            self._held = ""
            self._object = call_parser(self._format.kind, self._format.key, self._parameters)
            for each in first:
                yield from self._in_object(each)
            return
        rest = self._held.strip()
        if rest and beginning.startswith(rest):
            return
        end = rest.lstrip("];, \n")
        if end and closing not in self._tokens and closing.startswith(end):
            if end == closing:
                yield from self._closed()
            return
        if rest.strip("[];, \n") or len(self._held) > _MOST_BEFORE_CALL:  # no call
            yield from self._as_text()

    def _in_object(self, character: str) -> Iterator[str | CallPart]:
        call = self._object
        assert call is not None
        call.add(character)
        if not call.is_announced and call.name is not None and call.has_arguments and self._is_known(call.name):
            call.is_announced = True
            self.calls += 1
            yield CallPart(self.calls - 1, call.name, "")
        if call.depth == 0:
            yield from self._close_object()

    def _arguments(self) -> Iterator[CallPart]:
        call = self._object
        assert call is not None
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
        self._may_call = self._format.kind in ("json", "tagged")  # every other call has its own mark
        self.is_full = self.calls == self._most

    def _closed(self) -> Iterator[str]:
        """Switch from calls to text after the closing mark. If no call was between the marks, yield them as text."""
        if self._opened:
            yield from self._as_text()
        self._held, self._may_call = "", False

    def _as_text(self) -> Iterator[str]:
        """Yield, as text, the characters that were read as the beginning of a call."""
        self._held = self._opened + self._held
        self._opened, self._may_call = "", False
        yield from self._flush()

    def _flush(self) -> Iterator[str]:
        if self._held:
            yield self._held
            self._held = ""

    def _is_known(self, name: str) -> bool:
        return bool(self._format.opening) or name in self._parameters


def joined(parts: Iterable[CallPart]) -> list[dict[str, Any]]:
    """Join ``parts`` into whole calls, each with ``name`` and ``arguments``."""
    calls: dict[int, dict[str, Any]] = {}
    for part in parts:
        call = calls.setdefault(part.number, {"name": part.name, "arguments": ""})
        call["arguments"] += part.arguments
    return list(calls.values())


_MOST_BEFORE_CALL = 200
"""Maximum number of characters between a mark and a call, or between calls."""


class Reasoning(str):
    """A string that is part of the model's reasoning, not of its answer."""

    __slots__ = ()


def until_mark(text: str, mark: str, *, is_text: bool) -> tuple[str, bool, str]:
    """Return the text before a mark, whether the mark is there, and the text after it. Without the mark, these are the text
    that certainly precedes a mark, and the rest: a possible beginning of the mark, and the white space before it.

    Args:
        is_text: Whether the mark is text. Otherwise, it is a token, which arrives as a `Mark`.
    """
    begun = 0
    if is_text:
        before, found, after = text.partition(mark)
        if found:
            return before, True, after
        sizes = range(min(len(text), len(mark) - 1), 0, -1)
        begun = next((size for size in sizes if mark.startswith(text[-size:])), 0)
    safe = text[: len(text) - begun].rstrip()
    return safe, False, text[len(safe) :]
