"""The entry point of learning. It learns a tokenizer from counted words and a configuration."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.learning.assembling import Languages, assemble, check_counts
from hf_sgpe.learning.observer import NOBODY, Observer
from hf_sgpe.learning.sgpe_learning import learn_sgpe
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.learning.two_tiers import learn_two_tiers
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


def learn_tokenizer(
    counts: WordCounts, config: TrainingConfig, *, languages: Languages = (), observer: Observer = NOBODY
) -> TokenizerData:
    """Learn a tokenizer from counted words.

    The merges come in two tiers. The unit tier builds units, such as letters and syllables. The statistical tier then merges
    frequent pairs of units. If there are too few merges for ``config.vocab_size``, the tokenizer is smaller.

    Args:
        languages: The words of each language, which together are ``counts``. If they are given, learn with Parity-aware BPE:
            the language with the most tokens so far chooses each merge, and the merge's count is its count in this language.

    Source of Parity-aware BPE: Foroutan et al. 2025, "Parity-Aware Byte-Pair Encoding" (the base variant).
    """
    check_counts(counts, config)
    learn = learn_sgpe if config.recipe == "sgpe" else learn_two_tiers
    with ThreadPoolExecutor(1) as second:
        digest = second.submit(counts.digest)  # the native kernel releases the GIL while it merges
        learned = learn(counts, config, languages=languages, observer=observer)
    return assemble(learned, config, digest.result())
