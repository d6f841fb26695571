"""Tool calls that are JSON objects, read while they arrive."""

from __future__ import annotations

import json


class JsonCall:
    """The JSON object of a call, read character by character.

    Args:
        key: Name of the field with the arguments.

    Attributes:
        depth: The number of open brackets.
        name: The value of ``name``, once it is complete.
        has_arguments: Whether the arguments have begun.
        is_announced: Whether the first part of the call has been sent.
    """

    def __init__(self, key: str) -> None:
        self.depth = 0
        self.name: str | None = None
        self.has_arguments = False
        self.is_announced = False
        self._key = key
        self._characters: list[str] = []
        self._is_string = self._is_escaped = False
        self._begun = 0  # where the current string or value begins
        self._field: str | None = None  # the field whose value is being read
        self._string = ""
        self._waiting: list[str] = []  # characters of the arguments that were not taken

    @property
    def text(self) -> str:
        """The characters of the object."""
        return "".join(self._characters)

    def add(self, character: str) -> None:
        """Read one character."""
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
        """Return the next characters of the arguments."""
        taken = "".join(self._waiting)
        self._waiting.clear()
        return taken

    def whole(self) -> tuple[str, str] | None:
        """Return the name and the JSON of the arguments of a complete call, or None if the object is not a call."""
        try:
            record = json.loads(self.text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or not isinstance(record.get("name"), str) or self._key not in record:
            return None
        arguments = record[self._key]
        if isinstance(arguments, str):  # JSON in JSON
            return record["name"], arguments
        return record["name"], "".join(self._waiting) or json.dumps(arguments or {}, ensure_ascii=False)
