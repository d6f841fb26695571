"""Training of tokenizers: `TokenizerTrainer` trains on files or an iterator, with progress bars, and `train_bpe` trains on
one text file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sgpe.corpora.corpus import Corpus, Files
from hf_sgpe.corpora.text_files import read_text_file
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.splitting.splitting import checked_list
from hf_sgpe.tokenizer import BPETokenizer, train_from_counts
from hf_sgpe.vocabulary.special_tokens import any_of, check_special_texts
from trainers.counting.parallel_counting import count_corpus
from trainers.tokenizers.learning_progress import learning_bars

if TYPE_CHECKING:
    from hf_sgpe.tokenization_sgpe import SGPETokenizerFast


class TokenizerTrainer:
    """A trainer that counts words and trains tokenizers with a given configuration.

    Args:
        workers: Number of threads that count words or, without the native kernels, of processes. None for one per core, or
            for a single worker if the corpus is small.
        progress: Whether to show progress on stderr; None shows it only on a terminal.

    >>> trainer = TokenizerTrainer(TrainingConfig(vocab_size=270, recipe="bpe", pattern="gpt2"))
    >>> len(trainer.train(iterator=["low lower lowest newer newest wider widest"] * 20))
    270
    """

    def __init__(self, config: TrainingConfig, *, workers: int | None = None, progress: bool | None = None) -> None:
        self.config = config
        self.workers = workers
        self.progress = progress

    def count(
        self,
        *,
        files: Files | None = None,
        iterator: Iterable[str] | None = None,
        text: str | None = None,
        counts: Iterable[str | os.PathLike[str]] = (),
        text_field: str = "text",
    ) -> WordCounts:
        """Count the words of a corpus. Counts of several corpora can be added up before `learn`.

        Args:
            files: Files, folders and globs of .txt, .jsonl and .parquet files, plain or compressed (.gz .xz .zst .bz2); or a
                `Corpus`, which can also have datasets and its own weights.
            iterator: Strings, instead of files.
            text: A single string, instead of files.
            counts: Files of word counts that `WordCounts.save` wrote, in addition to ``files`` or alone.
            text_field: Name of the field that contains the text in .jsonl and .parquet files.
        """
        weights = self.config.weights
        corpus = Corpus.of(files, iterator=iterator, text=text, counts=counts, weights=weights, text_field=text_field)
        return count_corpus(corpus, self.config, workers=self.workers, progress=self.progress)

    def learn(self, counts: WordCounts) -> BPETokenizer:
        """Train a tokenizer on counted words."""
        total = self.config.vocab_size - len(self.config.special_tokens or ())
        with learning_bars(self.progress, "Merging", total, from_first=True) as observer:
            return train_from_counts(counts, self.config, observer=observer)

    def train(
        self,
        *,
        files: Files | None = None,
        iterator: Iterable[str] | None = None,
        text: str | None = None,
        text_field: str = "text",
    ) -> SGPETokenizerFast:
        """Count the words of a corpus, and train a tokenizer for transformers on them. The arguments are those of `count`.
        If transformers is not installed, call `count` and `learn` instead.
        """
        from hf_sgpe.tokenization_sgpe import SGPETokenizerFast

        counts = self.count(files=files, iterator=iterator, text=text, text_field=text_field)
        tokenizer = self.learn(counts)
        return SGPETokenizerFast.from_bpe(tokenizer)


def train_bpe(
    path: str | os.PathLike[str], vocab_size: int, special_tokens: Sequence[str] = ()
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Train byte-level BPE on one whole text file, with GPT-2's split pattern. Of several equally frequent pairs, the pair
    with the greatest byte strings is merged first.

    Special tokens can be any strings. No merge crosses a special token. The 256 bytes have the first ids, followed by the
    special tokens, and then by the tokens that the merges add.

    Returns:
        The vocabulary (a dict from ids to bytes, including special tokens) and the merges in order.

    Source: the BPE algorithm document, parts 1.1 to 1.4.
    """
    special_tokens = checked_list("special_tokens", special_tokens)
    check_special_texts(special_tokens)
    # A special token cannot be spelled like an ordinary token, so placeholders replace special tokens in training. The text
    # is cut at the special tokens, so it does not contain the placeholders.
    stand_ins = tuple(f"‹{number}›{token}" for number, token in enumerate(special_tokens))
    config = TrainingConfig(
        vocab_size=vocab_size,
        recipe="bpe",
        pattern="gpt2",
        min_frequency=1,
        tie_break="greatest-pair-bytes",
        special_tokens=stand_ins,
        special_tokens_position="after-bytes",
    )
    parts = map(any_of(frozenset(special_tokens)).split, read_text_file(Path(path), special_tokens=special_tokens))
    tokenizer = train_from_counts(WordCounts.from_texts(chain.from_iterable(parts), config), config)
    vocab = {id: token for token, id in tokenizer.vocab.items()}
    vocab |= {tokenizer.special_tokens[name]: token.encode() for name, token in zip(stand_ins, special_tokens, strict=True)}
    return dict(sorted(vocab.items())), list(tokenizer.merges)
