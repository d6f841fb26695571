"""Strings with a mark for each character. The mark records whether the chat template wrote the character, so that a special
token of the template can be told from the same text in a message.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import or_
from typing import Any, NamedTuple, SupportsIndex

import markupsafe

from hf_sgpe.vocabulary.added_patterns import EXACTLY, Matching
from hf_sgpe.vocabulary.special_tokens import any_of

TEMPLATE, ANSWER = 1, 2
"""Marks of a character: `TEMPLATE` for a character that the template wrote, and `ANSWER` for a part of an answer of the
assistant. A character with both has the sum of the two. A character without `TEMPLATE` is from a message, a tool, another
variable or an unknown origin.
"""

_TEMPLATE_MARKS = bytes([TEMPLATE, TEMPLATE | ANSWER])
_BY_TEMPLATE = re.compile(b"[%b]+" % _TEMPLATE_MARKS)
_RUN = re.compile(rb"(.)\1*", re.DOTALL)
_AS_ANSWER = bytes(mark | ANSWER for mark in range(256))

# A placeholder: ``%s``, ``%%``, ``%-5.2f``, ``%(name)s``, ``%*d``.
_PLACEHOLDER = re.compile(r"%(?:\(([^()]*)\))?([#0\- +]*(?:\*|\d+)?(?:\.(?:\*|\d*))?[hlL]?(.))", re.DOTALL)


class Written(str):
    """A string with a mark for each character. The characters of ordinary strings count as unmarked.

    Joining, cutting and other usual operations of templates keep the marks. All other operations return an ordinary string,
    for which `follow` then computes the marks. Templates can call every public method, so no public method sets marks.

    >>> text = by_template("<s>") + "hi"
    >>> text[2:4], marks_of(text[2:4])
    ('>h', b'\\x01\\x00')
    """

    _marks: bytes

    def __new__(cls, text: str = "", marks: bytes | None = None) -> Written:
        self = super().__new__(cls, text)
        # The underscore hides the attribute from templates.
        self._marks = marks_of(text) if marks is None else marks
        return self

    def __str__(self) -> str:
        # Templates call str(text) on everything.
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
        for place in _PLACEHOLDER.finditer(self):
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
        marked = join([*pieces, self[end:]])
        return marked if marked == filled else follow(filled, self, values)

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
        return self._with_marks(super().split(sep, maxsplit), len(sep or ""))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._with_marks(super().rsplit(sep, maxsplit), len(sep or ""))

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = self._with_marks(super().splitlines(keepends=True))
        return lines if keepends else [line[: len(str.splitlines(line)[0])] for line in lines]

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        before, separator, after = self._with_marks(super().partition(sep))
        return before, separator, after

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        before, separator, after = self._with_marks(super().rpartition(sep))
        return before, separator, after

    def _with_marks(self, pieces: Iterable[str], between: int = 0) -> list[str]:
        """Return substrings of this text, in their order, with their marks.

        Args:
            between: Number of characters between two substrings, or 0 if only white space or nothing is between them.
        """
        marked: list[str] = []
        place = 0
        for piece in pieces:
            place = place if between else self.find(piece, place)
            marked.append(self[place : place + len(piece)])
            place += len(piece) + between
        return marked

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
    """A string with marks that counts as HTML: the result of the filters ``e`` and ``safe``. It escapes text that is joined
    to it.
    """

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
    """Return ``text`` with every character marked as written by the template."""
    return Written(text, bytes([TEMPLATE]) * len(text))


def as_answer(text: str) -> Written:
    """Return ``text`` with the mark of an assistant's answer on every character."""
    return Written(text, marks_of(text).translate(_AS_ANSWER))


def text_of(value: object) -> str:
    """Return ``str(value)``. Characters that come from strings in ``value`` keep their marks."""
    return str(value) if isinstance(value, str) else spelled(value, str(value), repr)


def spelled(value: object, text: str, spell: Callable[[str], str], *, sort_keys: bool = False) -> Written:
    """Return ``text``, the ``repr`` or JSON of ``value``. Characters that come from strings in ``value`` keep their marks.

    Args:
        spell: Function that returns the ``repr`` or JSON of a single string, with quotes.
        sort_keys: Whether ``text`` sorts dictionaries by key.
    """
    if _is_by_template(value):
        return by_template(text)
    marks, place = bytearray(len(text)), 0
    for leaf in _leaves(value, sort_keys=sort_keys):
        if not isinstance(leaf, str):
            if _is_by_template(leaf):
                continue
            return Written(text)
        literal = spell(str.__str__(leaf))
        place = text.find(literal, place)
        if place < 0:  # JSON in another form, from another encoder that the template uses
            return Written(text)
        # Each character is spelled independently, but repr chooses the quotes by the whole string.
        quote = '"' if literal[0] == "'" else ""
        start = place + 1
        for run in _RUN.finditer(marks_of(leaf)):
            size = len(spell(str.__getitem__(leaf, slice(*run.span())) + quote)) - len(quote) - 2
            marks[start : start + size] = run.group(1) * size
            start += size
        place += len(literal)
    return Written(text, bytes(marks))


def follow(result: Any, text: object, *others: object) -> Any:
    """Mark the result of an operation that drops marks. The operation was applied to ``text`` and ``others``. If the result
    is not a string, return it unchanged.

    If the template wrote ``text`` and ``others``, the whole result counts as written by the template. If the template wrote
    only ``others``, the characters of ``text`` keep their marks in two cases: the result contains ``text`` exactly once, or
    the result differs from ``text`` only in case and white space. All other characters count as written by a message.

    >>> marks_of(follow(" <S> A", by_template("<s>") + "a"))
    b'\\x00\\x01\\x01\\x01\\x00\\x00'
    """
    if not isinstance(result, str) or (isinstance(result, Written) and not isinstance(text, str)):
        return result  # an item of a list keeps its own marks
    marks = marks_of(result)
    if _is_by_template(others):
        source = text_of(text)
        if _is_by_template(text):  # an answer only if every character of ``text`` is
            marks = bytes([min(marks_of(source), default=TEMPLATE)]) * len(result)
        elif carried := _carried(source, result):
            marks = bytes(map(or_, marks, carried))
    written = Written(str.__str__(result), marks)
    return Markup(written) if isinstance(result, markupsafe.Markup) else written


