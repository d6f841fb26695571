"""Tool calls in the form of GLM 4.5 and later models: a name, followed by marked keys and values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hf_sgpe.chat.tagged_calls import schema_of, typed
from hf_sgpe.chat.written_call import WrittenCall

KEYED_MARKS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")
"""The marks of a call after its name: ``NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>``."""

_KEY, _END_OF_KEY, _VALUE, _END_OF_VALUE, _END = KEYED_MARKS
_NAME = re.compile(r"[^\s<>]+")
_MOST_IN_NAME = 300


class KeyedCall(WrittenCall):
    """A reader that takes the text of a call one character at a time.

    Args:
        parameters: The JSON schema of each tool's parameters, keyed by the tool's name. The types in the schema decide
            whether a value is text or JSON.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(1)
        self._parameters = parameters
        self._begun = 0  # the place after the last mark
        self._key: str | None = None
        self._is_value = False
        self._waiting = ""
        self._has_values = False

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
            self.name, self.has_arguments, self._waiting = text.strip(), True, "{"
        if mark == _END_OF_KEY:
            self._key = text.strip()
        elif mark == _VALUE:
            self._is_value = True
        elif mark == _END_OF_VALUE and self._key is not None:
            value = json.dumps(typed(text, schema_of(self._parameters, self.name, self._key)), ensure_ascii=False)
            self._waiting += f"{', ' if self._has_values else ''}{json.dumps(self._key, ensure_ascii=False)}: {value}"
            self._key, self._is_value, self._has_values = None, False, True
        elif mark == _END:
            self._waiting += "}"
            self.depth = 0

    def take(self) -> str:
        taken, self._waiting = self._waiting, ""
        return taken

    def whole(self) -> tuple[str, str] | None:
        return (self.name, self._waiting) if self.name is not None and self.depth == 0 else None
