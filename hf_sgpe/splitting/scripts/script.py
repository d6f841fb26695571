"""Script: how one script is written, which is everything that cutting its words and syllables asks for."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import regex

from hf_sgpe.splitting.scripts.grammars import BRAHMIC, HIDDEN_LETTER, Grammar

ZWSP, ZWNJ, ZWJ = "\u200b", "\u200c", "\u200d"

Ranges = tuple[tuple[int, int], ...]

_SHARED = regex.compile(r"\p{Script=Common}|\p{Script=Inherited}")
_UNASSIGNED = regex.compile(r"\p{Cn}")
_ALIKE = 64  # code points whose UTF-8 differs in the last byte only


def characters_in(ranges: str) -> str:
    """Return the characters of ``"0915-0939 093C"``: hexadecimal code points and ranges with both ends included."""
    characters: list[str] = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        characters += map(chr, range(int(first, 16), int(last or first, 16) + 1))
    return "".join(characters)


def ranges_text(points: Iterable[int]) -> str:
    """Return the inverse of `characters_in`.

    >>> ranges_text([0x915, 0x93c, 0x916])
    '0915-0916 093C'
    """
    return " ".join(f"{first:04X}" if first == last else f"{first:04X}-{last:04X}" for first, last in runs(points))


def runs(points: Iterable[int]) -> Ranges:
    """Return code points as (first, last) of neighbouring ones, in order.

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
    """Return the content of unicode_scripts.json: ``abugidas``, ``others`` and ``shared``, name → class → ranges."""
    text = files("hf_sgpe.splitting.scripts").joinpath("unicode_scripts.json").read_text(encoding="utf-8")
    tables: dict[str, dict[str, dict[str, str]]] = json.loads(text)
    return tables


@cache
def shared_marks() -> str:
    """Return the marks that attach to a letter of any script: combining accents, vowel points, variation selectors …"""
    return characters_in(unicode_says()["shared"]["marks"]["X"])


@cache
def shared_classes() -> Mapping[str, str]:
    """Return the class letter of each character that may be in every script: joiners and shared marks."""
    return {**dict.fromkeys(shared_marks(), "X"), ZWJ: "J", ZWNJ: "Z"}


@cache
def _of_script(name: str) -> regex.Pattern[str]:
    """Return the pattern of a character that Unicode gives to a script; of none for a script that Unicode does not have."""
    try:
        return regex.compile(rf"\p{{Script={name}}}")
    except regex.error:
        return regex.compile("(?!)")


@dataclass(frozen=True, eq=False)
class Script:
    """One script: its block, its character classes (as hexadecimal ranges), and its grammars.

    Attributes:
        block: First and last code point of the Unicode block.
        others: Letters of the script that no syllable takes up; each is a unit of its own.
        more: Further classes of the grammars (`hf_sgpe.splitting.scripts.grammars`): the letter of each → its characters.
        also: Other names that people give it by: ISO 15924, languages that are written in it and their codes.
        font: A family of fonts that has its characters.
        greeting: A few words to try a tokenizer on.
        words: Some words with a bar between their syllables, which tests hold the table to.
        spaced: Whether words have spaces between them.
        joiners: The joiners that may stand inside a syllable of the SGPE document's kind.
        writes_joiners: Whether ordinary text needs them: more than one running word in two hundred has one.
        by_clusters: Whether its syllables are extended grapheme clusters. Such a script may have thousands of characters, so
            that each has to earn its token.
        own_words: Whether runs of its letters are words of their own in ``hybrid``; if not, those of the split pattern are.
        syllable: The grammar of a syllable.
        ends: States in which one may end; ``None`` for every one.
        letter: The grammar of a visible letter.
        letter_ends: States in which one may end; ``None`` for every one.
        letter_classes: What characters are to that grammar, where it knows more classes: the letter of each → its
            characters.
        document: The grammar of a syllable in the SGPE document's recipe, where that is another.
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

    def own_classes(self) -> dict[str, str]:
        """Return the class letter of each character of the script; other letters have none."""
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
        """Return the same with other letters, joiners and the marks that all scripts share."""
        others = {c: "M" if unicodedata.category(c)[0] == "M" else "O" for c in characters_in(self.others)}
        return {**shared_classes(), **others, **self.own_classes()}

    def document_classes(self) -> dict[str, str]:
        """Return the same as the SGPE document's recipe has it: joiners are those of the script, of one class."""
        return self.own_classes() | dict.fromkeys(self.joiners, "J") if self.document else self.classes()

    def classes_for_letters(self) -> dict[str, str]:
        """Return the same as the grammar of letters has it."""
        finer = {c: letter for letter, ranges in self.letter_classes.items() for c in characters_in(ranges)}
        return self.classes() | finer

    def letters_and_marks(self) -> frozenset[str]:
        """Return every character that a word of this script is written with; no joiners, digits or punctuation."""
        return frozenset(self.own_classes()).union(characters_in(self.others))

    def characters(self) -> frozenset[str]:
        """Return every character by which text can be told to be in this script: its letters and marks, and its own digits
        and punctuation, which are the rest of its block, and those that Unicode gives to it among its letters elsewhere, but
        for what several scripts share (danda). With it go the unassigned ones beside it whose UTF-8 begins alike: else these
        alone would keep the first bytes of Thai's vowels from being Thai's."""
        letters = self.letters_and_marks()
        rows = {ord(letter) // _ALIKE * _ALIKE for letter in letters}
        is_of_this = _of_script(self.name)
        elsewhere = (c for row in rows for c in map(chr, range(row, row + _ALIKE)) if is_of_this.match(c))
        first, last = (point // _ALIKE * _ALIKE for point in self.block)
        around = map(chr, range(first, last + _ALIKE))
        # To Unicode the baht sign is of no script.
        own = (
            c
            for c in around
            if (unicodedata.category(c) == "Sc" or not _SHARED.match(c))
            and (self.block[0] <= ord(c) <= self.block[1] or _UNASSIGNED.match(c))
        )
        return letters.union(own, elsewhere)

    def specimen(self) -> str:
        """Return a space, and then all letters and marks of the script that Unicode has, with its joiners between them if it
        writes any: the longest word that there could be."""
        known = sorted(c for c in self.letters_and_marks() if unicodedata.category(c) != "Cn" or not self.document)
        first = next((c for c in known if unicodedata.category(c)[0] == "L"), known[0])
        return f" {first}" + (self.joiners if self.writes_joiners else "").join(["", *known])
