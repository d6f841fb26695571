r"""RegexPreTokenizer: splits text into words with regexes, exactly as the saved ``tokenizer.json`` does.

The native kernels have scanners for the named patterns. For all other patterns, this module uses the ``regex`` package, but
the saved tokenizer uses the engine of ``tokenizers``. The two engines read this package's patterns in the same way, but
classify Unicode's newest characters differently. So if a text has such a character, this module also uses the engine of
``tokenizers``. That engine is slower, but correct by definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import accumulate, pairwise
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

_Cut = Callable[[str], list[str]]

_MOST_STEPS = 8  # the native scanner has one bit of a byte for each pattern

_PROPERTY = regex.compile(r"\\[pP]\{\w+\}|\\[sS]")
# Spaces, classes of literal characters, groups, alternatives and greedy quantifiers mean the same in every engine.
_PLAIN_SYNTAX = regex.compile(r"(?:(?: |\[\^?(?:[^\[\]\\&]|\\[tnr])+\]|\(\?:|\)|\|)[?*+]?)+")


class WordSplitter:
    """The base of pre-tokenizers: splitting in the forms that the ``tokenizers`` library needs.

    Attributes:
        splitting: The splitting into words.
        patterns: Its regexes.
    """

    splitting: Splitting
    patterns: tuple[str, ...]

    def split(self, text: str) -> list[str]:
        """Return the words of ``text``. Their concatenation is ``text``."""
        raise NotImplementedError

    def pre_tokenize_str(self, text: str) -> list[tuple[str, tuple[int, int]]]:
        """Return the words of ``text`` with their character offsets, as ``pre_tokenize_str`` in ``tokenizers`` does."""
        words = self.split(text)
        ends = accumulate(map(len, words))
        return [(word, (end - len(word), end)) for word, end in zip(words, ends, strict=True)]

    def pre_tokenize(self, pretokenized: PreTokenizedString) -> None:
        """Split the text in place, for ``tokenizers.pre_tokenizers.PreTokenizer.custom``."""
        pretokenized.split(lambda _, text: _slices(text, self.split(str(text))))

    def to_native(self) -> PreTokenizer:
        """Return a pre-tokenizer of the ``tokenizers`` library that finds the same words."""
        return tokenizers_library.splitter(self.patterns)


class RegexPreTokenizer(WordSplitter):
    r"""A pre-tokenizer that splits text at the matches of one or more patterns. Each pattern splits the pieces that the
    previous pattern produced.

    Each match is a word, and so is the text between two matches. This is the ``isolated`` behaviour of ``Split`` in
    ``tokenizers``. `to_native` returns that pre-tokenizer.

    Args:
        patterns: Names of `SPLIT_PATTERNS`, or regexes.

    Attributes:
        scanner: The native scanner with the same splits, or None.

    >>> RegexPreTokenizer("gpt2").split("Hello, world")
    ['Hello', ',', ' world']
    """

    def __init__(self, *patterns: str) -> None:
        if not patterns:
            raise SGPEError(f"RegexPreTokenizer needs a pattern: give one of {', '.join(PATTERNS)}, or a regex")
        self._split_by(Splitting.from_regexes(tuple(map(resolve_pattern, patterns))))

    @classmethod
    def of(cls, splitting: Splitting) -> RegexPreTokenizer:
        """Return the pre-tokenizer for a splitting. The text to split must already be normalized."""
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
        """Return the words of ``text``. Their concatenation is ``text``. With named patterns, time is linear."""
        if self.scanner is not None:
            return self.scanner.split(text)
        if self._stages is None or not engines_agree(text, self.patterns):
            return self._split_by_backend(text)
        return _in_turn(self._stages, text) if text else []

    def _split_by_backend(self, text: str) -> list[str]:
        assert self._backend is not None  # without the library there is only one engine
        try:
            return [word for word, _ in self._backend.pre_tokenize_str(text)]
        except BaseException as error:
            # On patterns that take exponential time, the engine panics. A panic is not an Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise SGPEError(f"split pattern {self.patterns[-1]!r} takes too long on this text: use a simpler one") from None

    def segment(self, word: str) -> list[bytes]:
        """Return the units of a word: its individual bytes."""
        return [bytes([byte]) for byte in word.encode()]


def _in_turn(stages: Iterable[_Cut], text: str) -> list[str]:
    """Return the pieces of a text after several stages. Each stage cuts the pieces of the previous stage."""
    words = [text]
    for stage in stages:
        words = [piece for word in words for piece in stage(word)]
    return words


def _slices(text: NormalizedString, words: list[str]) -> list[NormalizedString]:
    """Cut a string of the ``tokenizers`` library into ``words``. Each word stays aligned to the original text.

    The time for a slice grows with the length of the string from which it is cut. So the string is halved repeatedly, in
    O(n log n) time. Cutting one word after another would take quadratic time.
    """
    if len(words) < 2:
        return [text] if words else []
    middle = len(words) // 2
    cut = sum(map(len, words[:middle]))
    left, right = text[:cut], text[cut : cut + sum(map(len, words[middle:]))]
    assert left is not None
    assert right is not None
    return _slices(left, words[:middle]) + _slices(right, words[middle:])


def _scanner(splitting: Splitting) -> Scanner | None:
    """Return the native scanner for a splitting, or None if there is none."""
    if not splitting.regexes:
        return None
    letters = splitting.script_letters
    joiners = splitting.script_joiners
    ranges = sorted(span for script in letters for span in script)
    if any(end >= start for (_, end), (start, _) in pairwise(ranges)) or any(first < 128 for first, _ in ranges):
        return None  # a scanner needs scripts that share no characters and have no ASCII characters
    if splitting.recipe == "sgpe":
        return _native_scanner("sgpe", ((*ranges, *joiners[0]),), ())
    joiner_ranges = {span for script in joiners for span in script}
    if any(a <= last and first <= b for first, last in joiner_ranges for a, b in ranges):
        return None  # a letter of one script must not be a joiner of another script
    *steps, last = splitting.patterns
    names = [pattern.scanner for pattern in patterns_of(last) if pattern.scanner]
    cuts = [runs_of_class(pattern) for pattern in steps] if names and len(steps) <= _MOST_STEPS else [None]
    if None in cuts:
        return None
    isolated = tuple((runs(cut[0]), cut[1]) for cut in cuts if cut)
    return _native_scanner(names[0], letters, joiners, isolated) if names else None


@lru_cache(64)  # a scanner takes a megabyte
def _native_scanner(
    name: str, letters: tuple[Ranges, ...], joiners: tuple[Ranges, ...], steps: tuple[tuple[Ranges, int], ...] = ()
) -> Scanner:
    import hf_sgpe._native as _native

    try:
        return _native.Scanner(name, letters, joiners, steps)
    except ValueError as error:
        raise SGPEError(str(error)) from None


def _stages(splitting: Splitting) -> list[_Cut] | None:
    """Return the functions that cut text in Python one after another, or None if the two regex engines may differ."""
    if splitting.recipe == "sgpe":
        return [_isolating(splitting.regexes[0])]
    if tokenizers_library.shows_its_parts() and not all(map(_reads_alike, splitting.patterns)):
        return None
    stages = list(map(_isolating, splitting.patterns))
    if splitting.recipe == "hybrid":
        # Every later regex begins with the first regex, which keeps words whole. So the patterns split only the text between
        # words.
        words, between = regex.compile(f"({splitting.words_regex})"), stages

        def cut(text: str) -> list[str]:
            pieces: list[str] = []
            for place, piece in enumerate(words.split(text)):
                if place % 2:  # a match
                    pieces.append(piece)
                elif piece:
                    pieces += _in_turn(between, piece)
            return pieces

        return [cut]
    return stages


def _reads_alike(pattern: str) -> bool:
    """Return whether both regex engines are known to find the same matches. They place empty matches differently."""
    is_tested = any(record.scanner for record in patterns_of(pattern))
    return bool(is_tested or _PLAIN_SYNTAX.fullmatch(pattern)) and not regex.match(pattern, "")


def _isolating(pattern: str) -> _Cut:
    """Return a function that cuts a text into the matches of a regex and the text between the matches."""
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


# By class: the characters that both engines classify alike (trusted) and those that they classify differently (disputed).
_trusted: dict[str, set[str]] = {}
_disputed: dict[str, set[str]] = {}


def engines_agree(text: str, patterns: tuple[str, ...]) -> bool:
    """Return whether both regex engines put every character of ``text`` into the same classes of the patterns."""
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
