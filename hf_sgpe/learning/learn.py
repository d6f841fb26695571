"""The door to learning: counted words and a configuration go in, the data of a tokenizer come out."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.assembling import assemble, check_counts
from hf_sgpe.learning.observer import NOBODY, Observer
from hf_sgpe.learning.sgpe_learning import learn_vocabulary, lossless_data
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.learning.two_tiers import learn_two_tiers
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

Languages = Sequence[tuple[WordCounts, WordCounts]]
"""The words of each language, and the words of its held-out text; the texts are translations of each other."""


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
    if config.recipe == "sgpe":
        if languages:
            raise SGPEError("the recipe sgpe learns as its document says: balance it by weights")
        return lossless_data(learn_vocabulary(counts, config, observer=observer), config, counts)
    check_counts(counts, config)
    with ThreadPoolExecutor(1) as second:
        digest = second.submit(counts.digest)  # merging natively leaves the interpreter to other threads
        tokens, merges = learn_two_tiers(counts, config, languages=languages, observer=observer)
    return assemble(tokens, merges, config, digest.result())
