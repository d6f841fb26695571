"""The unit tier: merges that only ever build whole units out of bytes, ranked before everything learned from statistics.

`choose_units` says which letters and syllables are worth a token, `order_units` what has to be built on the way to them, and
`build_unit_tier` turns it all into merges. Why this works:
a unit that comes out whole stays whole, since merges added later have higher ranks; and no merge crosses a syllable
boundary, since its left part begins a unit and its right part continues it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hf_sgpe import kernel
from hf_sgpe.bpe.encoder import MergeTable, Pair, apply_merges
from hf_sgpe.splitting.syllables import LinguisTrie

BYTES: tuple[bytes, ...] = tuple(bytes([byte]) for byte in range(256))
"""The tokens that every vocabulary begins with: id = byte."""


def build_unit_tier(units: Iterable[bytes]) -> list[Pair]:
    """The merges under which each unit comes out as one token. The k-th creates token 256 + k.

    For each unit in turn: while it does not come out whole, add the merge of its two leftmost pieces. No pair and no
    token occurs twice. Give small units first, so that large ones are built from them.

    >>> build_unit_tier([b"ab", b"abc", b"ab"])
    [(97, 98), (256, 99)]
    """
    if kernel.is_native():
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


class ChosenUnits(NamedTuple):
    """What is to have a token of its own: syllables, each with its leading space if it has one, and letters."""

    syllables: set[str]
    letters: set[str]


def choose_units(
    units: Mapping[str, int],
    trie: LinguisTrie,
    *,
    letter_coverage: float,
    syllable_coverage: float,
    min_unit_frequency: int | None = None,
) -> ChosenUnits:
    """Which units get a token.

    Letters and syllables are chosen script by script: the most frequent ones that together make up the given share of that
    script's running text, as SentencePiece's ``character_coverage`` does for characters.

    Args:
        units: Syllables, each with its leading space if it has one, with their counts. Units that begin in none of the
            trie's scripts (SGPE's single characters) are all chosen.
        letter_coverage: Share of the running letters, 0 to 1.
        syllable_coverage: Share of the running syllables, 0 to 1.
        min_unit_frequency: Instead of both shares: choose what occurs at least so often.
    """
    syllables_of: dict[str | None, Counter[str]] = {}
    letters_of: dict[str | None, Counter[str]] = {}
    for unit, count in units.items():
        script = trie.script_of(unit)
        syllables_of.setdefault(script, Counter())[unit] += count
        if script is not None:
            letters = letters_of.setdefault(script, Counter())
            for letter in trie.letters(unit):
                letters[letter] += count

    syllables: set[str] = set(syllables_of.pop(None, ()))
    letters_chosen: set[str] = set()
    for script, counted in syllables_of.items():
        syllables.update(cover(counted, syllable_coverage, min_unit_frequency))
        letters_chosen.update(cover(letters_of[script], letter_coverage, min_unit_frequency))
    return ChosenUnits(syllables, letters_chosen)


def order_units(chosen: ChosenUnits, trie: LinguisTrie, *, characters: Iterable[str] = ()) -> list[str]:
    """The chosen units and what they are built from, in the order in which `build_unit_tier` wants them.

    First all characters, then consonants with their virama (and joiner), then letters, then syllables, then syllables with
    their leading space; each group by length in bytes. A syllable chosen with its leading space comes without it, too.

    Args:
        characters: Further characters to have a token.
    """
    syllables, letters = chosen
    plain = {syllable.removeprefix(" ") or " " for syllable in syllables}
    all_characters = {character for unit in plain for character in unit} | set(characters)
    groups = (all_characters, _half_forms(letters | plain, trie), letters, plain, syllables)
    ordered = [unit for group in groups for unit in sorted(group, key=lambda unit: (len(unit.encode()), unit))]
    return list(dict.fromkeys(ordered))


def cover(counts: Mapping[str, int], coverage: float, min_frequency: int | None = None) -> list[str]:
    """The most frequent keys that make up a share of the counts, or all that reach ``min_frequency``; equals in code point
    order."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if min_frequency is not None:
        return [unit for unit, count in ranked if count >= min_frequency]
    wanted = coverage * sum(counts.values())
    chosen, covered = [], 0
    for unit, count in ranked:
        if covered >= wanted:
            break
        chosen.append(unit)
        covered += count
    return chosen


def _half_forms(units: Iterable[str], trie: LinguisTrie) -> set[str]:
    """Every consonant + virama and consonant + virama + joiner that stands in a unit, nukta included."""
    half_forms = set()
    for unit in units:
        shape = trie.shape(unit)
        for half_form in ("CH", "CNH", "CHJ", "CNHJ"):
            start = shape.find(half_form)
            while start >= 0:
                half_forms.add(unit[start : start + len(half_form)])
                start = shape.find(half_form, start + 1)
    return half_forms
