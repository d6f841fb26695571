r"""RegexPreTokenizer: text → words by split regexes, exactly as the saved ``tokenizer.json`` will cut it.

Patterns that the native kernels have a scanner for are split by that. The others are read by two engines: the ``regex``
package here, and the one inside ``tokenizers`` wherever the tokenizer is used. They agree on syntax for the patterns this
package writes, but not on Unicode's newest characters, so a text that holds a character they see differently is handed to
the latter, which is slower but right by definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import regex

from hf_sgpe import kernels
from hf_sgpe.errors import SGPEError
from hf_sgpe.kernels import tokenizers_library
from hf_sgpe.splitting.character_classes import runs_of_class
from hf_sgpe.splitting.patterns import PATTERNS, patterns_of, resolve_pattern
from hf_sgpe.splitting.scripts.script import Ranges, runs
from hf_sgpe.splitting.splitting import Splitting

if TYPE_CHECKING:
    from tokenizers import NormalizedString, PreTokenizedString
    from tokenizers.pre_tokenizers import PreTokenizer

    from hf_sgpe._native import Scanner

Cut = Callable[[str], list[str]]

_MOST_STEPS = 8  # as many as a byte has bits: the native scanner's table of them

_PROPERTY = regex.compile(r"\\[pP]\{\w+\}|\\[sS]")
# Spaces, classes of literal characters, groups, alternatives, greedy quantifiers: any engine reads these alike.
_PLAIN_SYNTAX = regex.compile(r"(?:(?: |\[\^?(?:[^\[\]\\&]|\\[tnr])+\]|\(\?:|\)|\|)[?*+]?)+")


class RegexPreTokenizer:
    r"""Splits text at the matches of one or more patterns, applied one after another, each to the pieces of the last.

    A match is a word, and so is whatever is between two matches: nothing is lost. This is the ``isolated`` behaviour of
    ``tokenizers``' ``Split``, and `to_native` gives exactly that.

    Args:
        patterns: Names of `SPLIT_PATTERNS`, or regular expressions.

    Attributes:
        splitting: What the patterns mean.
        patterns: The regular expressions.
        scanner: The native kernel that splits as they do, or None.

    Raises:
        SGPEError: a name is unknown, or an expression is not valid.

    >>> RegexPreTokenizer("gpt2").split("Hello, world")
    ['Hello', ',', ' world']
    """

    def __init__(self, *patterns: str) -> None:
        if not patterns:
            raise SGPEError(f"a split needs a pattern: known are {', '.join(PATTERNS)}, or give a regex")
        self._split_by(Splitting.from_regexes(tuple(map(resolve_pattern, patterns))))

    @classmethod
    def of(cls, splitting: Splitting) -> RegexPreTokenizer:
        """Return the pre-tokenizer that cuts (prepared) text as ``splitting`` says."""
        pre_tokenizer = cls.__new__(cls)
        pre_tokenizer._split_by(splitting)
        return pre_tokenizer

    def _split_by(self, splitting: Splitting) -> None:
        self.splitting = splitting
        self.patterns = splitting.regexes
        self.scanner = _scanner(splitting) if kernels.has_scanners() else None
        self._backend = self.to_native() if tokenizers_library.shows_its_parts() else None
        self._stages = _stages(splitting) if self.scanner is None else None

    def __reduce__(self) -> tuple[Callable[[Splitting], RegexPreTokenizer], tuple[Splitting]]:
        return type(self).of, (self.splitting,)

    def split(self, text: str) -> list[str]:
        """Return the words of ``text``, which join to it. Time grows linearly with the text for named patterns."""
        if self.scanner is not None:
            return self.scanner.split(text)
        if self._stages is None or not engines_agree(text, self.patterns):
            return self._split_by_backend(text)
        return in_turn(self._stages, text) if text else []

    def _split_by_backend(self, text: str) -> list[str]:
        assert self._backend is not None  # without it no two engines disagree
        try:
            return [word for word, _ in self._backend.pre_tokenize_str(text)]
        except BaseException as error:
            # The engine panics, which is not an Exception, on patterns that take exponential time.
            if type(error).__name__ != "PanicException":
                raise
            raise SGPEError(f"split pattern {self.patterns[-1]!r} takes too long on some text: simplify it") from None

    def segment(self, word: str) -> list[bytes]:
        """Return the units of one word: its bytes."""
        return [bytes([byte]) for byte in word.encode()]

    def pre_tokenize_str(self, text: str) -> list[tuple[str, tuple[int, int]]]:
        """Return the words of ``text`` with their character offsets, in the form of ``tokenizers``' method of this name."""
        return with_offsets(self.split(text))

    def pre_tokenize(self, pretokenized: PreTokenizedString) -> None:
        """Split as ``tokenizers.pre_tokenizers.PreTokenizer.custom`` asks a pre-tokenizer to."""
        pretokenized.split(lambda _, text: slices(text, self.split(str(text))))

    def to_native(self) -> PreTokenizer:
        """Return the same split as a pre-tokenizer of the ``tokenizers`` library.

        Raises:
            SGPEError: the library is not there in a version before 1.0, or cannot read a pattern.
        """
        return tokenizers_library.splitter(self.patterns)


def in_turn(stages: Iterable[Cut], text: str) -> list[str]:
    """Return the pieces of a text that is cut in several ways, each of which is given the pieces of the last."""
    words = [text]
    for stage in stages:
        words = [piece for word in words for piece in stage(word)]
    return words


