"""Extension of existing tokenizers. `TokenizerExtender` learns new tokens from a corpus, and shows progress bars."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from hf_sgpe.corpora.corpus import Corpus, Files
from hf_sgpe.corpora.measured_text import normalized, words_of
from hf_sgpe.counts.count_files import read_info
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.files.hub import public_name
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.extending import Extension, extend_tokenizer
from hf_sgpe.learning.extension.extension_config import AUTO, ExtensionConfig
from hf_sgpe.learning.extension.piece_extending import PieceExtension
from hf_sgpe.learning.extension.script_words import number_of_tokens
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.tokenizer import BPETokenizer
from trainers.counting.parallel_counting import count_corpus
from trainers.tokenizers.learning_progress import learning_bars

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from hf_sgpe.tokenization_sgpe import SGPETokenizerFast

Base = str | os.PathLike[str] | TokenizerFolder
"""A folder, a ``tokenizer.json``, a repository on the Hub, or the result of `TokenizerFolder.read` for one of these."""


class TokenizerExtender:
    """An extender that adds tokens for the words of new scripts to an existing tokenizer. The ids of text in other scripts
    do not change.

    Args:
        workers: As in `TokenizerTrainer`.
        progress: As in `TokenizerTrainer`.

    Example, with a tokenizer and a corpus on disk::

        config = ExtensionConfig(scripts=["sinhala"], new_tokens=16_000)
        tokenizer = TokenizerExtender(config).extend("Llama-3.2-1B", files="si.txt.xz")
        tokenizer.save_pretrained("llama-si")
    """

    def __init__(self, config: ExtensionConfig, *, workers: int | None = None, progress: bool | None = None) -> None:
        self.config = config
        self.workers = workers
        self.progress = progress

    def count(
        self,
        base: Base,
        *,
        files: Files | None = None,
        iterator: Iterable[str] | None = None,
        text: str | None = None,
        counts: Iterable[str | os.PathLike[str]] = (),
        text_field: str = "text",
    ) -> WordCounts:
        """Count the words into which the extended tokenizer splits a corpus. The arguments are those of
        `TokenizerTrainer.count`. If there are files of counts, the words of the new scripts must have been split as the
        extended tokenizer splits them.
        """
        weights = self.config.weights
        corpus = Corpus.of(files, iterator=iterator, text=text, counts=counts, weights=weights, text_field=text_field)
        splitting = self.config.counting_splitting(_folder(base).data)
        if corpus.counts and not corpus.files:
            # Counts with another split can be valid. Only words of the scripts must be split alike, and `learn` checks this.
            splitting = read_info(corpus.counts[0]).splitting
        return count_corpus(corpus, splitting, workers=self.workers, progress=self.progress)

    def learn(self, base: Base, counts: WordCounts) -> Extension:
        """Extend a tokenizer with tokens that are learned from counted words. No files are written."""
        total = None if self.config.new_tokens == AUTO else int(self.config.new_tokens)
        with learning_bars(self.progress, "Learning", total) as observer:
            return extend_tokenizer(_folder(base), counts, self.config, observer=observer)

    def extend(self, base: Base | BPETokenizer | PreTrainedTokenizerFast, **corpus: Any) -> SGPETokenizerFast:
        """Count the words of a corpus, and return a tokenizer with additional tokens for these words. The arguments are
        those of `count`, but the base may also be a `BPETokenizer` or a tokenizer from transformers.
        """
        from hf_sgpe.tokenization_sgpe import SGPETokenizerFast

        folder = _folder(base)
        counts = self.count(folder, **corpus)
        extension = self.learn(folder, counts)
        extended = extended_folder(folder, extension)
        with TemporaryDirectory() as directory:
            extended.write(Path(directory))
            tokenizer: SGPETokenizerFast = SGPETokenizerFast.from_pretrained(directory)
        tokenizer.name_or_path = folder.name
        return tokenizer


class Cost(NamedTuple):
    """The average number of tokens for a unit of text in some scripts, before and after the extension of a tokenizer.

    Attributes:
        unit: ``word`` (between white space), ``character`` (for scripts without spaces between words), or ``piece`` (a
            substring that the split does not cut; this unit is used if there are only word counts and no text).
        unknown: The share of the words that contain unknown text, before and after. None if all text has tokens.
    """

    unit: str
    before: float
    after: float
    unknown: tuple[float, float] | None = None


def cost_of(extension: Extension | PieceExtension, scripts: Iterable[str], texts: Iterable[str]) -> Cost:
    """Return how many tokens a word with a letter of the scripts has on average, before and after the extension. The two
    numbers are comparable even if the two tokenizers split text differently. Without texts, count the tokens of the pieces
    from which the extension learned.
    """
    tables = [resolve_script(name) for name in scripts]
    letters = frozenset().union(*(table.letters_and_marks() for table in tables))
    words = Counter(word for text in texts for word in words_of(normalized(text)) if not letters.isdisjoint(word))
    if not words:
        return Cost("piece", *extension.tokens_per_piece)
    spaced = all(table.spaced for table in tables)
    units = sum(times * (1 if spaced else len(word)) for word, times in words.items())
    running, times = [f" {word}" for word in words], list(words.values())
    unit = "word" if spaced else "character"
    before, after = (number_of_tokens(one, running, times) / units for one in (extension.base, extension.tokenizer))
    if isinstance(extension, Extension):
        return Cost(unit, before, after)
    encoded = (one.encode_batch(running) for one in (extension.base, extension.tokenizer))
    unknown, total = extension.base.unknown, sum(times)
    old, new = (sum(n for ids, n in zip(rows, times, strict=True) if unknown in ids) / total for rows in encoded)
    return Cost(unit, before, after, (old, new))


def extended_folder(folder: TokenizerFolder, extension: Extension) -> TokenizerFolder:
    """Return the files of an extended tokenizer. The others are those of the base, which the metadata names."""
    data = extension.tokenizer
    *before, note = data.metadata["extensions"]
    extensions = [*before, {"base": public_name(folder.name, of_folder=True), **note}]
    return folder.with_vocabulary_of(replace(data, metadata={**data.metadata, "extensions": extensions}))


def _folder(base: Base | BPETokenizer | PreTrainedTokenizerFast) -> TokenizerFolder:
    if isinstance(base, TokenizerFolder):
        return base
    if isinstance(base, BPETokenizer):
        return TokenizerFolder.of(base.data)
    if isinstance(base, (str, os.PathLike)):
        return TokenizerFolder.read(base)
    # transformers converts its tokenizers to files, but only on disk.
    with TemporaryDirectory() as directory:
        base.save_pretrained(directory)
        return replace(TokenizerFolder.read(directory), name=str(base.name_or_path))
