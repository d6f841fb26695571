"""Choosing the letters and syllables that get a token: by the number of tokens that each saves (`worth_of_units`), or
by coverage (`choose_units`).

A token for a unit (a letter or syllable) takes the place of a token that learning would otherwise add. So units and learned
tokens are ranked together by the number of tokens that each saves in the training text, and the best are chosen. The user
can add a cost for each cut inside a unit. `unit_tier` builds the chosen units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from math import inf

from hf_sgpe.bpe.unit_tier import ChosenUnits
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.syllables import LinguisTrie

CUT_COST = 2.0
"""The default cost of a cut letter or syllable, in tokens."""

# The number of tokens that are saved when a space is joined to its syllable: the token of the space itself, and tokens of
# word beginnings that would otherwise be learned without the space first. In measurements, texts had equally few tokens with
# values from 2 to 16, and more tokens with 1.
_SPACE_WORTH = 4


def check_cut_cost(value: object) -> None:
    """Check that a value can be a cut cost."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < inf:
        raise SGPEError(f"cut_cost must be a finite number of tokens, at least 0, not {value!r}")


def choose_units(
    units: Mapping[str, int],
    trie: LinguisTrie,
    *,
    letter_coverage: float,
    syllable_coverage: float,
    min_unit_frequency: int | None = None,
) -> ChosenUnits:
    """Choose the letters and syllables that get a token, by their frequency.

    For each script, choose the most frequent letters and syllables, until they make up the given share of the script's text.
    SentencePiece's ``character_coverage`` does the same for characters.

    Args:
        units: Dict from syllables to counts. A syllable at the beginning of a word includes the word's leading space. Units
            that do not begin with a letter of the trie's scripts are always chosen.
        letter_coverage: Share (0 to 1) of a script's letters in the text that the chosen letters must make up.
        syllable_coverage: The same for syllables.
        min_unit_frequency: If it is given, units that occur at least this often are chosen, and both shares are ignored.
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


def worth_of_units(units: Mapping[str, int], trie: LinguisTrie, cut_cost: float) -> dict[str, float]:
    """Return a dict from letters and syllables to the number of tokens that the text saves if this unit gets its own token,
    with the cost of the cuts that the token avoids.

    Without its own token, a letter becomes at least two tokens, and a syllable becomes its letters. Two kinds of units are
    left out: characters that always have a token, and units that do not begin with a letter of the trie's scripts.

    Args:
        units: Dict from syllables to counts. A syllable at the beginning of a word includes the word's leading space.
        cut_cost: Cost of a cut inside a letter or syllable, in tokens.

    >>> worth_of_units({"කා": 3, " න්ද": 2}, LinguisTrie(), cut_cost=1)
    {'කා': 6, 'න්': 4, 'න්ද': 4, ' න්ද': 4}
    """
    letters: Counter[str] = Counter()
    syllables: Counter[str] = Counter()
    parts: dict[str, int] = {}
    spaced: dict[str, int] = {}
    for unit, count in units.items():
        if trie.script_of(unit) is None:
            continue
        syllable = unit.removeprefix(" ")
        pieces = trie.letters(syllable)
        for letter in pieces:
            letters[letter] += count
        if len(pieces) > 1:
            syllables[syllable] += count
            parts[syllable] = len(pieces)
        if unit != syllable:
            spaced[unit] = count
    worth = {
        letter: count * (1 + cut_cost) for letter, count in letters.items() if len(letter) > 1 or trie.must_earn(letter)
    }
    worth |= {syllable: count * (parts[syllable] - 1 + cut_cost) for syllable, count in syllables.items()}
    # At most the worth of the syllable without its space, because the syllable is built first and joined to the space
    # afterwards.
    return worth | {unit: min(count * _SPACE_WORTH, worth.get(unit[1:], inf)) for unit, count in spaced.items()}


def most_valuable(worth: Mapping[str, float], gains: Iterable[float], room: int) -> set[str]:
    """Return the units that get into the vocabulary if units and learned tokens compete for ``room`` entries.

    Args:
        worth: The number of tokens that each unit saves.
        gains: The number of tokens that each learned token saves.

    >>> sorted(most_valuable({"a": 9, "b": 2, "c": 5}, [7, 6, 1], room=3)), sorted(most_valuable({"a": 1}, [], room=3))
    (['a'], ['a'])
    """
    # A unit is ranked before a learned token of equal value, because the unit saves a cut. Equal units are in code point
    # order.
    units = ((-value, False, unit) for unit, value in worth.items())
    ranked = sorted(chain(units, ((-gain, True, "") for gain in gains)))
    return {unit for _, is_learned, unit in ranked[: max(room, 0)] if not is_learned}


def cover(counts: Mapping[str, int], coverage: float, min_frequency: int | None = None) -> list[str]:
    """Return the most frequent keys, until their counts make up the share ``coverage`` of the total. If ``min_frequency`` is
    given, return all keys with at least this count instead. Keys with the same count are in code point order.

    >>> cover({"a": 1, "b": 2, "c": 3}, 0.5), cover({"a": 1, "b": 2, "c": 3}, 0, 2)
    (['c'], ['c', 'b'])
    """
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
