"""Tool calls that models write as JSON objects. The text of a call is read while it arrives."""

from __future__ import annotations

import json

from hf_sgpe.chat.written_call import WrittenCall


class JsonCall(WrittenCall):
    """A reader of a tool call such as ``{"name": "add", "arguments": {"a": 1}}``.

    Args:
        key: Name of the field with the arguments, such as ``arguments``.
    """

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
        place = len(self._characters) - 1
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
            self._waiting.append(character)

    def _end_string(self, place: int) -> None:
        if self.depth != 1:
            return
        try:
            self._string = json.loads("".join(self._characters[self._begun : place + 1]))
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
