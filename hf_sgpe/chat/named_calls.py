"""Tool calls as newer Mistral models write them: the name of a function, followed by a JSON object with the arguments."""

from __future__ import annotations

import json

from hf_sgpe.chat.written_call import WrittenCall

ARGUMENTS = "[ARGS]"
"""The mark between the name and the arguments. Between the name and this mark, there may be ``[CALL_ID]`` and an id."""

_CALL_ID = "[CALL_ID]"
_MOST_IN_NAME = 300


class NamedCall(WrittenCall):
    """A reader of a tool call such as ``add[ARGS]{"a": 1}``."""

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
            self.name = self.text[: -len(ARGUMENTS)].partition(_CALL_ID)[0].strip()
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
