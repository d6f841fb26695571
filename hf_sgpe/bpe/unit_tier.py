"""The unit tier: merges that build whole letters and syllables (units) from bytes. These merges are ranked before all
learned merges.

`hf_sgpe.learning.unit_choice` chooses letters and syllables. `order_units` lists their parts in building order, and
`build_unit_tier` turns this list into merges. A finished unit stays whole, because later merges have higher ranks. No merge
crosses a syllable boundary, because the left part of a merge begins a unit and the right part continues this unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from hf_sgpe import kernels
from hf_sgpe.bpe.merging import MergeTable, Pair, apply_merges
from hf_sgpe.splitting.syllables import LinguisTrie

BYTES: tuple[bytes, ...] = tuple(bytes([byte]) for byte in range(256))
"""The tokens at the start of every vocabulary: token i is the byte i."""


class ChosenUnits(NamedTuple):
    """The units that get tokens of their own: syllables, with their leading spaces (if any), and letters."""

    syllables: set[str]
    letters: set[str]


def build_unit_tier(units: Iterable[bytes]) -> list[Pair]:
    """Return merges that build each unit, in order, as one token. Merge k creates token 256 + k.

    The two leftmost tokens of a unit are merged until the unit is one token. No pair and no token occurs twice. Give small
    units first, so that large units are built from small units.

    >>> build_unit_tier([b"ab", b"abc", b"ab"])
    [(97, 98), (256, 99)]
    """
    if kernels.is_native():
        import hf_sgpe._native as _native

        return _native.build_unit_tier(list(units))
    table = MergeTable()
    merges: list[Pair] = []
    for unit in units:
        pieces = apply_merges(unit, table)
        while len(pieces) > 1:
            merges.append((pieces[0], pieces[1]))
            table.add(merges[-1], len(BYTES) + len(table.results))
            # No earlier merge applies to these pieces any more, so only the new merge applies.
            pieces = apply_merges(pieces, table)
    return merges


def order_units(chosen: ChosenUnits, trie: LinguisTrie, *, characters: Iterable[str] = ()) -> list[str]:
    """Return the chosen units, their parts and ``characters``, in the order that `build_unit_tier` needs.

    The order is: characters, consonants with their virama (and joiner) or asat, letters, syllables, and syllables with their
    leading space. Each group is sorted by length in bytes. If a syllable is chosen with its leading space, the syllable
    without the space is included, too.
    """
    syllables, letters = chosen
    plain = {syllable.removeprefix(" ") or " " for syllable in syllables}
    all_characters = {character for unit in plain | letters for character in unit} | set(characters)
    groups = (all_characters, _half_forms(letters | plain, trie), letters, plain, syllables)
    ordered = [unit for group in groups for unit in sorted(group, key=lambda unit: (len(unit.encode()), unit))]
    return list(dict.fromkeys(ordered))


# These must be whole before they merge with the characters in front of them, because a consonant after them begins no unit:
# consonant, virama and joiners; and a consonant closed by asat (`hf_sgpe.splitting.scripts.grammars`).
_HALF_FORM = re.compile("(?=(([CV][NJX]*H)[JZH]*|[CV]M*A))")


def _half_forms(units: Iterable[str], trie: LinguisTrie) -> set[str]:
    """Return each consonant with its virama, both with and without joiners, and each consonant with an asat."""
    half_forms: set[str] = set()
    for unit in units:
        for match in _HALF_FORM.finditer(trie.shape(unit)):
            half_forms.update(unit[slice(*match.span(group))] for group in (1, 2) if match[group])
    return half_forms
