"""Text that knows of each of its characters whether the chat template wrote it or a message."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, SupportsIndex

from hf_sgpe.special_tokens import any_of

TEMPLATE, ANSWER, MESSAGE = 1, 2, 4
"""Marks of a character, to be added up: written by the template itself; part of what the assistant answered; taken from a
message, a tool or another variable. Without the first and the last nobody knows who wrote it."""

_BY_TEMPLATE = re.compile(b"[%c%c]+" % (TEMPLATE, TEMPLATE | ANSWER))
_AS_ANSWER = bytes(mark | ANSWER for mark in range(256))
_AS_MESSAGE = bytes(mark if mark & TEMPLATE else mark | MESSAGE for mark in range(256))


class Written(str):
    """A text with a mark for each character; characters of any other text have none.

    The operations that templates put text together and take it apart by keep the marks. All others give an ordinary
    text, without marks. A template reaches every public method, so what gives marks is none of them.

    >>> text = by_template("<s>") + "hi"
    >>> text[2:4], marks_of(text[2:4])
    ('>h', b'\\x01\\x00')
    """

    _marks: bytes

    def __new__(cls, text: str = "", marks: bytes | None = None) -> Written:
        self = super().__new__(cls, text)
        # Templates see no attribute that begins with an underscore.
        self._marks = bytes(len(self)) if marks is None else marks
        return self

    def __str__(self) -> str:
        return self  # str(text) is what templates pass everything through

    def __add__(self, other: str) -> Written:
        return join((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> Written:
        return join((other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> Written:
        return Written(super().__mul__(times), self._marks * times)

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> Written:
        pieces = super().split("%s")
        each = values if isinstance(values, tuple) else (values,)
        if len(pieces) != len(each) + 1 or any("%" in piece for piece in pieces):
            return Written(super().__mod__(values))
        return join(piece for pair in zip(self.split("%s"), (*map(text_of, each), ""), strict=True) for piece in pair)

    def __getitem__(self, place: SupportsIndex | slice) -> Written:
        marks = self._marks[place] if isinstance(place, slice) else bytes([self._marks[place]])
        return Written(super().__getitem__(place), marks)

    def __iter__(self) -> Iterator[Written]:
        return map(self.__getitem__, range(len(self)))

    def join(self, texts: Iterable[str], /) -> Written:
        between = [piece for text in texts for piece in (self, text)]
        return join(between[1:])

    def strip(self, characters: str | None = None, /) -> Written:
        return self.lstrip(characters).rstrip(characters)

    def lstrip(self, characters: str | None = None, /) -> Written:
        return self[len(self) - len(super().lstrip(characters)) :]

    def rstrip(self, characters: str | None = None, /) -> Written:
        return self[: len(super().rstrip(characters))]

    def removeprefix(self, prefix: str, /) -> Written:
        return self[len(prefix) :] if self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> Written:
        return self[: len(self) - len(suffix)] if self.endswith(suffix) else self

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._found(super().split(sep, maxsplit), len(sep or ""))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._found(super().rsplit(sep, maxsplit), len(sep or ""))

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = self._found(super().splitlines(keepends=True))
        return lines if keepends else [line[: len(str.splitlines(line)[0])] for line in lines]

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        before, found, after = self._found(super().partition(sep))
        return before, found, after

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        before, found, after = self._found(super().rpartition(sep))
        return before, found, after

    def _found(self, pieces: Iterable[str], between: int = 0) -> list[str]:
        """``pieces`` of this text, which lie in it in this order, so many characters (0: or white space) between them."""
        found: list[str] = []
        place = 0
        for piece in pieces:
            place = place if between else self.find(piece, place)
            found.append(self[place : place + len(piece)])
            place += len(piece) + between
        return found

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Written:
        if not old:
            return Written(super().replace(old, new, count))
        return (new if isinstance(new, Written) else Written(new)).join(self.split(old, count))

    def upper(self) -> Written:
        return self._if_as_long(super().upper())

    def lower(self) -> Written:
        return self._if_as_long(super().lower())

    def capitalize(self) -> Written:
        return self._if_as_long(super().capitalize())

    def title(self) -> Written:
        return self._if_as_long(super().title())

    def swapcase(self) -> Written:
        return self._if_as_long(super().swapcase())

    def _if_as_long(self, text: str) -> Written:
        # A change of case makes of one character one or more, so of as many it made one each.
        return Written(text, self._marks if len(text) == len(self) else None)


def by_template(text: str) -> Written:
    """A text all of which the template wrote."""
    return Written(text, bytes([TEMPLATE]) * len(text))


def by_message(text: str) -> Written:
    """A text all of which comes from a message, a tool or another variable."""
    return Written(text, bytes([MESSAGE]) * len(text))


def as_answer(text: str) -> Written:
    """The same text, all of it part of what the assistant answered."""
    return Written(text, marks_of(text).translate(_AS_ANSWER))


def text_of(value: object) -> str:
    """``str(value)``, with marks as `spelled` gives them to a list or a dictionary."""
    return spelled(value, str(value)) if isinstance(value, (dict, list, tuple)) else str(value)


def spelled(value: object, text: str) -> Written:
    """``text``, which spells out ``value``: the template's if all texts in there are, else a message's."""
    marks = set(b"".join(map(marks_of, _texts_in(value))))
    is_own = bool(marks) and all(mark & TEMPLATE and not mark & MESSAGE for mark in marks)
    return (by_template if is_own else by_message)(text)


def spelled_in_json(value: object, encode: Callable[[object], str], *, sort_keys: bool = False) -> Written:
    """``value`` as JSON: `spelled`, but that each text in there keeps its marks where it has some of both.

    Args:
        encode: Makes JSON of a value.
        sort_keys: Whether it sorts the keys of dictionaries.
    """
    text = encode(value)
    written = spelled(value, text)
    if TEMPLATE in marks_of(written):
        return written
    marks, place = bytearray(marks_of(written)), 0
    for found in _texts_in(value, sort_keys=sort_keys):
        literal = encode(str.__str__(found))
        place = text.find(literal, place)
        if place < 0:  # an encoder that was made to write JSON otherwise
            return written
        if any(mark & TEMPLATE for mark in marks_of(found)):
            # JSON writes each character by itself.
            each = [
                bytes([mark]) * (len(encode(one)) - 2) for one, mark in zip(str.__str__(found), marks_of(found), strict=True)
            ]
            marks[place + 1 : place + len(literal) - 1] = b"".join(each)
        place += len(literal)
    return Written(text, bytes(marks))


def _texts_in(value: object, *, sort_keys: bool = False) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        items = sorted(value.items()) if sort_keys else value.items()
        for item in chain.from_iterable(items):
            yield from _texts_in(item, sort_keys=sort_keys)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts_in(item, sort_keys=sort_keys)


def follow(made: Any, given: Iterable[object]) -> Any:
    """What some operation made of ``given``: if that is text, and all the text it was given a message's, it is, too."""
    texts = [value for value in given if isinstance(value, str)]
    if not isinstance(made, str) or not texts or not all(mark & MESSAGE for text in texts for mark in set(marks_of(text))):
        return made
    return Written(made, marks_of(made).translate(_AS_MESSAGE))


