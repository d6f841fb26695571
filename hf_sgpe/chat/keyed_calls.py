"""Tool calls as GLM 4.5 and later models write them: a name, followed by marked keys and values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hf_sgpe.chat.text_values import CallOfTexts

KEYED_MARKS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")
"""The marks of a call after its name: ``NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>``."""

_KEY, _END_OF_KEY, _VALUE, _END_OF_VALUE, _END = KEYED_MARKS
_NAME = re.compile(r"[^\s<>]+")
_MOST_IN_NAME = 300


class KeyedCall(CallOfTexts):
    """A reader of a tool call such as ``add<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>``."""

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
