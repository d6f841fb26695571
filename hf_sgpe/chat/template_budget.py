"""Limits for the time and the memory of a chat template, which is a program of the model's publisher.

The work of a template is counted in units: one for each round of a loop, each macro and each operation, and more for long
values. So whether a template is refused depends neither on the machine nor on its load. The result of an operation is also
predicted before the operation, because Python cannot interrupt it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import local
from typing import Any

from hf_sgpe.errors import SGPEError

MOST_WORK = 1_000_000
"""Units of work for a conversation. A conversation of a thousand messages needs about 20,000 with published templates."""

MOST_SIZE = 1 << 23
"""Greatest size of a value of a template: its characters and 16 for each item, nested values included."""

_PER_UNIT = 128
"""Size of a value that costs one unit."""

_ITEM = 16
"""Size of an item of a list or a dictionary."""

_MOST_BITS = 1 << 14

# The width or the precision of a field, in a format or in an argument.
_WIDTH = re.compile(r"(?:%(?:\([^)]*\))?|:.?|\.)[-+ 0#<>=^]*(\d{1,20})")
_WIDTH_ELSEWHERE = re.compile(r"\*|\{[^{}]*:[^{}]*\{")


class Budget(local):
    """The work that the template of the current thread may still do. A method raises SGPEError if it is too much."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.left = MOST_WORK

    def spend(self, units: int = 1) -> str:
        """Spend units of work. The result is an empty string, because templates can call this method only as text."""
        self.left -= units
        if self.left < 0:
            raise SGPEError(f"needs more than {MOST_WORK:,} steps: use another template, or a shorter conversation")
        return ""

    def compared(self, value: Any) -> Any:
        """Return ``value`` after spending units of work for comparing it, or for searching in it."""
        self.spend(1 + _length(value) // 1024)
        return value

    def charge(self, values: Iterable[Any]) -> None:
        """Spend units of work for reading values. Values inside values are not counted."""
        sizes = (len(value) if isinstance(value, (str, bytes)) else _ITEM * _length(value) for value in values)
        self.spend(sum(sizes) // _PER_UNIT)

    def sized(self, value: Any) -> Any:
        """Return ``value`` after checking its size and spending units of work for it."""
        self.spend(1 + size_of(value) // _PER_UNIT)
        return value

    def iterated(self, value: Any) -> Any:
        """Return ``value`` after checking that it can be a list of its characters or items."""
        _check(_ITEM * len(value) if isinstance(value, str) else 0)
        return value

    def listed(self, values: Iterator[Any]) -> list[Any]:
        """Return the items of an iterator as a list."""
        items = list(islice(values, MOST_SIZE // _ITEM + 1))
        self.sized(items)
        return items

    def check(self, operation: str, value: Any, arguments: Sequence[Any], names: Mapping[str, Any]) -> None:
        """Check the size of an operation's result before the operation.

        Args:
            operation: Name of a filter, or of a method of strings.
            value: The value to which the filter or method is applied.
        """
        given = [*arguments, *names.values()]
        widths = [abs(item) for item in given if isinstance(item, int)]
        if operation in _WITH_WIDTH and widths:
            _check(max(widths) * (_lines_and_tabs(value) if isinstance(value, str) else max(size_of(value), 1000)))
        if operation in ("replace", "indent", "join", "translate"):
            _check(_times(operation, value, given) * max(map(size_of, given), default=0))
        if operation in ("split", "rsplit"):
            separator = next((item for item in given if isinstance(item, str) and item), None)
            _check(_ITEM * (value.count(separator) if separator else len(value) // 2))
        if operation in _BY_CHARACTER and isinstance(value, str):
            self.iterated(value)
        if operation in _QUADRATIC:
            _check(1024 * _length(value))
        if operation == "sum" and any(isinstance(item, (list, tuple)) for item in given):
            raise SGPEError("joins lists with sum, whose time is quadratic: join them with +")
        if operation == "tojson":
            _check(size_of(value, character=0) * max((size_of(item, item=0) for item in given), default=0))
        if operation in ("format", "format_map", "%") and isinstance(value, str):
            widths = [*map(int, _WIDTH.findall(value)), *(_numbers(given) if _WIDTH_ELSEWHERE.search(value) else ())]
            fields = 1 + value.count("{") + value.count("%")
            _check(fields * max([*map(size_of, given), *widths], default=0))

    def check_operator(self, operator: str, left: Any, right: Any) -> None:
        """Check the size of an operator's result before the operation."""
        if operator == "%":
            self.check("%", left, [right], {})
        elif isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * max(right, 1) if operator == "**" else left.bit_length() + right.bit_length()
            if bits > _MOST_BITS:
                raise SGPEError("a number is too large")
        elif operator == "*":
            times, repeated = (left, right) if isinstance(left, int) else (right, left)
            _check(size_of(repeated) * times if isinstance(times, int) else 0)
        elif operator == "+":
            _check(size_of(left) + size_of(right))


def size_of(value: Any, *, character: int = 1, item: int = _ITEM) -> int:
    """Return the size of a value, nested values included, with the given sizes of a character and of an item. The
    size must not be above `MOST_SIZE`.
    """
    size, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (str, bytes)):
            size += character * len(part)
        elif isinstance(part, (Mapping, list, tuple, set)):
            size += item * len(part)
            waiting += part
            waiting += part.values() if isinstance(part, Mapping) else ()
        _check(size)
    return size


def _numbers(values: Iterable[Any]) -> Iterator[int]:
    """Yield the whole numbers in values, nested values and digits in texts included."""
    waiting = [*values]
    while waiting:
        part = waiting.pop()
        if isinstance(part, int):
            yield part
        elif isinstance(part, str) and part.isdecimal():
            yield int(part[:20])
        elif isinstance(part, (Mapping, list, tuple)):
            waiting += part.values() if isinstance(part, Mapping) else part


def _check(size: float) -> None:
    if size > MOST_SIZE:
        raise SGPEError(f"makes a value of more than {MOST_SIZE:,} characters, or {MOST_SIZE // _ITEM:,} items")


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, list, tuple, range, Mapping)) else 0


def _times(operation: str, value: Any, given: Sequence[Any]) -> int:
    """Return how often the longest argument of an operation can occur in the operation's result."""
    text = value if isinstance(value, str) else ""
    if operation == "replace":
        old = given[0] if given and isinstance(given[0], str) else ""
        return 1 + (text.count(old) if old else len(text))
    if operation == "indent":
        return _lines_and_tabs(value)
    if operation == "translate":
        return len(text)
    # The method joins the items of an argument, and the filter joins those of the value.
    return 1 + max(map(_length, [value, *given]))


def _lines_and_tabs(value: Any) -> int:
    return 1 + (len(value.splitlines()) + value.count("\t") if isinstance(value, str) else 0)


_QUADRATIC = ("urlize", "striptags", "wordwrap")
_BY_CHARACTER = ("list", "sort", "batch", "slice", "sum", "unique", "groupby", "splitlines", "reverse", "join")
_WITH_WIDTH = ("round", "center", "ljust", "rjust", "zfill", "expandtabs", "indent", "batch", "slice", "tojson")
