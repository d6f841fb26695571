"""Text that knows of each of its characters whether the chat template wrote it or a message."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest
from operator import or_
from typing import Any, NamedTuple, SupportsIndex

import markupsafe
import regex

from hf_sgpe.special_tokens import any_of

TEMPLATE, ANSWER = 1, 2
"""Marks of a character, to be added up: written by the template itself; part of what the assistant answered. What lacks the
first comes from a message, a tool or another variable, or cannot be told from what does."""

_OWN = bytes([TEMPLATE, TEMPLATE | ANSWER])
_BY_TEMPLATE = re.compile(b"[%b]+" % _OWN)
_RUN = re.compile(rb"(.)\1*", re.DOTALL)
_AS_ANSWER = bytes(mark | ANSWER for mark in range(256))

# A place to fill in: ``%s``, ``%%``, ``%-5.2f``, ``%(name)s``, ``%*d``.
_PLACE = re.compile(r"%(?:\(([^()]*)\))?([#0\- +]*(?:\*|\d+)?(?:\.(?:\*|\d*))?[hlL]?(.))", re.DOTALL)

# What the backend looks at beside added tokens with ``single_word``, ``lstrip`` and ``rstrip``.
_WORD = regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")
_SPACE = regex.compile(r"\p{White_Space}*")


class Written(str):
    """A text with a mark for each character; characters of any other text have none.

    The operations that templates put text together and take it apart by keep the marks. All others give an ordinary
    text, whose marks `follow` works out. A template reaches every public method, so what gives marks is none of them.

    >>> text = by_template("<s>") + "hi"
    >>> text[2:4], marks_of(text[2:4])
    ('>h', b'\\x01\\x00')
    """

    _marks: bytes

    def __new__(cls, text: str = "", marks: bytes | None = None) -> Written:
        self = super().__new__(cls, text)
        # Templates see no attribute that begins with an underscore.
        self._marks = marks_of(text) if marks is None else marks
        return self

    def __str__(self) -> str:
        # str(text) is what templates pass everything through.
        return self if type(self) is Written else Written(str.__str__(self), self._marks)

    def __add__(self, other: str) -> Written:
        if not isinstance(other, str) or (isinstance(other, markupsafe.Markup) and not isinstance(self, Markup)):
            return NotImplemented
        return join((self, other))

    def __radd__(self, other: str) -> Written:
        return join((other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> Written:
        return Written(super().__mul__(times), self._marks * times)

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> Written:
        filled = super().__mod__(values)
        pieces, end = [], 0
        in_order = iter(values if isinstance(values, tuple) else (values,))
        for place in _PLACE.finditer(self):
            name, form, kind = place.groups()
            pieces.append(self[end : place.start()])
            end = place.end()
            if kind == "%":
                pieces.append(self[end - 1 : end])
                continue
            sizes = [next(in_order) for _ in range(form.count("*"))]
            value = next(in_order) if name is None else values[name]
            if kind in "ra":
                spell = repr if kind == "r" else ascii
                form, value = form[:-1] + "s", spelled(value, spell(value), spell)
            pieces.append(follow(f"%{form}" % (*sizes, value), value))
        kept = join([*pieces, self[end:]])
        return kept if kept == filled else follow(filled, self, values)

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
        if old:
            pieces = super().split(old, count)
        else:
            most = count.__index__() if 0 <= count.__index__() <= len(self) else len(self) + 1
            text = str.__str__(self)
            pieces = ["", *text[: most - 1], text[most - 1 :]] if most else [text]
        marks, place = [], 0
        for piece in pieces:
            marks.append(self._marks[place : place + len(piece)])
            place += len(piece) + len(old)
        return Written(super().replace(old, new, count), marks_of(new).join(marks))


class Markup(markupsafe.Markup, Written):  # type: ignore[misc]
    """What the filters ``e`` and ``safe`` give, with marks: all text that is joined to it is escaped."""

    @classmethod
    def escape(cls, s: Any, /) -> Markup:
        if isinstance(s, cls):
            return s
        if not isinstance(s, Written):
            return cls(markupsafe.escape(s))
        for character, entity in (("&", "&amp;"), (">", "&gt;"), ("<", "&lt;"), ("'", "&#39;"), ('"', "&#34;")):
            s = s.replace(character, entity)
        return cls(s)


def by_template(text: str) -> Written:
    """A text all of which the template wrote."""
    return Written(text, bytes([TEMPLATE]) * len(text))


def as_answer(text: str) -> Written:
    """The same text, all of it part of what the assistant answered."""
    return Written(text, marks_of(text).translate(_AS_ANSWER))


def text_of(value: object) -> str:
    """``str(value)``, with the marks of the texts in it."""
    return str(value) if isinstance(value, str) else spelled(value, str(value), repr)


def spelled(value: object, text: str, spell: Callable[[str], str], *, sort_keys: bool = False) -> Written:
    """``text``, which spells out ``value`` as Python or JSON does, with the marks of the texts in there.

    Args:
        spell: What that makes of a text in there, quotes and all.
        sort_keys: Whether dictionaries come in the order of their keys.
    """
    if _is_own(value):
        return by_template(text)
    marks, place = bytearray(len(text)), 0
    for leaf in _leaves(value, sort_keys=sort_keys):
        if not isinstance(leaf, str):
            if _is_own(leaf):
                continue
            return Written(text)
        literal = spell(str.__str__(leaf))
        place = text.find(literal, place)
        if place < 0:  # an encoder that was made to write JSON otherwise
            return Written(text)
        # Each character is spelled out by itself, but that Python chooses the quotes by what is between them.
        quote = '"' if literal[0] == "'" else ""
        start = place + 1
        for run in _RUN.finditer(marks_of(leaf)):
            size = len(spell(str.__getitem__(leaf, slice(*run.span())) + quote)) - len(quote) - 2
            marks[start : start + size] = run.group(1) * size
            start += size
        place += len(literal)
    return Written(text, bytes(marks))


def follow(result: Any, text: object, *others: object) -> Any:
    """What an operation that knows no marks made of ``text`` and ``others``, with marks if it is text.

    It is the template's if all is that the operation was given. If only the ``others`` are, marks go with the characters of
    ``text``, where these are all there, between others or with nothing but case and white space changed. What cannot be told
    counts as a message's.

    >>> marks_of(follow(" <S> A", by_template("<s>") + "a"))
    b'\\x00\\x01\\x01\\x01\\x00\\x00'
    """
    if not isinstance(result, str) or (isinstance(result, Written) and not isinstance(text, str)):
        return result  # an item of a list knows who wrote it
    marks = marks_of(result)
    if _is_own(others):
        given = text_of(text)
        if _is_own(text):  # part of an answer, if all of it is
            marks = bytes([min(marks_of(given), default=TEMPLATE)]) * len(result)
        elif carried := _carried(given, result):
            marks = bytes(map(or_, marks, carried))
    written = Written(str.__str__(result), marks)
    return Markup(written) if isinstance(result, markupsafe.Markup) else written


def _carried(text: str, result: str) -> bytes | None:
    """The marks of the characters of ``text`` where ``result`` has just these, if it has; see `follow`."""
    if _is_bare(text):
        return None
    marks, text, result = marks_of(text), str.__str__(text), str.__str__(result)
    if len(text) == len(result) and text.casefold() == result.casefold():
        return marks
    place = result.find(text)
    if place >= 0 and result.find(text, place + 1) < 0:
        return bytes(place) + marks + bytes(len(result) - place - len(text))
    # Without case and white space both must be the same: a case can have more characters than the other.
    folded = [(one.casefold(), mark) for one, mark in zip(text, marks, strict=True) if not one.isspace()]
    sizes = [0 if one.isspace() else len(one.casefold()) for one in result]
    if "".join(one for one, _ in folded) != "".join(one.casefold() for one in result if not one.isspace()):
        return None
    marks = b"".join(bytes([mark]) * len(one) for one, mark in folded)
    carried, place = bytearray(), 0
    for size in sizes:
        of_one = set(marks[place : place + size])
        carried.append(of_one.pop() if len(of_one) == 1 else 0)
        place += size
    return bytes(carried)


def _is_bare(text: str) -> bool:
    return not isinstance(text, Written) or not text._marks.strip(b"\0")


def _is_own(value: object) -> bool:
    """Whether there is nothing in it but texts that the template wrote, and numbers."""
    return all(
        not marks_of(leaf).translate(None, _OWN) if isinstance(leaf, str) else leaf is None or isinstance(leaf, (int, float))
        for leaf in _leaves(value)
    )


def _leaves(value: object, *, sort_keys: bool = False) -> Iterator[object]:
    """All that is in lists and dictionaries, in the order in which it is spelled out."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += reversed([*chain.from_iterable(sorted(value.items()) if sort_keys else value.items())])
        elif isinstance(value, (list, tuple)):
            waiting += reversed(value)
        else:
            yield value


