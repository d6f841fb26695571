"""The door to learning: counted words and a configuration go in, the data of a tokenizer come out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.learning.assembling import Languages, assemble, check_counts
from hf_sgpe.learning.observer import NOBODY, Observer
from hf_sgpe.learning.sgpe_learning import learn_sgpe
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.learning.two_tiers import learn_two_tiers
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

_LEARNERS = {"sgpe": learn_sgpe}
"""Recipe → how its tokens are learned; by two tiers where it is not named here."""


def learn_tokenizer(
    counts: WordCounts, config: TrainingConfig, *, languages: Languages = (), observer: Observer = NOBODY
) -> TokenizerData:
    """Learn a tokenizer: the unit tier, then the statistical tier on the pieces that the unit tier leaves of each word; for
    the recipe ``sgpe`` by `learn_vocabulary`.

    If the words give fewer merges than ``config.vocab_size`` asks for, the tokenizer is smaller and a warning is logged.

    Args:
        languages: Learn by Parity-aware BPE: each merge is the one that helps the language that has the most tokens, and its
            count is that of this language. ``counts`` are then those of all languages together.
        observer: Watches each step.

    Raises:
        SGPEError: there are no words, they were cut for another configuration, the vocabulary is too small for the chosen
            units (the message gives the least size), or ``languages`` are given for the recipe ``sgpe``.

    Source of the parity: Foroutan et al. 2025, "Parity-Aware Byte-Pair Encoding" (the base variant).
    """
    check_counts(counts, config)
    learn = _LEARNERS.get(config.recipe, learn_two_tiers)
    with ThreadPoolExecutor(1) as second:
        digest = second.submit(counts.digest)  # merging natively leaves the interpreter to other threads
        learned = learn(counts, config, languages=languages, observer=observer)
    return assemble(learned, config, digest.result())
