"""The characters in regex classes, according to the regex engine of `hf_sgpe.kernels.tokenizers_library`."""

from __future__ import annotations

from functools import cache

import regex

from hf_sgpe.kernels import tokenizers_library

_CLASS = regex.compile(r"(?P<one>\[\^?(?:\\.\{?\w*\}?|[^\[\]\\])+\]|\\[pP]\{\w+\}|\\[dsw])(?P<most>\+|\{1,[1-9]\})?")


@cache
def every_character() -> str:
    """Return all characters of Unicode in order, without surrogates."""
    return "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))


@cache
def members(character_class: str) -> frozenset[int]:
    """Return the code points in a regex class.

    >>> sorted(members("[ab]"))
    [97, 98]
    """
    return frozenset(map(ord, tokenizers_library.matching(character_class, every_character())))


def runs_of_class(pattern: str) -> tuple[frozenset[int], int] | None:
    r"""Return the code points that a regex matches, and the maximum length of a match. A maximum of 0 means any length.

    The regex must be a single character class, with or without repetition. For any other regex, return None.

    >>> runs_of_class("[ab]{1,3}") == (frozenset({97, 98}), 3), runs_of_class("a|b")
    (True, None)
    """
    match = _CLASS.fullmatch(pattern)
    if match is None:
        return None
    most = {None: 1, "+": 0}.get(match["most"])
    return members(match["one"]), int(match["most"][3]) if most is None else most