def join(texts: Iterable[str]) -> Written:
    """One text of several, marks and all; what `Written` is put together by."""
    texts = list(texts)
    return Written("".join(texts), b"".join(map(marks_of, texts)))


def marks_of(text: str) -> bytes:
    """One byte for each character: a sum of `TEMPLATE` and `ANSWER`; 0 for all of any other text."""
    return text._marks if isinstance(text, Written) else bytes(len(text))


class Finder:
    """Finds special tokens in text as encoding does: of all added tokens the leftmost, and of those the longest.

    Args:
        special: Their texts.
        others: Texts of added tokens that are no special ones.
        lstrip: Those of them that take the white space before them with them.
        rstrip: Those that take the white space after them.
        single_word: Those that are none beside letters and the like.

    >>> list(Finder(["<s>"], ["a<"]).spans("<s> a<s>"))
    [(0, 3)]
    """

    def __init__(
        self,
        special: Iterable[str],
        others: Iterable[str] = (),
        *,
        lstrip: Iterable[str] = (),
        rstrip: Iterable[str] = (),
        single_word: Iterable[str] = (),
    ) -> None:
        self._special = frozenset(special)
        self._added = any_of(self._special.union(others))
        self._lstrip, self._rstrip, self._single_word = frozenset(lstrip), frozenset(rstrip), frozenset(single_word)

    def spans(self, text: str, start: int = 0, stop: int = sys.maxsize) -> Iterator[tuple[int, int]]:
        """Where they begin and end, without the white space that they take with them; also those that stand in words."""
        for match in self._added.finditer(text, start, stop):
            if match.group() in self._special:
                yield match.span()

    def reach(self, text: str, start: int, stop: int, after: int) -> tuple[int, int] | None:
        """What the special token there takes of a text, none of it before ``after``; None if it is none in its place."""
        token = text[start:stop]
        if token in self._single_word and (_WORD.match(text, stop) or (start and _WORD.match(text, start - 1))):
            return None
        if token in self._lstrip:
            while start > after and _SPACE.fullmatch(text, start - 1, start):
                start -= 1
            start = max(start, after)
        if token in self._rstrip:
            stop = _SPACE.match(text, stop).end()
        return start, stop


