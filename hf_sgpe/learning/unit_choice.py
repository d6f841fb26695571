"""The choice of letters and syllables that get a token: by the tokens that each saves (`worth_of_units`), or by coverage
(`choose_units`).

A token for a unit takes the place of a token that learning would otherwise add. So units and learned tokens are ranked
together by the number of tokens of the training text that each saves, and the best are chosen. The user sets the additional
cost of a cut unit. `unit_tier` builds the chosen units.
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

# The number of tokens saved by each space that is joined to its syllable: the token of the space itself, and tokens of word
# beginnings that would otherwise be learned without it first. Measured: values from 2 to 16 give equally short text, and 1
# gives longer text.
_SPACE_WORTH = 4


def check_cut_cost(value: object) -> None:
    """Check that a cut cost is a number of tokens.

    Raises:
        SGPEError: ``value`` is not a finite number of at least 0.
    """
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
    """Choose the units that get a token.

    For each script, choose the most frequent letters and syllables that together make up the given share of the script's
    text, as SentencePiece's ``character_coverage`` does for characters.

    Args:
        units: Counts of syllables, each with its leading space if it has one. Units that do not begin in a script of the
            trie (SGPE's single characters) are all chosen.
        letter_coverage: Share of all letters in the text that the chosen letters make up, 0 to 1.
        syllable_coverage: The same for syllables.
        min_unit_frequency: Instead of both shares: the least count of a chosen unit.
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
    """Return, for each unit, how many tokens the text saves if this unit gets a token of its own. The avoided cost of cuts
    is part of the saving.

    Without its own token, a letter becomes at least two tokens, and a syllable becomes its letters. Characters that always
    have a token are left out. Units that do not begin in a script of the trie are left out, too.

    Args:
        units: Counts of syllables, each with its leading space if it has one.
        cut_cost: Cost of a cut letter or syllable in tokens, in addition to the tokens of its parts.

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
    # At most the worth of the syllable without its space, because that syllable is built first and then joined to the space.
    return worth | {unit: min(count * _SPACE_WORTH, worth.get(unit[1:], inf)) for unit, count in spaced.items()}


def most_valuable(worth: Mapping[str, float], gains: Iterable[float], room: int) -> set[str]:
    """Return the units that are among the ``room`` most valuable tokens when units and learned tokens are ranked together.
    Takes O(n log n) time.

    Args:
        worth: The number of tokens that each unit saves.
        gains: Number of tokens that each learned token saves.

    >>> sorted(most_valuable({"a": 9, "b": 2, "c": 5}, [7, 6, 1], room=3)), sorted(most_valuable({"a": 1}, [], room=3))
    (['a'], ['a'])
    """
    # A unit goes before a learned token of equal value, because the unit saves a cut. Equal units are in code point order.
    units = ((-value, False, unit) for unit, value in worth.items())
    ranked = sorted(chain(units, ((-gain, True, "") for gain in gains)))
    return {unit for _, is_learned, unit in ranked[: max(room, 0)] if not is_learned}


def cover(counts: Mapping[str, int], coverage: float, min_frequency: int | None = None) -> list[str]:
    """Return the most frequent keys that together make up a share of the counts or, with ``min_frequency``, all keys with at
    least this count. Keys of equal count are in code point order.
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