def join(texts: Iterable[str]) -> Written:
    """One text of several, marks and all; what `Written` is put together by."""
    texts = list(texts)
    return Written("".join(texts), b"".join(map(marks_of, texts)))


def marks_of(text: str) -> bytes:
    """One byte for each character: a sum of `TEMPLATE`, `ANSWER` and `MESSAGE`; 0 for all of any other text."""
    return text._marks if isinstance(text, Written) else bytes(len(text))


class Finder:
    """Finds special tokens in text as encoding does: of all added tokens the leftmost, and of those the longest.

    Args:
        special: Their texts.
        others: Texts of added tokens that are no special ones.

    >>> list(Finder(["<s>"], ["a<"]).spans("<s> a<s>"))
    [(0, 3)]
    """

    def __init__(self, special: Iterable[str], others: Iterable[str] = ()) -> None:
        self._special = frozenset(special)
        self._added = any_of(self._special.union(others))

    def spans(self, text: str, start: int = 0, stop: int = sys.maxsize) -> Iterator[tuple[int, int]]:
        """Where they begin and end."""
        for match in self._added.finditer(text, start, stop):
            if match.group() in self._special:
                yield match.span()


class Part(NamedTuple):
    """A piece of a written conversation: ordinary text, or one special token that the template wrote."""

    text: str
    is_special: bool


def parts(text: Written, special: Finder) -> Iterator[Part]:
    """``text`` in parts, in which only what the template itself wrote is a special token.

    >>> text = by_template("<s>") + "a <s>"
    >>> [part.text for part in parts(text, Finder(["<s>"]))]
    ['', '<s>', 'a <s>']
    """
    place = 0
    for start, stop in _own_spans(text, special):
        yield Part(str.__getitem__(text, slice(place, start)), False)
        yield Part(str.__getitem__(text, slice(start, stop)), True)
        place = stop
    yield Part(str.__getitem__(text, slice(place, None)), False)


def is_plain(text: Written, special: Finder) -> bool:
    """Whether encoding ``text`` as it is finds the special tokens that the template wrote, and no others."""
    return list(special.spans(text)) == list(_own_spans(text, special))


def forged(text: Written, special: Finder) -> list[Written]:
    """The special tokens that encoding ``text`` as it is would find and that the template did not write, or not alone."""
    own = set(_own_spans(text, special))
    return [text[start:stop] for start, stop in special.spans(text) if (start, stop) not in own]


def _own_spans(text: Written, special: Finder) -> Iterator[tuple[int, int]]:
    for run in _BY_TEMPLATE.finditer(marks_of(text)):
        yield from special.spans(text, *run.span())