class Part(NamedTuple):
    """A piece of a written conversation: ordinary text, or one special token that the template wrote.

    Attributes:
        span: Where it stands, with the white space that a special token takes with it.
    """

    text: str
    is_special: bool
    span: tuple[int, int]


def parts(text: Written, special: Finder) -> Iterator[Part]:
    """``text`` in parts, in which only what the template itself wrote is a special token.

    >>> text = by_template("<s>") + "a <s>"
    >>> [part.text for part in parts(text, Finder(["<s>"]))]
    ['', '<s>', 'a <s>']
    """
    plain, place = str.__str__(text), 0
    for token in _own_spans(text, special):
        if (reach := special.reach(plain, *token, place)) is not None:
            yield Part(plain[place : reach[0]], False, (place, reach[0]))
            yield Part(plain[slice(*token)], True, reach)
            place = reach[1]
    yield Part(plain[place:], False, (place, len(plain)))


def is_plain(text: Written, special: Finder) -> bool:
    """Whether encoding ``text`` as it is finds the special tokens that the template wrote, and no others."""
    return all(one == other for one, other in zip_longest(special.spans(text), _own_spans(text, special)))


def _own_spans(text: Written, special: Finder) -> Iterator[tuple[int, int]]:
    for run in _BY_TEMPLATE.finditer(marks_of(text)):
        yield from special.spans(text, *run.span())
