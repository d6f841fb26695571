"""Learning the merges of a tokenizer from counted words, in two tiers: first merges that build whole letters and syllables,
and then merges of frequent pairs.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from math import inf, lcm
from typing import Any

from hf_sgpe.bpe.merging import Pair, merge_words, spell_tokens
from hf_sgpe.bpe.parity import CountedWords, learn_in_parity
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.bpe.unit_tier import BYTES, ChosenUnits, build_unit_tier, order_units
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.assembling import Languages, Learned, warn_of_absent
from hf_sgpe.learning.observer import Observer
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.learning.unit_choice import choose_units, most_valuable, worth_of_units
from hf_sgpe.splitting.syllables import LinguisTrie

logger = logging.getLogger(__name__)


def learn_two_tiers(
    counts: WordCounts,
    config: TrainingConfig,
    *,
    languages: Languages,
    observer: Observer,
) -> Learned:
    """Learn the tokens and merges of both tiers. For the arguments, see `hf_sgpe.learning.learn.learn_tokenizer`."""
    specials = config.special_tokens or ()
    # The counts of one language can have a finer scale than the sum of all languages, because scales are reduced to lowest
    # terms.
    scale = lcm(counts.scale, *(one.scale for language in languages for one in language))
    unit_merges = _unit_merges(counts, config, observer) if config.unit_scripts else []
    num_merges = config.vocab_size - len(BYTES) - len(specials) - len(unit_merges)
    vocabulary = spell_tokens(BYTES, unit_merges)
    settings: dict[str, Any] = {
        "vocabulary": vocabulary,
        "num_merges": num_merges,
        "tie_break": config.tie_break,
        "min_frequency": config.min_frequency * scale,
        "on_merge": observer.merged,
    }

    def in_units(counted: WordCounts) -> CountedWords:
        words = counted.words()
        finer = scale // counted.scale
        times = counted.values() if finer == 1 else [count * finer for count in counted.values()]
        return CountedWords(merge_words(words, unit_merges) if unit_merges else words, times)

    if languages:
        learning = [in_units(counted) for counted, _ in languages]
        held_out = [in_units(counted) for _, counted in languages]
        learned = learn_in_parity(learning, held_out, **settings)
    else:
        learned = learn_merges(*in_units(counts), **settings)
    tokens = spell_tokens(vocabulary, learned)
    if len(learned) < num_merges:
        logger.warning(
            "learning ended with %d of the %d tokens requested: no other pair occurs %d times",
            len(tokens) + len(specials),
            config.vocab_size,
            config.min_frequency,
        )
    return Learned(tokens, [(tokens[left], tokens[right]) for left, right in unit_merges + learned])


def _unit_merges(counts: WordCounts, config: TrainingConfig, observer: Observer) -> list[Pair]:
    """Return the merges of the first tier. They build the characters, letters and syllables that always get a token and, if
    ``cut_cost`` is set, the letters and syllables whose tokens save more than other tokens would.
    """
    trie = LinguisTrie(config.unit_scripts, whole_clusters=True)
    # With a pattern, a word can have other characters before the characters of the script.
    mixed = set(config.unit_scripts) != set(config.splitting.scripts)
    units = trie.count_units(observer.steps(counts.words(), "Finding units"), counts.values(), every_word=mixed)
    if mixed:
        joiners = {joiner for script in trie.scripts for joiner in script.joiners}
        units = {unit: count for unit, count in units.items() if trie.script_of(unit) or unit in joiners}
    warn_of_absent(config.unit_scripts, map(trie.script_of, units))
    characters = {character for unit in units if not trie.must_earn(unit) for character in unit}
    promised = choose_units(
        units,
        trie,
        letter_coverage=config.letter_coverage or 0,
        syllable_coverage=config.syllable_coverage or 0,
        min_unit_frequency=config.min_unit_frequency and config.min_unit_frequency * counts.scale,
    )
    # An upper limit: with a huge vocab_size, learning could continue until each word is one token.
    taken = len(BYTES) + len(config.special_tokens or ())
    most = min(config.vocab_size - taken, int(counts.words().lengths().sum()))

    def tier(*groups: Iterable[str]) -> list[Pair]:
        chosen = ChosenUnits(promised.syllables.union(*groups), promised.letters)
        return build_unit_tier(unit.encode() for unit in order_units(chosen, trie, characters=characters))

    least = tier()
    if len(least) > most:
        what, remedy = "chosen units", ", or let fewer letters and syllables get a token"
        if config.letter_coverage is config.syllable_coverage is config.min_unit_frequency is None:
            what, remedy = "characters", ""
        raise SGPEError(
            f"vocab_size {config.vocab_size} is too small for the {len(least):,} tokens that the {what} of these scripts "
            f"need: give at least {len(least) + taken}{remedy}"
        )
    if config.cut_cost is None or not units:
        return least
    worth = worth_of_units(units, trie, config.cut_cost)
    worth |= dict.fromkeys(promised.syllables | promised.letters, inf)
    alone = build_unit_tier(character.encode() for character in sorted(characters))
    room = most - len(alone)
    gains = _gains(counts, alone, room, config, observer, without=worth)

    def with_best(number: int) -> list[Pair]:
        return tier(most_valuable(worth, gains, number))

    chosen = with_best(room)
    if len(chosen) > most:  # the parts of the chosen units also need room in the vocabulary
        number = bisect_right(range(room), most, key=lambda number: len(with_best(number))) - 1
        chosen = with_best(number)
    return chosen


def _gains(
    counts: WordCounts,
    characters: Sequence[Pair],
    most: int,
    config: TrainingConfig,
    observer: Observer,
    *,
    without: Collection[str],
) -> list[int]:
    """Return, for each token of a trial run, the number of tokens that it would save. The run learns merges from words in
    which only characters are whole. Tokens that equal a unit in ``without`` are left out.
    """
    vocabulary = spell_tokens(BYTES, characters)
    steps = iter(observer.steps(range(most), "Weighing units"))
    saved: list[int] = []

    def note(id: int, pair: Pair, count: int) -> None:
        next(steps, None)
        saved.append(count)

    learned = learn_merges(
        merge_words(counts.words(), characters),
        counts.values(),
        vocabulary=vocabulary,
        num_merges=most,
        tie_break=config.tie_break,
        min_frequency=config.min_frequency * counts.scale,
        on_merge=note,
    )
    tokens = spell_tokens(vocabulary, learned)[len(vocabulary) :]
    units = {unit.encode() for unit in without}
    return [count for token, count in zip(tokens, saved, strict=True) if token not in units]