def _carried(text: str, result: str) -> bytes | None:
    """Return the marks that the rule in `follow` carries over from ``text`` to ``result``, or None if there are none."""
    marks = marks_of(text)
    if not marks.strip(b"\0"):
        return None
    text, result = str.__str__(text), str.__str__(result)
    if len(text) == len(result) and text.casefold() == result.casefold():
        return marks
    place = result.find(text)
    if place >= 0 and result.find(text, place + 1) < 0:
        return bytes(place) + marks + bytes(len(result) - place - len(text))
    # Compare without case and white space. One character can become several when its case changes.
    folded = [(character.casefold(), mark) for character, mark in zip(text, marks, strict=True) if not character.isspace()]
    result_folded = ["" if character.isspace() else character.casefold() for character in result]
    if "".join(characters for characters, _ in folded) != "".join(result_folded):
        return None
    marks = b"".join(bytes([mark]) * len(characters) for characters, mark in folded)
    carried, place = bytearray(), 0
    for characters in result_folded:
        distinct = set(marks[place : place + len(characters)])
        carried.append(distinct.pop() if len(distinct) == 1 else 0)
        place += len(characters)
    return bytes(carried)


def _is_by_template(value: object) -> bool:
    """Return whether the template wrote all strings in ``value``, and all other items are numbers or None."""
    return all(
        not marks_of(leaf).translate(None, _TEMPLATE_MARKS)
        if isinstance(leaf, str)
        else leaf is None or isinstance(leaf, (int, float))
        for leaf in _leaves(value)
    )


def _leaves(value: object, *, sort_keys: bool = False) -> Iterator[object]:
    """Yield the strings, numbers and other values in nested lists and dictionaries, in the order of ``repr``."""
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
    """Concatenate texts, and keep their marks."""
    texts = list(texts)
    return Written("".join(texts), b"".join(map(marks_of, texts)))


def marks_of(text: str) -> bytes:
    """Return the marks of a text: for each character one byte, the sum of `TEMPLATE` and `ANSWER` or 0."""
    return text._marks if isinstance(text, Written) else bytes(len(text))


class Finder:
    """A search for special tokens in text. It finds tokens as the encoder does: from left to right and, if several begin at
    the same position, the longest.

    Args:
        special: Texts of the special tokens.
        others: Texts of added tokens that are not special. A special token that overlaps an earlier one of these is not
            found.
        matching: Rules such as ``single_word``, keyed by token. A token without rules matches wherever its text occurs.

    Attributes:
        names: Texts of the special tokens.

    >>> list(Finder(["<s>"], ["a<"]).spans("<s> a<s>"))
    [(0, 3)]
    """

    def __init__(
        self,
        special: Iterable[str],
        others: Iterable[str] = (),
        matching: Mapping[str, Matching] | None = None,
    ) -> None:
        self.names = frozenset(special)
        names = self.names.union(others)
        self._added = any_of(names)
        self._matching = matching or {}

    def spans(self, text: str, start: int = 0, stop: int = sys.maxsize) -> Iterator[tuple[int, int]]:
        """Yield the start and stop of each special token. The matching rules are not applied yet (see `reach`): the spans
        contain no white space around the text, and include ``single_word`` tokens inside words.
        """
        for match in self._added.finditer(text, start, stop):
            if match.group() in self.names:
                yield match.span()

    def reach(self, text: str, start: int, stop: int, after: int) -> tuple[int, int] | None:
        """Apply the matching rules of the special token whose text is ``text[start:stop]``.

        Args:
            after: Stop of the preceding token. White space before this position does not belong to the token.

        Returns:
            Start and stop of the token with the white space that belongs to it, or None if a ``single_word`` token is inside
            a word.
        """
        return self._matching.get(text[start:stop], EXACTLY).reach(text, start, stop, after)


class Part(NamedTuple):
    """A part of a rendered conversation: ordinary text, or a single special token that the template wrote.

    Attributes:
        span: Start and stop in the conversation, with the white space that belongs to a special token.
    """

    text: str
    is_special: bool
    span: tuple[int, int]


def parts(text: Written, special: Finder) -> Iterator[Part]:
    """Split ``text`` at the special tokens that the template wrote. Other special tokens stay ordinary text.

    >>> text = by_template("<s>") + "a <s>"
    >>> [part.text for part in parts(text, Finder(["<s>"]))]
    ['', '<s>', 'a <s>']
    """
    plain, place = str.__str__(text), 0
    for token in _template_spans(text, special):
        if (reach := special.reach(plain, *token, place)) is not None:
            yield Part(plain[place : reach[0]], False, (place, reach[0]))
            yield Part(plain[slice(*token)], True, reach)
            place = reach[1]
    yield Part(plain[place:], False, (place, len(plain)))


def is_plain(text: Written, special: Finder) -> bool:
    """Return whether the template wrote all special tokens in ``text``. Such a text can be encoded without its marks."""
    return list(special.spans(text)) == list(_template_spans(text, special))


def _template_spans(text: Written, special: Finder) -> Iterator[tuple[int, int]]:
    for run in _BY_TEMPLATE.finditer(marks_of(text)):
        yield from special.spans(text, *run.span())
