"""Write the character tables of the native kernels to hf_sgpe/csrc/character_tables.inc.

Run this script when the `tokenizers` package moves to another version of Unicode. A test compares every code point.

Example: python scripts/make_character_tables.py hf_sgpe/csrc/character_tables.inc
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from tokenizers import Regex
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import Split

from hf_sgpe.cli import run_script
from hf_sgpe.files.atomic import write_text
from hf_sgpe.kernels import CHARACTER_CLASSES
from hf_sgpe.splitting.scripts.script import runs

CODE_POINTS = [*range(0xD800), *range(0xE000, 0x110000)]


def _engine_classes() -> dict[int, int]:
    """Return the number of each code point's class in the regex engine of ``tokenizers``."""
    text = "".join(map(chr, CODE_POINTS))
    table: dict[int, int] = {}
    for number, pattern in CHARACTER_CLASSES.items():
        split = Split(Regex(pattern), behavior="removed", invert=True)
        for start in range(0, len(text), 1 << 15):
            for match, _ in split.pre_tokenize_str(text[start : start + (1 << 15)]):
                for character in match:
                    assert ord(character) not in table, f"U+{ord(character):04X} is in two classes"
                    table[ord(character)] = number
    return table


def _normalization_classes() -> dict[int, tuple[int, int]]:
    """Return a pair (kind of change, combining class) for each code point that NFC may change.

    There are three kinds of change: 1 if NFC always replaces the character, 2 if the character may compose with the previous
    character, and 3 if the character can only be reordered. A character that is in the table without need does no harm: it
    only makes the check of text with this character slower.
    """
    library = NFC()
    seconds = {second for _, second in _compositions()} | {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    table = {}
    for point in CODE_POINTS:
        character = chr(point)
        combining = unicodedata.combining(character)
        if unicodedata.normalize("NFC", character) != character or library.normalize_str(character) != character:
            table[point] = (1, combining)
        elif point in seconds:
            table[point] = (2, combining)
        elif combining:
            table[point] = (3, combining)
    return table


def _decomposing(table: dict[int, tuple[int, int]]) -> Iterator[int]:
    """Yield the code points that have a decomposition but that NFC does not change by themselves. A mark after such a
    character may compose with a part of the character.
    """
    for point in CODE_POINTS:
        if point not in table and unicodedata.normalize("NFD", chr(point)) != chr(point):
            yield point


def _compositions() -> Iterator[tuple[int, int]]:
    """Yield the pairs of code points that NFC composes, except those of Hangul."""
    library = NFC()
    for point in CODE_POINTS:
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            if {pair} != {unicodedata.normalize("NFC", pair), library.normalize_str(pair)}:
                yield ord(pair[0]), ord(pair[1])


def _canaries(classes: dict[int, int]) -> list[int]:
    """Return about 200 code points whose class depends on the version of Unicode. Each of them is the first or the last of a
    run of characters that are newer than Unicode 3.2.
    """
    newer = [
        point for point in CODE_POINTS if (point in classes) != (unicodedata.ucd_3_2_0.category(chr(point))[0] in "LMNZ")
    ]
    ends = [point for point in newer if point + 1 not in classes or point - 1 not in classes]
    return ends[:: max(1, len(ends) // 200)]


def _runs(values: Mapping[int, Any]) -> list[tuple[int, int, Any]]:
    """Group code points into runs (first, last, value) of consecutive code points with equal values."""
    points = defaultdict(list)
    for point, value in values.items():
        points[value].append(point)
    return sorted((*ends, value) for value, members in points.items() for ends in runs(members))


def _lines(entries: Iterable[str]) -> str:
    """Return the entries as lines of C++, with many entries per line."""
    text = " ".join(f"{entry}," for entry in entries)
    return textwrap.fill(text, 122, initial_indent="    ", subsequent_indent="    ") + "\n"


def _write(out: Annotated[Path, typer.Argument(help="C++ file to write.")]) -> None:
    classes = _engine_classes()
    normalization = _normalization_classes()
    content = (
        "// Written by scripts/make_character_tables.py. Do not edit.\n\n"
        "// {first, last, class} of the characters that are not kOther, as the engine behind tokenizer.json sees them.\n"
        "constexpr ClassRun kClassRuns[] = {\n"
        + _lines(f"{{0x{first:X},0x{last:X},{value}}}" for first, last, value in _runs(classes))
        + "};\n\n// {first, last, kind, combining class} of the characters that NFC may touch.\n"
        "constexpr NfcRun kNfcRuns[] = {\n"
        + _lines(f"{{0x{a:X},0x{b:X},{v[0]},{v[1]}}}" for a, b, v in _runs(normalization))
        + "};\n\n// {first, second} of the pairs that NFC composes, Hangul left out.\n"
        "constexpr NfcPair kNfcPairs[] = {\n"
        + _lines(f"{{0x{first:X},0x{second:X}}}" for first, second in sorted(set(_compositions())))
        + "};\n\n// {first, last} of the characters that NFC leaves alone although they have a decomposition.\n"
        "constexpr CodeRange kDecomposing[] = {\n"
        + _lines(f"{{0x{first:X},0x{last:X}}}" for first, last in runs(_decomposing(normalization)))
        + "};\n\n// Characters whose classes tell versions of Unicode apart.\n"
        "constexpr uint32_t kCanaries[] = {\n" + _lines(f"0x{point:X}" for point in _canaries(classes)) + "};\n"
    )
    write_text(out, content)


if __name__ == "__main__":
    run_script(_write, __doc__)
