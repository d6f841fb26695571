"""Learning the two tiers of a tokenizer from counted words: the units of its scripts, then merges by statistics."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf, lcm
from typing import Any

from hf_sgpe.bpe.merging import Pair, merge_words, spell_tokens
from hf_sgpe.bpe.parity import CountedWords, learn_in_parity
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.bpe.unit_tier import BYTES, ChosenUnits, build_unit_tier, order_units
from hf_sgpe.chat.templates import load_template
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.learning.unit_choice import choose_units, most_valuable, worth_of_units
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS, names_of
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

logger = logging.getLogger(__name__)

OnMerge = Callable[[int, Pair, int], None]
Track = Callable[[Collection[Any], str], Iterable[Any]]


def learn_two_tiers(
    counts: WordCounts,
    config: TrainingConfig,
    *,
    languages: Sequence[tuple[WordCounts, WordCounts]] = (),
    on_merge: OnMerge | None = None,
    track: Track = lambda steps, what: steps,
) -> TokenizerData:
    """Learns a tokenizer of any recipe but ``sgpe``; arguments and errors as for `train_from_counts`.

    Args:
        languages: The words of each language, which are those of ``counts``, and those of its held-out text, to learn merges
            by `learn_in_parity`.
    """
    check_counts(counts, config)
    specials = config.special_tokens or ()
    # Parts may have been weighted more finely than their sum shows, whose fractions are in lowest terms.
    scale = lcm(counts.scale, *(one.scale for language in languages for one in language))
    unit_merges = _unit_merges(counts, config, track) if config.unit_scripts else []
    num_merges = config.vocab_size - len(BYTES) - len(specials) - len(unit_merges)
    vocabulary = spell_tokens(BYTES, unit_merges)
    how: dict[str, Any] = {
        "vocabulary": vocabulary,
        "num_merges": num_merges,
        "tie_break": config.tie_break,
        "min_frequency": config.min_frequency * scale,
        "on_merge": on_merge,
    }

    def in_units(counted: WordCounts) -> CountedWords:
        words = counted.words()
        finer = scale // counted.scale
        times = counted.values() if finer == 1 else [count * finer for count in counted.values()]
        return CountedWords(merge_words(words, unit_merges) if unit_merges else words, times)

    with ThreadPoolExecutor(1) as beside:
        digest = beside.submit(counts.digest)  # merging natively leaves the interpreter to others
        if languages:
            learning, held_out = ([in_units(one) for one in side] for side in zip(*languages, strict=True))
            learned = learn_in_parity(learning, held_out, **how)
        else:
            learned = learn_merges(*in_units(counts), **how)
    tokens = spell_tokens(vocabulary, learned)
    if len(learned) < num_merges:
        logger.warning(
            "the corpus gives %d tokens of the %d asked for: no further pair occurs %d times",
            len(tokens) + len(specials),
            config.vocab_size,
            config.min_frequency,
        )
    merges = [(tokens[left], tokens[right]) for left, right in unit_merges + learned]
    return assemble(tokens, merges, config, digest.result())


def warn_of_absent(scripts: Collection[str], present: Iterable[str | None]) -> None:
    """Says which scripts that were named the text does not have; nobody expects all of them."""
    absent = set(scripts).difference(present)
    if absent and len(scripts) < len(SCRIPTS):
        logger.warning("the text has no word in %s", names_of(sorted(absent)))


def _unit_merges(counts: WordCounts, config: TrainingConfig, track: Track) -> list[Pair]:
    """The unit tier: characters, letters and syllables that are promised a token, and those that earn one.

    Earning one takes a first pass over the words in which only characters are whole: it tells what learned tokens would save
    in the room of a letter or syllable.
    """
    words, times = counts.words(), counts.values()
    trie = LinguisTrie(config.unit_scripts, whole_clusters=True)
    # Where a pattern cuts, other characters may stand in the same word before the script's.
    mixed = set(config.unit_scripts) != set(config.splitting.scripts)
    units = trie.count_units(track(words, "Finding units"), times, every_word=mixed)
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
    # As many as there can be: without a limit the whole text could be learned.
    taken = len(BYTES) + len(config.special_tokens or ())
    most = min(config.vocab_size - taken, int(words.lengths().sum()))

    def tier(*groups: Iterable[str]) -> list[Pair]:
        syllables, letters = promised.syllables.union(*groups), promised.letters
        return build_unit_tier(
            unit.encode() for unit in order_units(ChosenUnits(syllables, letters), trie, characters=characters)
        )

    least = tier()
    if len(least) > most:
        few = config.letter_coverage is config.syllable_coverage is config.min_unit_frequency is None
        raise SGPEError(
            f"vocab_size {config.vocab_size} is too small for the {len(least):,} tokens that the "
            f"{'characters' if few else 'chosen units'} of these scripts need: give at least "
            f"{len(least) + taken}" + (", or promise fewer letters and syllables a token" if not few else "")
        )
    if config.cut_cost is None or not units:
        return least
    worth = worth_of_units(units, trie, config.cut_cost)
    worth |= dict.fromkeys(promised.syllables | promised.letters, inf)
    alone = build_unit_tier(character.encode() for character in sorted(characters))
    room = most - len(alone)
    gains = _gains(words, times, alone, room, config, counts.scale, track, without=worth)

    def with_best(number: int) -> list[Pair]:
        return tier(most_valuable(worth, gains, number))

    chosen = with_best(room)
    if len(chosen) > most:  # what the chosen ones are built from takes room, too
        chosen = with_best(bisect_right(range(room), most, key=lambda number: len(with_best(number))) - 1)
    return chosen


def _gains(
    words: Sequence[bytes],
    times: Sequence[int],
    characters: Sequence[Pair],
    most: int,
    config: TrainingConfig,
    scale: int,
    track: Track,
    *,
    without: Collection[str],
) -> list[int]:
    """How many tokens each token saves that would be learned if only characters were whole; units are left out."""
    vocabulary = spell_tokens(BYTES, characters)
    steps = iter(track(range(most), "Weighing units"))
    counts: list[int] = []

    def note(id: int, pair: Pair, count: int) -> None:
        next(steps, None)
        counts.append(count)

    learned = learn_merges(
        merge_words(words, characters),
        times,
        vocabulary=vocabulary,
        num_merges=most,
        tie_break=config.tie_break,
        min_frequency=config.min_frequency * scale,
        on_merge=note,
    )
    tokens = spell_tokens(vocabulary, learned)[len(vocabulary) :]
    units = {unit.encode() for unit in without}
    return [count for token, count in zip(tokens, counts, strict=True) if token not in units]


def check_counts(counts: WordCounts, config: TrainingConfig) -> None:
    """Makes sure that there are words to learn from, cut as the configuration says. Warns if words of a script that could be
    kept whole are not, which is easily overlooked.

    Raises:
        SGPEError: there are none, or they were cut in another way.
    """
    if setting := counts.splitting.difference(config.splitting):
        has, wants = (one.to_dict()[setting] for one in (counts.splitting, config.splitting))
        raise SGPEError(
            f"the words were counted with {setting.replace('_', ' ')} {has!r}, but the configuration has {wants!r}"
        )
    if not len(counts):
        raise SGPEError("the corpus is empty: it has no words to learn from")
    if scripts := config.unit_scripts:
        others = LinguisTrie([name for name in SCRIPTS if name not in scripts])
        total = sum(counts.values())
        running = others.count_scripts(counts.words(), counts.values())
        for script, count in sorted(running.items(), key=lambda item: -item[1]):
            if count and count * 100 >= total:
                logger.warning(
                    "%.0f %% of the words are %s, which is not among the scripts: their syllables will be cut",
                    100 * count / total,
                    script,
                )


def assemble(
    tokens: Sequence[bytes], merges: Sequence[tuple[bytes, bytes]], config: TrainingConfig, digest: str
) -> TokenizerData:
    """The tokenizer that was learned: special tokens have the ids that the configuration wants, the others come in order
    around them.

    Args:
        tokens: All but the special ones, in the order of their ids.
        digest: Of the counts, kept in the metadata.

    Raises:
        SGPEError: a special token was given an id beyond the tokens that there are.
    """
    specials = config.special_tokens
    assert specials is not None  # the configuration has filled in the recipe's
    if isinstance(specials, Mapping):
        special_ids = dict(specials)
    else:
        first = {"start": 0, "after-bytes": len(BYTES), "end": len(tokens)}[config.special_tokens_position or ""]
        special_ids = {token: first + number for number, token in enumerate(specials)}
    taken, size = set(special_ids.values()), len(tokens) + len(specials)
    if beyond := [token for token, id in special_ids.items() if id >= size]:
        raise SGPEError(
            f"special token {beyond[0]!r} has the id {special_ids[beyond[0]]}, but the corpus gives only {size} tokens: "
            f"give a vocab_size of {size}, and ids below it"
        )
    return TokenizerData(
        dict(zip(tokens, (id for id in range(size) if id not in taken), strict=True)),
        merges,
        splitting=config.splitting,
        special_tokens=special_ids,
        template=config.template(),
        roles=config.roles(),
        chat_template=load_template(config.chat_template) if config.chat_template else None,
        model_max_length=config.model_max_length,
        metadata={"training": config.to_dict(), "word_counts": digest},
    )
