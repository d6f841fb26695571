"""Learning the two tiers of a tokenizer from counted words: the units of its scripts, then merges by statistics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hf_sgpe.bpe.encoder import Pair, merge_words, spell_tokens
from hf_sgpe.bpe.tokenizer_data import TokenizerData
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.bpe.unit_tier import BYTES, build_unit_tier, choose_units, order_units
from hf_sgpe.chat.templates import load_template
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.special_tokens import cls_sep_template
from hf_sgpe.splitting.scripts import SCRIPTS
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.training_config import TrainingConfig

logger = logging.getLogger(__name__)

OnMerge = Callable[[int, Pair, int], None]
Track = Callable[[Collection[Any], str], Iterable[Any]]


def learn_two_tiers(
    counts: WordCounts,
    config: TrainingConfig,
    *,
    on_merge: OnMerge | None = None,
    track: Track = lambda steps, what: steps,
) -> TokenizerData:
    """Learns a tokenizer of the recipe ``hybrid`` or ``bpe``; arguments and errors as for `train_from_counts`."""
    check_counts(counts, config)
    words, times = list(counts), list(counts.values())
    ordered: list[str] = []
    if scripts := config.splitting.scripts:
        trie = LinguisTrie(scripts)
        units = trie.count_units(track(words, "Finding units"), times)
        chosen = choose_units(
            units,
            trie,
            letter_coverage=config.letter_coverage,
            syllable_coverage=config.syllable_coverage,
            min_unit_frequency=config.min_unit_frequency and config.min_unit_frequency * counts.scale,
        )
        ordered = order_units(chosen, trie, characters={character for unit in units for character in unit})
    unit_merges = build_unit_tier([unit.encode() for unit in ordered])

    specials = config.special_tokens or ()
    num_merges = config.vocab_size - len(BYTES) - len(specials) - len(unit_merges)
    if num_merges < 0:
        raise SGPEError(
            f"vocab_size {config.vocab_size} is too small for the {len(ordered)} chosen units: give at least "
            f"{config.vocab_size - num_merges}, or a lower letter_coverage or syllable_coverage"
        )

    vocabulary = spell_tokens(BYTES, unit_merges)
    sequences: Sequence[Sequence[int]] = words
    if unit_merges:
        sequences = merge_words(track(words, "Applying units"), unit_merges)
    with ThreadPoolExecutor(1) as beside:
        digest = beside.submit(counts.digest)  # merging natively leaves the interpreter to others
        learned = learn_merges(
            sequences,
            times,
            vocabulary=vocabulary,
            num_merges=num_merges,
            tie_break=config.tie_break,
            min_frequency=config.min_frequency * counts.scale,
            on_merge=on_merge,
        )
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
    if scripts := config.splitting.scripts:
        others = LinguisTrie(name for name in SCRIPTS if name not in scripts)
        total = sum(counts.values())
        running = others.count_scripts(list(counts), list(counts.values()))
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
        template=cls_sep_template(specials) if config.recipe == "sgpe" else None,
        roles=config.roles(),
        chat_template=load_template(config.chat_template) if config.chat_template else None,
        model_max_length=config.model_max_length,
        metadata={"training": config.to_dict(), "word_counts": digest},
    )
