"""LinguisTrie: text → written syllables, by walking a script's grammar. Nothing here knows about tokens or training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import regex

from hf_sgpe import kernel
from hf_sgpe.splitting.scripts import Grammar, Script, resolve_script, resolve_scripts, runs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hf_sgpe._native import Syllables

_WHITE_SPACE = " \t\n\r"
_GRAPHEME_CLUSTER = regex.compile(r"\X")


class LinguisTrie:
    """Cuts text into syllables: a consonant cluster or an independent vowel, with its signs and modifiers.

    Conjuncts are never cut, whether they are written with a joiner or without. Whatever belongs to no syllable (orphaned
    signs, other scripts, punctuation, white space) is emitted character by character, so joining the result always gives
    the text back.

    For Sinhala this is the segmentation of the SGPE architecture document (sections 2.1 to 2.5), case by case.

    Args:
        scripts: Names of `hf_sgpe.splitting.scripts.SCRIPTS` whose syllables are to be found, or ``all``.

    Raises:
        SGPEError: a script is unknown.

    >>> LinguisTrie().tokenize("ශ්‍රී ලංකාව", leading_space=True)
    ['ශ්\u200dරී', ' ලං', 'කා', 'ව']
    >>> LinguisTrie(["devanagari"]).tokenize("स्त्री")
    ['स्त्री']
    """

    def __init__(self, scripts: Iterable[str] = ("sinhala",)) -> None:
        self.scripts = tuple(map(resolve_script, resolve_scripts(scripts)))
        self._classes = {script: script.classes() for script in self.scripts}
        self._script_of = {c: script for script in self.scripts for c in script.letters_and_marks()}
        self._native = _syllables(self.scripts) if kernel.is_native() else None

    def __reduce__(self) -> tuple[type[LinguisTrie], tuple[list[str]]]:
        return type(self), ([script.name for script in self.scripts],)

    def tokenize(self, text: str, leading_space: bool = False) -> list[str]:
        """The units of ``text`` in order; their concatenation is ``text``. Time grows linearly with the text.

        Args:
            leading_space: Attach a space to the unit that follows it. Of a run of white space only the last character is
                attached, and only if it is a plain space; a space with nothing after it is a unit of its own.
        """
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
            end = self._syllable_end(text, position)
            units.append(pending_space + text[position:end])
            pending_space = ""
            position = end
        if pending_space:
            units.append(pending_space)
        return units

    def ends(self, text: str, leading_space: bool = False) -> NDArray[np.int64]:
        """Where each unit of `tokenize` ends, in characters: the fastest form, since no string is made.

        >>> LinguisTrie().ends("ලංකාව").tolist()
        [2, 4, 5]
        """
        if self._native is not None:
            return self._native.ends(text, leading_space)
        import numpy as np

        return np.cumsum([len(unit) for unit in self.tokenize(text, leading_space)], dtype=np.int64)

    def letters(self, unit: str) -> list[str]:
        """The visible letters of one unit, without its leading space: what a reader sees as one sign.

        Finer than the syllable where a virama without joiner stays visible.

        >>> LinguisTrie().letters(" න්ද")
        ['න්', 'ද']
        """
        unit = unit.removeprefix(" ")
        script = self._script_of.get(unit[:1])
        letters: list[str] = []
        if script is None or script.letter is None:
            classes = self._classes[script] if script else {}
            for cluster in _GRAPHEME_CLUSTER.findall(unit):
                # To Unicode some signs are letters (Kannada's spaced candrabindu); inside a syllable they begin none.
                if letters and classes.get(cluster[0], "C") not in "CV":
                    letters[-1] += cluster
                else:
                    letters.append(cluster)
            return letters
        position = 0
        while position < len(unit):
            end = _walk(script.letter, self._classes[script], unit, position)
            letters.append(unit[position:end])
            position = end
        return letters

    def count_units(self, words: Iterable[bytes], counts: Iterable[int], *, every_word: bool = False) -> dict[str, int]:
        """The units of words (UTF-8) that occur ``counts`` times, with the words' leading spaces, and how often each occurs.

        Args:
            every_word: Cut up words of no script, too, character by character.

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
        """Name of each script → how many running words begin in it; arguments as for `count_units`.

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
        """The class letter of each character of ``unit``, ``-`` for those without; its first character tells the script.

        >>> LinguisTrie().shape("ශ්‍රී")
        'CHJCS'
        """
        script = self._script_of.get(unit[:1])
        classes = self._classes[script] if script else {}
        return "".join(classes.get(character, "-") for character in unit)

    def script_of(self, unit: str) -> str | None:
        """Name of the script that ``unit``, a syllable or word with or without its leading space, begins in."""
        script = self._script_of.get(unit.removeprefix(" ")[:1])
        return script.name if script else None

    def _syllable_end(self, text: str, start: int) -> int:
        script = self._script_of.get(text[start])
        return start + 1 if script is None else _walk(script.syllable, self._classes[script], text, start, script.ends)


@cache
def _syllables(scripts: tuple[Script, ...]) -> Syllables:
    """The native form of the scripts' tables."""
    import hf_sgpe._native as _native

    tables = []
    for script in scripts:
        members: dict[str, list[int]] = {letter: [] for letter in "CVNHSMR"}
        for character, letter in script.classes().items():
            if letter != "J":
                members[letter].append(ord(character))
        orphans = [ord(c) for c in script.letters_and_marks() if c not in script.classes()]
        classes = [(), *(runs(members[letter]) for letter in "CVNHSMR"), runs(orphans)]
        states = list(script.syllable)
        grammar = [
            [states.index(row[letter]) if letter in row else -1 for letter in "-CVNHSMR-J"]
            for row in script.syllable.values()
        ]
        ends = [script.ends is None or state in script.ends for state in states]
        tables.append((classes, list(map(ord, script.joiners)), grammar, ends))
    return _native.Syllables(tables)


def _walk(grammar: Grammar, classes: dict[str, str], text: str, start: int, ends: frozenset[str] | None = None) -> int:
    """Where the longest walk through ``grammar`` from ``start`` ends, in one of the states ``ends``; at least one character
    on."""
    state = grammar["start"].get(classes.get(text[start], ""))
    position = end = start + 1
    while state and position < len(text):
        state = grammar[state].get(classes.get(text[position], ""))
        position += 1
        if state and (ends is None or state in ends):
            end = position
    return end


def is_boundary(unit: str, scripts: Iterable[str] = ("sinhala",)) -> bool:
    """Whether a unit has no character of the scripts' blocks and no joiner of theirs (document, section 3.1).

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
    """Groups the units of ``LinguisTrie.tokenize(text, leading_space=True)`` into words (document, section 3.1).

    A boundary is a word of its own. Other units join the word before them unless they begin with a space.

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
