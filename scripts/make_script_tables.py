"""Write the character classes of every Unicode script to hf_sgpe/splitting/scripts/unicode_scripts.json.

Run this program for each new version of Unicode. It reads Scripts.txt and IndicSyllabicCategory.txt from a folder of the
Unicode Character Database. The grapheme cluster properties (UAX #29) come from the package `regex`.

Example: python scripts/make_script_tables.py ucd hf_sgpe/splitting/scripts/unicode_scripts.json
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import regex
import typer

from hf_sgpe.cli import run_script
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.splitting.scripts.script import ranges_text

# The classes of characters that attach to the previous character (UAX #29), keyed by property value. Other characters get W.
_ATTACHED = {
    "Nukta": "N",
    "Virama": "H",
    "Invisible_Stacker": "H",
    **dict.fromkeys(("Vowel_Dependent", "Vowel", "Consonant_Medial", "Consonant_Subjoined"), "S"),
    **dict.fromkeys(
        (
            *("Consonant_Initial_Postfixed", "Consonant_Final", "Consonant_Succeeding_Repha", "Consonant_Killer", "Bindu"),
            *("Visarga", "Gemination_Mark", "Cantillation_Mark", "Syllable_Modifier", "Register_Shifter", "Tone_Mark"),
            *("Tone_Letter", "Pure_Killer", "Reordering_Killer", "Number_Joiner"),
        ),
        "M",
    ),
}
_BASES = {
    "Vowel_Independent": "V",
    "Consonant_Prefixed": "R",
    "Consonant_Preceding_Repha": "R",
    "Consonant_With_Stacker": "R",
    **dict.fromkeys(("Consonant", "Consonant_Dead", "Consonant_Placeholder", "Consonant_Head_Letter"), "C"),
}
# Vowels that are stored before the consonant but spoken after it (Logical_Order_Exception).
_BEFORE = regex.compile(r"\p{Logical_Order_Exception}")
_ATTACHES = regex.compile(r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]")
_PREPENDED = regex.compile(r"\p{GCB=Prepend}")
_IS_WRITTEN = regex.compile(r"[\p{L}\p{M}\p{GCB=Extend}\p{GCB=SpacingMark}]")
_GAP = 16
_TATWEEL = 0x640  # this character lengthens Arabic letters and carries marks like a letter; a few other scripts share it
# Accents of the Samaveda. They are not in the table of Devanagari, so that older word counts can still be added up.
_SAMAVEDIC = [*range(0xA8E0, 0xA8F2), 0xA8FF]
_ARROWS = 0x2190  # most emoji below this code point are also ordinary characters: ©, ™, digits
_BY_HAND = {"Sinhala", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam"}
_JOINERS = "\u200c\u200d"
_SHARED = ("Common", "Inherited")


def _property_of(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the code points in a file of the Unicode Character Database, each with its property value."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if match := regex.match(r"([0-9A-F]+)(?:\.\.([0-9A-F]+))?\s*;\s*(\w+)", line):
            for point in range(int(match[1], 16), int(match[2] or match[1], 16) + 1):
                yield point, match[3]


def _classes_of(points: Iterable[int], syllabic: dict[int, str]) -> dict[str, list[int]]:
    """Group the letters and marks of a script by the one-letter name of their class in syllables, or "" for no class."""
    classes: dict[str, list[int]] = defaultdict(list)
    for point in points:
        character, category = chr(point), syllabic.get(point, "")
        if not _IS_WRITTEN.match(character):
            continue
        if _PREPENDED.match(character) or _BEFORE.match(character):
            letter = "R"
        elif _ATTACHES.match(character):
            letter = _ATTACHED.get(category, "M")
        else:
            letter = _BASES.get(category, "W" if category in _ATTACHED else "")
        classes[letter].append(point)
    return classes


def _clusters_of(points: Iterable[int]) -> dict[str, list[int]]:
    """Group the letters and marks of a script by the one-letter name of their role in extended grapheme clusters."""
    classes: dict[str, list[int]] = defaultdict(list)
    for point in points:
        character = chr(point)
        if not _IS_WRITTEN.match(character):
            continue
        letter = "C"
        if _PREPENDED.match(character):
            letter = "R"
        elif _ATTACHES.match(character):
            letter = "M"
        for jamo in ("L", "V", "T", "LV", "LVT"):
            if regex.match(rf"\p{{GCB={jamo}}}", character):
                letter = {"V": "U", "LV": "G", "LVT": "K"}.get(jamo, jamo)
        classes[letter].append(point)
    return classes


def _block_of(points: Iterable[int]) -> str:
    """Return the main block of a script as a hexadecimal range of code points, such as ``0D80-0DFF``.

    The code points of the script are divided at large gaps. The main block is the range with the most letters and marks,
    extended to whole rows of 16 code points.
    """
    blocks: list[list[int]] = []
    for point in sorted(points):
        if blocks and point - blocks[-1][-1] <= _GAP:
            blocks[-1].append(point)
        else:
            blocks.append([point])
    block = max(blocks, key=lambda block: (sum(map(bool, map(_IS_WRITTEN.match, map(chr, block)))), len(block)))
    return f"{block[0] & ~15:04X}-{block[-1] | 15:04X}"


def tables(folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Return the content of the JSON file. ``abugidas`` and ``others`` have ranges of characters, keyed by script and then
    by class. ``shared`` has marks that several scripts use.
    """
    syllabic = dict(_property_of(folder / "IndicSyllabicCategory.txt"))
    points: dict[str, list[int]] = defaultdict(list)
    for point, script in _property_of(folder / "Scripts.txt"):
        points[script].append(point)
    shared = [point for script in _SHARED for point in points.pop(script)]
    points["Arabic"].append(_TATWEEL)
    points.pop("Unknown", None)
    marks = [point for point in shared if _ATTACHES.match(chr(point)) and chr(point) not in _JOINERS] + _SAMAVEDIC
    emoji = [point for point in shared if point >= _ARROWS and regex.match(r"\p{Emoji}", chr(point))]
    result: dict[str, dict[str, dict[str, str]]] = {"abugidas": {}, "others": {}, "shared": {}}
    for script in sorted(set(points) - _BY_HAND):
        is_abugida = any(syllabic.get(point, "").startswith("Consonant") for point in points[script])
        classes = (_classes_of(points[script], syllabic) if is_abugida else _clusters_of(points[script])).items()
        kind = result["abugidas" if is_abugida else "others"]
        named = {letter: ranges_text(members) for letter, members in sorted(classes)}
        if not named:  # Braille has no letters
            continue
        kind[script.lower().replace("_", "-")] = {"block": _block_of(points[script]), **named}
    # The halves of flags are left out. In a row of flags, a merge could join the second half of a flag and the first half of
    # the next flag.
    pictographs = [point for point in emoji if not regex.match(r"\p{Regional_Indicator}", chr(point)) and point not in marks]
    result["others"]["emoji"] = {"block": _block_of(pictographs), "C": ranges_text(pictographs)}
    result["shared"]["marks"] = {"X": ranges_text(marks)}
    return result


def _write(
    folder: Annotated[Path, typer.Argument(help="Folder with Scripts.txt and IndicSyllabicCategory.txt.")],
    out: Annotated[Path, typer.Argument(help="JSON file to write.")],
) -> None:
    with atomic_file(out) as file:
        file.write_text(json.dumps(tables(folder), indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    run_script(_write, __doc__)
