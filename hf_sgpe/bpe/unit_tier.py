"""The unit tier: merges that only ever build whole units out of bytes, ranked before everything learned from statistics.

`order_units` says what has to be built on the way to the letters and syllables that get a token, and `build_unit_tier` turns
it all into merges; which ones do is chosen elsewhere. Why this works:
a unit that comes out whole stays whole, since merges added later have higher ranks; and no merge crosses a syllable
boundary, since its left part begins a unit and its right part continues it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from hf_sgpe import kernels
from hf_sgpe.bpe.merging import MergeTable, Pair, apply_merges
from hf_sgpe.splitting.syllables import LinguisTrie

BYTES: tuple[bytes, ...] = tuple(bytes([byte]) for byte in range(256))
"""The tokens that every vocabulary begins with: id = byte."""


class ChosenUnits(NamedTuple):
    """What is to have a token of its own: syllables, each with its leading space if it has one, and letters."""

    syllables: set[str]
    letters: set[str]


def build_unit_tier(units: Iterable[bytes]) -> list[Pair]:
    """Return the merges under which each unit comes out as one token. The k-th creates token 256 + k.

    For each unit in turn: while it does not come out whole, add the merge of its two leftmost pieces. No pair and no
    token occurs twice. Give small units first, so that large ones are built from them.

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
            # All other merges are spent on these pieces already, so only the new one can apply.
            pieces = apply_merges(pieces, table)
    return merges


def order_units(chosen: ChosenUnits, trie: LinguisTrie, *, characters: Iterable[str] = ()) -> list[str]:
    """Return the chosen units and what they are built from, in the order in which `build_unit_tier` wants them.

    First all characters, then consonants with their virama (and joiner) or asat, then letters, then syllables, then
    syllables with their leading space; each group by length in bytes. A syllable chosen with its leading space comes
    without it, too.

    Args:
        characters: Further characters to have a token.
    """
    syllables, letters = chosen
    plain = {syllable.removeprefix(" ") or " " for syllable in syllables}
    all_characters = {character for unit in plain | letters for character in unit} | set(characters)
    groups = (all_characters, _half_forms(letters | plain, trie), letters, plain, syllables)
    ordered = [unit for group in groups for unit in sorted(group, key=lambda unit: (len(unit.encode()), unit))]
    return list(dict.fromkeys(ordered))


# Behind these another consonant is no new unit, or the two are none: they have to be whole before what stands before them.
# Consonant, virama and joiners; and a consonant that asat closes (`hf_sgpe.splitting.scripts.grammars`).
_HALF_FORM = re.compile("(?=(([CV][NJX]*H)[JZH]*|[CV]M*A))")


def _half_forms(units: Iterable[str], trie: LinguisTrie) -> set[str]:
    """Return every consonant + virama, with and without joiners, in a unit, and the like."""
    half_forms: set[str] = set()
    for unit in units:
        for match in _HALF_FORM.finditer(trie.shape(unit)):
            half_forms.update(unit[slice(*match.span(group))] for group in (1, 2) if match[group])
    return half_forms
