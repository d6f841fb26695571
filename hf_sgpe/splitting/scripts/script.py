"""Script: the table of one script, with all data for cutting text into words and syllables."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain

import regex

from hf_sgpe.splitting.scripts.grammars import BRAHMIC, HIDDEN_LETTER, Grammar

ZWSP, ZWNJ, ZWJ = "\u200b", "\u200c", "\u200d"

Ranges = tuple[tuple[int, int], ...]

_SHARED = regex.compile(r"\p{Script=Common}|\p{Script=Inherited}")
_UNASSIGNED = regex.compile(r"\p{Cn}")
_ALIKE = 64  # number of code points whose UTF-8 differs only in the last byte


def characters_in(ranges: str) -> str:
    """Return the characters in a list of hexadecimal code points and ranges, such as ``"0915-0939 093C"``."""
    characters: list[str] = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        characters += map(chr, range(int(first, 16), int(last or first, 16) + 1))
    return "".join(characters)


def ranges_text(points: Iterable[int]) -> str:
    """Return code points in the format of `characters_in`.

    >>> ranges_text([0x915, 0x93c, 0x916])
    '0915-0916 093C'
    """
    return " ".join(f"{first:04X}" if first == last else f"{first:04X}-{last:04X}" for first, last in runs(points))


def runs(points: Iterable[int]) -> Ranges:
    """Return code points as sorted ranges (first, last).

    >>> runs([5, 1, 2, 3])
    ((1, 3), (5, 5))
    """
    ranges: list[tuple[int, int]] = []
    for point in sorted(points):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1] = (ranges[-1][0], point)
        else:
            ranges.append((point, point))
    return tuple(ranges)


@cache
def unicode_says() -> dict[str, dict[str, dict[str, str]]]:
    """Return unicode_scripts.json, of which each part maps names to dicts from class letters to ranges of characters."""
    text = files("hf_sgpe.splitting.scripts").joinpath("unicode_scripts.json").read_text(encoding="utf-8")
    tables: dict[str, dict[str, dict[str, str]]] = json.loads(text)
    return tables


@cache
def shared_marks() -> str:
    """Return the marks that attach to a letter of any script: combining accents, vowel points, variation selectors …"""
    return characters_in(unicode_says()["shared"]["marks"]["X"])


@cache
def shared_classes() -> Mapping[str, str]:
    """Return a dict from characters that all scripts share (joiners and marks) to their class letters."""
    return {**dict.fromkeys(shared_marks(), "X"), ZWJ: "J", ZWNJ: "Z"}


@cache
def _of_script(name: str) -> regex.Pattern[str]:
    """Return a regex for one character of a script. It matches nothing if Unicode has no such script."""
    try:
        return regex.compile(rf"\p{{Script={name}}}")
    except regex.error:
        return regex.compile("(?!)")


@dataclass(frozen=True, eq=False)
class Script:
    """The table of one script: its block, its character classes (as hexadecimal ranges), and its grammars.

    Attributes:
        block: First and last code point of the Unicode block.
        others: Letters of the script that belong to no syllable. Each is a unit of its own.
        more: Additional classes in the grammars (`hf_sgpe.splitting.scripts.grammars`), as a dict from class letters to
            ranges of characters.
        also: Additional names of the script: its ISO 15924 code, and its languages and their codes.
        font: Name of a font family that has the characters of the script.
        greeting: A few words with which to try out a tokenizer.
        words: Words for tests, with a bar between syllables.
        spaced: Whether words have spaces between them.
        joiners: Joiners that can occur inside syllables as the SGPE document defines them.
        writes_joiners: Whether more than one in two hundred words of ordinary text needs joiners.
        by_clusters: Whether syllables are extended grapheme clusters. Such a script may have thousands of characters, so a
            character gets a token only if it is frequent.
        own_words: Whether ``hybrid`` treats each run of the script's letters as a word. If False, the split pattern splits
            text in the script.
        syllable: Grammar of a syllable.
        ends: States in which a syllable may end. ``None`` means all states.
        letter: Grammar of a visible letter.
        letter_ends: States in which a visible letter may end. ``None`` means all states.
        letter_classes: Additional classes in the grammar of letters, as a dict from class letters to ranges of characters.
        document: Grammar of a syllable in the SGPE document's recipe, if it differs from ``syllable``.
    """

    name: str
    block: tuple[int, int]
    consonants: str
    vowels: str = ""
    virama: str = ""
    signs: str = ""
    modifiers: str = ""
    nukta: str = ""
    repha: str = ""
    others: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    also: str = ""
    font: str = "Noto Sans"
    greeting: str = ""
    words: str = ""
    spaced: bool = True
    joiners: str = ZWNJ + ZWJ
    writes_joiners: bool = False
    by_clusters: bool = False
    own_words: bool = True
    syllable: Grammar = field(default_factory=lambda: BRAHMIC)
    ends: frozenset[str] | None = None
    letter: Grammar = field(default_factory=lambda: HIDDEN_LETTER)
    letter_ends: frozenset[str] | None = None
    letter_classes: Mapping[str, str] = field(default_factory=dict)
    document: Grammar | None = None

    def _own_classes(self) -> dict[str, str]:
        """Return a dict from the characters of the script, without `others`, to their class letters."""
        ranges = {
            "C": self.consonants,
            "V": self.vowels,
            "N": self.nukta,
            "H": self.virama,
            "S": self.signs,
            "M": self.modifiers,
            "R": self.repha,
            **self.more,
        }
        return {character: letter for letter, text in ranges.items() for character in characters_in(text)}

    def classes(self) -> dict[str, str]:
        """Return a dict from characters to class letters, including joiners and the marks that all scripts share."""
        classes = {c: "M" if unicodedata.category(c)[0] == "M" else "O" for c in characters_in(self.others)}
        return {**shared_classes(), **classes, **self._own_classes()}

    def document_classes(self) -> dict[str, str]:
        """Return a dict from characters to class letters for the recipe ``sgpe``, where all joiners have one class."""
        return self._own_classes() | dict.fromkeys(self.joiners, "J") if self.document else self.classes()

    def classes_for_letters(self) -> dict[str, str]:
        """Return a dict from characters to class letters in the grammar of visible letters."""
        finer = {c: letter for letter, ranges in self.letter_classes.items() for c in characters_in(ranges)}
        return self.classes() | finer

    def letters_and_marks(self) -> frozenset[str]:
        """Return the letters and marks in words of this script, without joiners, digits and punctuation."""
        return frozenset(self._own_classes()).union(characters_in(self.others))

    def characters(self) -> frozenset[str]:
        """Return every character that identifies the script in a text.

        These are the letters and marks of the script, and the digits and punctuation inside its block or next to its
        letters. Characters that several scripts share, such as the danda, are not included. Unassigned code points are
        included if they share the first UTF-8 bytes with characters of the block. Without them, the first bytes of Thai's
        vowels would not be specific to Thai.
        """
        letters = self.letters_and_marks()
        rows = {ord(letter) // _ALIKE * _ALIKE for letter in letters}
        near_letters = chain.from_iterable(map(chr, range(row, row + _ALIKE)) for row in rows)
        elsewhere = filter(_of_script(self.name).match, near_letters)
        first, last = (point // _ALIKE * _ALIKE for point in self.block)
        around = map(chr, range(first, last + _ALIKE))
        return letters.union(elsewhere, filter(self._is_of_block, around))

    def _is_of_block(self, character: str) -> bool:
        """Return whether a character in the block, or with the same first UTF-8 bytes, identifies the script."""
        # In Unicode the baht sign belongs to no script.
        is_shared = _SHARED.match(character) and unicodedata.category(character) != "Sc"
        is_inside = self.block[0] <= ord(character) <= self.block[1]
        return not is_shared and (is_inside or _UNASSIGNED.match(character) is not None)

    def specimen(self) -> str:
        """Return a space and a word of all assigned letters and marks of the script, and of the joiners that it needs."""
        assigned = sorted(c for c in self.letters_and_marks() if unicodedata.category(c) != "Cn" or not self.document)
        first = next((c for c in assigned if unicodedata.category(c)[0] == "L"), assigned[0])
        return f" {first}" + (self.joiners if self.writes_joiners else "").join(["", *assigned])
