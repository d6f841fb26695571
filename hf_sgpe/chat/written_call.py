"""The base class of the readers that take a tool call one character at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod


class WrittenCall(ABC):
    """A reader of one tool call. Pass it the text of the call one character at a time, until ``depth`` is 0.

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
