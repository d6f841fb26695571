"""Training of a tokenizer, from the corpus to the finished folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hf_sgpe.corpora.corpus import Corpus, Files
from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import no_words
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.tokenizer import BPETokenizer
from trainers.tokenizers.balancing import Balanced, balance_corpus
from trainers.tokenizers.recipes import RecipeChoice, find_recipe
from trainers.tokenizers.tokenizer_trainer import TokenizerTrainer


@dataclass(frozen=True)
class Trained:
    """A trained tokenizer with the settings and the words from which it was learned.

    Attributes:
        config: The settings of the training, with the recipe, the pattern and the scripts that were chosen.
        words: The weighted word counts of the corpus.
        choice: The recipe and the reason for it, if it had to be chosen or checked.
        balanced: The search for a fair tokenizer, if the tokenizer was balanced.
    """

    tokenizer: BPETokenizer
    config: TrainingConfig
    words: WordCounts
    choice: RecipeChoice | None
    balanced: Balanced | None


def train(
    corpus: Files,
    out: str | os.PathLike[str],
    *,
    vocab_size: int = 32_000,
    recipe: str = "auto",
    script: Iterable[str] = (),
    pattern: str | None = None,
    runs_in: Sequence[str] = (),
    balance: Files = (),
    balance_by: str | None = None,
    balance_price: float | None = None,
    balance_parity: float | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    **settings: Any,
) -> Trained:
    """Train a tokenizer on a corpus, as ``hf-sgpe train`` does, and write it to a folder that plain AutoTokenizer loads.
    After an error, no file has been written.

    Args:
        vocab_size: As in `TrainingConfig`.
        recipe: A recipe, or ``auto`` to choose one for the corpus (see `choose_recipe`).
        script: Scripts or languages whose syllables stay whole; by default, the scripts of the corpus.
        pattern: As in `TrainingConfig`. None chooses a pattern.
        runs_in: Runtimes that must return the same ids as this package.
        balance: Held-out text, one file for each language to which the tokenizer is to be fair. See `train_balanced`, also
            for the other arguments that begin with ``balance``.
        overwrite: Whether the files of a tokenizer in ``out`` may be replaced.
        workers: As in `TokenizerTrainer`.
        **settings: Further arguments of `TrainingConfig`, such as ``special_tokens``.
    """
    # Refuse a bad output folder before an hour of training.
    check_new_folder(out, overwrite=overwrite)
    tokenizer_json.check_folder(out, with_chat_template=settings.get("chat_template") is not None)
    corpus = Corpus.of(corpus)
    held_out = Corpus.of(balance, text_field=corpus.text_field)
    warn_of_zawgyi(corpus, held_out)
    normalization = settings.get("normalization")
    found, choice = find_recipe(corpus, recipe, script, pattern=pattern, normalization=normalization, runs_in=runs_in)
    config = TrainingConfig(vocab_size, **settings, **found, weights=corpus.weights)
    with atomic_directory(out) as folder:
        balanced = None
        if held_out.files:
            limits = {"price": balance_price, "parity": balance_parity}
            balanced = balance_corpus(corpus, held_out, config, by=balance_by, workers=workers, **limits)
            words, tokenizer = balanced.words, balanced.tokenizer
        else:
            trainer = TokenizerTrainer(config, workers=workers)
            words = trainer.count(files=corpus)
            if not any(word.strip() for word in words):
                raise no_words("learn from", str(corpus))
            tokenizer = trainer.learn(words)
        tokenizer_json.write(tokenizer.data, folder)
    return Trained(tokenizer, config, words, choice, balanced)