def with_offsets(words: list[str]) -> list[tuple[str, tuple[int, int]]]:
    """Return each word with the character offsets where it starts and ends.

    >>> with_offsets(["a", " bc"])
    [('a', (0, 1)), (' bc', (1, 4))]
    """
    placed, start = [], 0
    for word in words:
        placed.append((word, (start, start + len(word))))
        start += len(word)
    return placed


def slices(text: NormalizedString, words: list[str]) -> list[NormalizedString]:
    """Cut the library's string into ``words``, keeping its alignment with the original text.

    One slice costs the length of the string it is cut from, so the string is halved until one word is left: O(n log n) in
    all, where slicing word after word off the whole would be quadratic.
    """
    if len(words) < 2:
        return [text] if words else []
    middle = len(words) // 2
    cut = sum(map(len, words[:middle]))
    left, right = text[:cut], text[cut : cut + sum(map(len, words[middle:]))]
    assert left is not None
    assert right is not None
    return slices(left, words[:middle]) + slices(right, words[middle:])


def _scanner(splitting: Splitting) -> Scanner | None:
    """Return the native scanner for a way to cut text; None where a split pattern has none."""
    letters = splitting.script_letters
    joiners = splitting.script_joiners
    ranges = sorted(one for script in letters for one in script)
    if any(end >= start for (_, end), (start, _) in pairwise(ranges)) or any(first < 128 for first, _ in ranges):
        return None  # a scanner tells scripts by the character, and all of them from ASCII
    if splitting.recipe == "sgpe":
        return _native_scanner("sgpe", ((*ranges, *joiners[0]),), ())
    if any(a <= last and first <= b for first, last in {one for script in joiners for one in script} for a, b in ranges):
        return None  # nor can a letter of one be the joiner of another
    *steps, last = splitting.patterns
    known = [pattern.scanner for pattern in patterns_of(last) if pattern.scanner]
    cuts = [runs_of_class(pattern) for pattern in steps] if known and len(steps) <= _MOST_STEPS else [None]
    if None in cuts:
        return None
    isolated = tuple((runs(one[0]), one[1]) for one in cuts if one)
    return _native_scanner(known[0], letters, joiners, isolated) if known else None


@lru_cache(64)  # each takes a megabyte
def _native_scanner(
    name: str, letters: tuple[Ranges, ...], joiners: tuple[Ranges, ...], steps: tuple[tuple[Ranges, int], ...] = ()
) -> Scanner:
    import hf_sgpe._native as _native

    try:
        return _native.Scanner(name, letters, joiners, steps)
    except ValueError as error:
        raise SGPEError(str(error)) from None


def _stages(splitting: Splitting) -> list[Cut] | None:
    """Return what to do with each piece, step by step, in Python; None where the two engines may differ."""
    if splitting.recipe == "sgpe":
        return [_isolating(splitting.regexes[0])]
    if tokenizers_library.shows_its_parts() and not all(map(_reads_alike, splitting.patterns)):
        return None
    stages = list(map(_isolating, splitting.patterns))
    if splitting.recipe == "hybrid":
        # The other regexes begin with the first, so they leave those words whole: only their patterns count, between them.
        words, between = regex.compile(f"({splitting.words_regex})"), stages

        def cut(text: str) -> list[str]:
            pieces = enumerate(words.split(text))
            return [word for place, piece in pieces if piece for word in ([piece] if place % 2 else in_turn(between, piece))]

        return [cut]
    return stages


def _reads_alike(pattern: str) -> bool:
    """Return whether both engines are known to read a regex alike; those that may match nothing differ in where they do."""
    is_tested = any(known.scanner for known in patterns_of(pattern))
    return bool(is_tested or _PLAIN_SYNTAX.fullmatch(pattern)) and not regex.match(pattern, "")


def _isolating(pattern: str) -> Cut:
    """Cut a text into the matches of a regex and what is between them."""
    compiled = regex.compile(pattern)

    def cut(text: str) -> list[str]:
        words = compiled.findall(text)
        if not compiled.groups and sum(map(len, words)) == len(text):
            return list(words)
        pieces, position = [], 0
        for match in compiled.finditer(text):
            pieces += [text[position : match.start()], match.group()]
            position = match.end()
        return [piece for piece in (*pieces, text[position:]) if piece]

    return cut


# class → its characters that are known to be in both engines' class or in neither's, and those that are not
_trusted: dict[str, set[str]] = {}
_disputed: dict[str, set[str]] = {}


def engines_agree(text: str, patterns: tuple[str, ...]) -> bool:
    """Return whether both engines put every character of ``text`` into the same classes.

    Asked once per character and class, then remembered: the sets grow with the distinct characters seen, at most Unicode.
    """
    if text.isascii() or not tokenizers_library.shows_its_parts():
        return True
    characters = set(text)
    for pattern in patterns:
        for name in _properties(pattern):
            trusted, disputed = _trusted.setdefault(name, set()), _disputed.setdefault(name, set())
            if unknown := characters - trusted - disputed:
                same = _same_class(name, "".join(sorted(unknown)))
                trusted |= same
                disputed |= unknown - same
            if not disputed.isdisjoint(characters):
                return False
    return True


@cache
def _properties(pattern: str) -> frozenset[str]:
    return frozenset(_PROPERTY.findall(pattern))


def _same_class(name: str, characters: str) -> set[str]:
    return set(characters) - (set(regex.findall(name, characters)) ^ tokenizers_library.matching(name, characters))
