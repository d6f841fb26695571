"""LinguisTrie: a segmenter that cuts text into written syllables according to the grammars of scripts. This module does not
depend on tokens or training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import regex

from hf_sgpe import kernels
from hf_sgpe.splitting.scripts.grammars import Grammar
from hf_sgpe.splitting.scripts.script import ZWJ, ZWNJ, Script, runs, shared_marks
from hf_sgpe.splitting.scripts.script_registry import resolve_script, resolve_scripts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hf_sgpe._native import Syllables

_WHITE_SPACE = " \t\n\r"
_GRAPHEME_CLUSTER = regex.compile(r"\X")


class LinguisTrie:
    """A segmenter that cuts text into syllables. A syllable is a consonant cluster or an independent vowel, with its signs
    and modifiers.

    Conjuncts stay whole, with or without joiners. Text outside syllables (orphaned signs, other scripts, punctuation, white
    space) is cut into characters, so the concatenation of the units is the text.

    For Sinhala, this is exactly the segmentation of the SGPE architecture document (sections 2.1 to 2.5). Nine more scripts
    follow the document's rules. Training sets ``whole_clusters``, which keeps a little more text whole.

    Args:
        scripts: Names of the scripts with syllables, or ``all``.
        whole_clusters: If True, extended grapheme clusters (UAX #29) that begin with a letter of the scripts also stay
            whole. Signs, joiners and accents that the document treats as orphans then stay with the character before them.
            In scripts that the document's rules do not cover, clusters always stay whole.

    >>> LinguisTrie().tokenize("ශ්‍රී ලංකාව", leading_space=True)
    ['ශ්\u200dරී', ' ලං', 'කා', 'ව']
    >>> LinguisTrie(["devanagari"]).tokenize("स्त्री")
    ['स्त्री']
    """

    def __init__(self, scripts: Iterable[str] = ("sinhala",), whole_clusters: bool = False) -> None:
        self.scripts = tuple(map(resolve_script, resolve_scripts(scripts)))
        self.whole_clusters = whole_clusters
        self._script_of = script_of_characters(self.scripts)
        self._native = _syllables(self.scripts, whole_clusters) if kernels.is_native() else None

    def __reduce__(self) -> tuple[type[LinguisTrie], tuple[list[str], bool]]:
        return type(self), ([script.name for script in self.scripts], self.whole_clusters)

    def tokenize(self, text: str, leading_space: bool = False) -> list[str]:
        """Return the units of ``text``: syllables and, between them, single characters. Their concatenation is ``text``.

        Args:
            leading_space: Whether to attach a space to the unit after it. In a run of white space, only the last character
                is attached, and only if it is a plain space. A space at the end of the text is a unit of its own.
        """
        if not isinstance(text, str):
            raise TypeError(f"tokenize needs a str, not {type(text).__name__}")
        if self._native is not None:
            return self._native.tokenize(text, leading_space)
        units: list[str] = []
        pending_space = ""
        position = 0
        while position < len(text):
            if leading_space and text[position] in _WHITE_SPACE:
                start = position
                while position < len(text) and text[position] in _WHITE_SPACE:
                    position += 1
                pending_space = " " if text[position - 1] == " " else ""
                units.extend(text[start : position - len(pending_space)])
                continue
            script = self._script_of.get(text[position])
            end = Walk._to_syllables(script, self.whole_clusters).end(text, position) if script else position + 1
            units.append(pending_space + text[position:end])
            pending_space = ""
            position = end
        if pending_space:
            units.append(pending_space)
        return units

    def ends(self, text: str, leading_space: bool = False) -> NDArray[np.int64]:
        """Return the position after each unit of `tokenize`, in characters, without creating strings.

        >>> LinguisTrie().ends("ලංකාව").tolist()
        [2, 4, 5]
        """
        if not isinstance(text, str):
            raise TypeError(f"ends needs a str, not {type(text).__name__}")
        if self._native is not None:
            return self._native.ends(text, leading_space)
        import numpy as np

        return np.cumsum([len(unit) for unit in self.tokenize(text, leading_space)], dtype=np.int64)

    def letters(self, unit: str) -> list[str]:
        """Return the visible letters of a unit, without its leading space.

        A visible letter is what a reader sees as one sign. With a visible virama, a syllable has several of them.

        >>> LinguisTrie().letters(" න්ද")
        ['න්', 'ද']
        """
        unit = unit.removeprefix(" ")
        script = self._script_of.get(unit[:1])
        if script is None:
            return list(_GRAPHEME_CLUSTER.findall(unit))
        letters: list[str] = []
        position = 0
        while position < len(unit):
            end = Walk.to_letters(script).end(unit, position)
            letters.append(unit[position:end])
            position = end
        return letters

    def count_units(self, words: Iterable[bytes], counts: Iterable[int], *, every_word: bool = False) -> dict[str, int]:
        """Return a dict from the units in words to their counts. The first unit of a word includes the word's leading space.

        Args:
            every_word: Whether also to count the characters of words that are not in the scripts.

        >>> LinguisTrie().count_units(["කක".encode(), b"a"], [2, 1])
        {'ක': 4}
        """
        if self._native is not None:
            return self._native.count_units(words, counts, every_word)
        units: Counter[str] = Counter()
        for word, count in zip(words, counts, strict=True):
            text = word.decode()
            if every_word or self.script_of(text):
                for unit in self.tokenize(text, leading_space=True):
                    units[unit] += count
        return dict(units)

    def count_scripts(self, words: Iterable[bytes], counts: Iterable[int]) -> dict[str, int]:
        """Return the total counts of the words in each script, which is that of their first letter.

        >>> LinguisTrie().count_scripts(["ක".encode(), b"a"], [2, 1])
        {'sinhala': 2}
        """
        if self._native is not None:
            totals = self._native.count_scripts(words, counts)
            return dict(zip((script.name for script in self.scripts), totals, strict=True))
        running = dict.fromkeys((script.name for script in self.scripts), 0)
        for word, count in zip(words, counts, strict=True):
            if script := self.script_of(word[:8].decode(errors="ignore")):
                running[script] += count
        return running

    def shape(self, unit: str) -> str:
        """Return the class letter of each character of ``unit`` in the script of the first, or ``-`` without a class.

        >>> LinguisTrie().shape("ශ්‍රී")
        'CHJCS'
        """
        script = self._script_of.get(unit[:1])
        classes = Walk._to_syllables(script, self.whole_clusters).classes if script else {}
        return "".join(classes.get(character, "-") for character in unit)

    def script_of(self, unit: str) -> str | None:
        """Return the name of the script at the beginning of a syllable or word, with or without its leading space."""
        script = self._script_of.get(unit.removeprefix(" ")[:1])
        return script.name if script else None

    def must_earn(self, unit: str) -> bool:
        """Return whether the characters of ``unit`` get tokens only if they are frequent.

        This is so in scripts whose units are grapheme clusters, because they may have thousands of characters.

        >>> LinguisTrie(["han", "thai"]).must_earn("字"), LinguisTrie(["han", "thai"]).must_earn("ก")
        (True, False)
        """
        script = self._script_of.get(unit.removeprefix(" ")[:1])
        return script is not None and script.by_clusters


@cache
def script_of_characters(scripts: tuple[Script, ...]) -> Mapping[str, Script]:
    """Return the script of each letter and mark."""
    return {character: script for script in scripts for character in script.letters_and_marks()}


class Walk(NamedTuple):
    """A walk through the states of a grammar, one character at a time. It may end in ``ends``, or in all states."""

    grammar: Grammar
    classes: dict[str, str]
    ends: frozenset[str] | None

    @staticmethod
    @cache
    def _to_syllables(script: Script, whole_clusters: bool) -> Walk:
        """Return the walk that finds the end of a syllable."""
        if script.document and not whole_clusters:
            return Walk(script.document, script.document_classes(), None)
        return Walk(script.syllable, script.classes(), script.ends)

    @staticmethod
    @cache
    def to_letters(script: Script) -> Walk:
        """Return the walk that finds the end of a visible letter."""
        return Walk(script.letter, script.classes_for_letters(), script.letter_ends)

    def next_state(self, state: str, character: str) -> str | None:
        """Return the state after a character, or None if the walk ends before the character."""
        return self.grammar[state].get(self.classes.get(character, ""))

    def may_end(self, state: str) -> bool:
        """Return whether the walk may end in a state."""
        return self.ends is None or state in self.ends

    def end(self, text: str, start: int) -> int:
        """Return the position at which the longest walk from ``start`` ends. It is at least ``start + 1``."""
        state = self.next_state("start", text[start])
        position = end = start + 1
        while state and position < len(text):
            state = self.next_state(state, text[position])
            position += 1
            if state and self.may_end(state):
                end = position
        return end


@cache
def _syllables(scripts: tuple[Script, ...], whole_clusters: bool) -> Syllables:
    """Return the tables for the native kernels. Classes are numbered from 2, and 1 is for letters without a class."""
    import hf_sgpe._native as _native

    walks = [Walk._to_syllables(script, whole_clusters) for script in scripts]
    letters = sorted({letter for walk in walks for letter in walk.classes.values()})
    number = {letter: place for place, letter in enumerate(letters, 2)}
    tables = []
    for script, walk in zip(scripts, walks, strict=True):
        members: dict[int, list[int]] = {}
        for character in script.letters_and_marks():
            klass = number[walk.classes[character]] if character in walk.classes else 1
            members.setdefault(klass, []).append(ord(character))
        shared = [number.get(walk.classes.get(character, ""), 0) for character in (ZWJ, ZWNJ, shared_marks()[0])]
        states = list(walk.grammar)
        grammar = [
            [-1, -1, *(states.index(row[letter]) if letter in row else -1 for letter in letters)]
            for row in walk.grammar.values()
        ]
        ends = [walk.ends is None or state in walk.ends for state in states]
        tables.append(([(klass, runs(points)) for klass, points in members.items()], shared, grammar, ends))
    return _native.Syllables(tables, runs(map(ord, shared_marks())))


def is_boundary(unit: str, scripts: Iterable[str] = ("sinhala",)) -> bool:
    """Return whether a unit is a boundary: it contains no character of the scripts' blocks and no joiner of the scripts
    (SGPE document, section 3.1).

    >>> is_boundary(" a"), is_boundary(" ක")
    (True, False)
    """
    return not any(map(_inside(tuple(scripts)).__contains__, unit))


@cache
def _inside(scripts: tuple[str, ...]) -> frozenset[str]:
    tables = [resolve_script(name) for name in scripts]
    blocks = (chr(point) for table in tables for point in range(table.block[0], table.block[1] + 1))
    return frozenset("".join(table.joiners for table in tables)).union(blocks)


def segment_into_words(syllables: Sequence[str], scripts: Iterable[str] = ("sinhala",)) -> list[list[str]]:
    """Group the units of ``LinguisTrie.tokenize(text, leading_space=True)`` into words (SGPE document, section 3.1).

    A boundary is a word of its own. Any other unit is appended to the word before it, unless the unit begins with a space or
    the word before it is a boundary.

    >>> segment_into_words(["ශ්‍රී", " ලං", "කා", "ව", ".", " ", "a"])
    [['ශ්\u200dරී'], [' ලං', 'කා', 'ව'], ['.'], [' '], ['a']]
    """
    names = tuple(scripts)
    words: list[list[str]] = []
    open_word = False
    for unit in syllables:
        stands_alone = is_boundary(unit, names)
        if stands_alone or not open_word or unit[0] in _WHITE_SPACE:
            words.append([unit])
        else:
            words[-1].append(unit)
        open_word = not stands_alone
    return words
