"""The choice of letters and syllables that get a token: by what each saves (`worth_of_units`), or by coverage
(`choose_units`).

A token of its own for a unit takes the room of a token that learning would find. So units and learned tokens stand in one
ranking, by how many tokens of the training text each saves, and the vocabulary takes the best. What a cut unit costs besides
its tokens is for the user to say. Building the chosen ones is the business of `unit_tier`.
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
"""How many tokens a cut letter or syllable counts as, unless the user says otherwise."""

# How many tokens each space saves that is joined to its syllable: besides the space's own, those of the beginnings of words
# that would have to be learned without it first. Measured: 2 to 16 give equally short text, and 1 gives longer.
_SPACE_WORTH = 4


def check_cut_cost(value: object) -> None:
    """Make sure that a cut cost is a number of tokens.

    Raises:
        SGPEError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < inf:
        raise SGPEError(f"cut_cost must be a number of tokens from 0 on, not {value!r}")


def choose_units(
    units: Mapping[str, int],
    trie: LinguisTrie,
    *,
    letter_coverage: float,
    syllable_coverage: float,
    min_unit_frequency: int | None = None,
) -> ChosenUnits:
    """Choose the units that get a token.

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


def worth_of_units(units: Mapping[str, int], trie: LinguisTrie, cut_cost: float) -> dict[str, float]:
    """Return how many tokens of the text each unit saves by a token of its own, cuts counted.

    Without one a letter falls into two tokens at least, and a syllable into its letters. Characters that have tokens anyway
    are left out, and so is what begins in none of the trie's scripts.

    Args:
        units: Syllables, each with its leading space if it has one, with their counts.
        cut_cost: How many tokens a cut letter or syllable counts as, besides those that it is cut into.

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
    # No more than the syllable itself, which is built first and then joined to its space.
    return worth | {unit: min(count * _SPACE_WORTH, worth.get(unit[1:], inf)) for unit, count in spaced.items()}


def most_valuable(worth: Mapping[str, float], gains: Iterable[float], room: int) -> set[str]:
    """Return the units among the ``room`` most valuable tokens, when units and learned tokens compete for it; O(n log n).

    Args:
        worth: Unit → how many tokens it saves.
        gains: The same of each learned token.

    >>> sorted(most_valuable({"a": 9, "b": 2, "c": 5}, [7, 6, 1], room=3)), sorted(most_valuable({"a": 1}, [], room=3))
    (['a'], ['a'])
    """
    # Of equals a unit goes before a learned token, since it saves a cut, and units go in code point order.
    units = ((-value, False, unit) for unit, value in worth.items())
    ranked = sorted(chain(units, ((-gain, True, "") for gain in gains)))
    return {unit for _, is_learned, unit in ranked[: max(room, 0)] if not is_learned}


def cover(counts: Mapping[str, int], coverage: float, min_frequency: int | None = None) -> list[str]:
    """Return the most frequent keys that make up a share of the counts, or all that reach ``min_frequency``; equals in code
    point order."""
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
