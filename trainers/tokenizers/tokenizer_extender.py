"""TokenizerExtender: from a tokenizer that exists and a corpus to one with more tokens, with progress."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hf_sgpe.corpora.corpus import Corpus, Files
from hf_sgpe.corpora.measured_text import normalized, words_of
from hf_sgpe.counts.count_files import read_info
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.formats.tokenizer_json import check_folder
from hf_sgpe.learning.extension.extending import Extension, extend_from_counts, free_ids_of
from hf_sgpe.learning.extension.extension_config import AUTO, ExtensionConfig
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.tokenizer import BPETokenizer
from trainers.counting.parallel_counting import count_corpus
from trainers.tokenizers.learning_progress import learning_bars

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from hf_sgpe.tokenization_sgpe import SGPETokenizerFast

Base = str | os.PathLike[str] | TokenizerFolder
"""A folder, a ``tokenizer.json``, a repository on the Hub, or what `TokenizerFolder.read` gave for one."""


class TokenizerExtender:
    """Gives tokenizers that exist the words of some scripts; text of other scripts keeps its ids.

    Args:
        config: What to add.
        workers: How many threads count words (without the native kernels: processes); None for one a core where that pays.
        progress: Show progress on stderr; None for only on a terminal.

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
        """Count the words of a corpus as the extended tokenizer will cut them; arguments as for `TokenizerTrainer.count`.

        Args:
            counts: Files of words counted before, of which the words of the scripts must be cut alike; others do not matter.

        Raises:
            SGPEError: not exactly one kind of text is given, a file cannot be read, counts were made with another
                configuration, or the configuration weights files that are not there.
        """
        weights = self.config.weights
        corpus = Corpus.of(files, iterator=iterator, text=text, counts=counts, weights=weights, text_field=text_field)
        splitting = self.config.splitting_for(_folder(base).data)
        if corpus.counts and not corpus.files:
            # Counts of another recipe for other text can do: the words of the scripts decide, which learning looks at.
            splitting = read_info(corpus.counts[0]).splitting
        return count_corpus(corpus, splitting, workers=self.workers, progress=self.progress)

    def learn(self, base: Base, counts: WordCounts) -> Extension:
        """Extend a tokenizer by what counted words teach, and write nothing.

        Raises:
            SGPEError: as `extend_from_counts`; or ids are to be reused and no model lies beside the tokenizer.
        """
        folder = _folder(base)
        free: list[int] = []
        if self.config.reuse_ids:
            if folder.rows is None:
                raise SGPEError(f"{folder.name}: there is no config.json beside it that says how many rows the model has")
            free = free_ids_of(folder.data, folder.rows)
        total = None if self.config.new_tokens == AUTO else int(self.config.new_tokens)
        with learning_bars(self.progress, "Learning", total) as observer:
            return extend_from_counts(folder.data, counts, self.config, free_ids=free, observer=observer)

    def extend(self, base: Base | PreTrainedTokenizerFast, **corpus: Any) -> SGPETokenizerFast:
        """Count a corpus (arguments as for `count`) and extend a tokenizer by it.

        Args:
            base: Also a tokenizer of transformers.

        Raises:
            SGPEError: as `count` and `learn`.
        """
        from hf_sgpe.tokenization_sgpe import SGPETokenizerFast

        if not isinstance(base, (str, os.PathLike, TokenizerFolder)):
            with TemporaryDirectory() as directory:
                base.save_pretrained(directory)
                base = replace(TokenizerFolder.read(directory), name=str(base.name_or_path))
        folder = _folder(base)
        extended = extended_folder(folder, self.learn(folder, self.count(folder, **corpus)))
        with TemporaryDirectory() as directory:
            extended.write(Path(directory))
            tokenizer: SGPETokenizerFast = SGPETokenizerFast.from_pretrained(directory)
        tokenizer.name_or_path = folder.name
        return tokenizer


class Cost(NamedTuple):
    """How many tokens text in some scripts has, by a tokenizer as it was and as it is.

    Attributes:
        unit: What tokens are counted by: ``word`` is what white space parts, ``character`` one of its characters, where
            words have no spaces between them, and ``piece`` what the split left whole where no text is at hand, but counts.
        before: Tokens per unit by the tokenizer as it was.
        after: The same by the extended one.
    """

    unit: str
    before: float
    after: float


def cost_of(extension: Extension, scripts: Iterable[str], texts: Iterable[str]) -> Cost:
    """Return the tokens per word of a text in some scripts, whatever the splits of the two tokenizers are.

    Args:
        scripts: Names. A word counts if it has a letter of one of them. If one of them is written without spaces between
            words, tokens are counted per character.
        texts: Running text; without any, the cost is that of the pieces that the extension learned from.
    """
    tables = [resolve_script(name) for name in scripts]
    letters = frozenset().union(*(table.letters_and_marks() for table in tables))
    words = Counter(word for text in texts for word in words_of(normalized(text)) if not letters.isdisjoint(word))
    if not words:
        return Cost("piece", *extension.tokens_per_piece)
    spaced = all(table.spaced for table in tables)
    units = sum(times * (1 if spaced else len(word)) for word, times in words.items())
    running = [f" {word}" for word in words]
    before, after = (
        float(np.dot(np.diff(BPETokenizer.of(data).encode_batch_to_numpy(running)[1], prepend=0), [*words.values()])) / units
        for data in (extension.base, extension.tokenizer)
    )
    return Cost("word" if spaced else "character", before, after)


def extended_folder(folder: TokenizerFolder, extension: Extension) -> TokenizerFolder:
    """Return all files of a tokenizer that was extended; its metadata say which one it was."""
    data = extension.tokenizer
    *before, note = data.metadata["extensions"]
    extensions = [*before, {"base": _public_name(folder.name), **note}]
    return folder.with_vocabulary_of(replace(data, metadata={**data.metadata, "extensions": extensions}))


def save_extended(folder: TokenizerFolder, extension: Extension, out: str | os.PathLike[str]) -> None:
    """Write the extended tokenizer with all files of the old one, all or none.

    Raises:
        SGPEError: files of another tokenizer lie there.
        OSError: the folder cannot be written.
    """
    check_folder(out, with_chat_template=folder.data.chat_template is not None)
    with atomic_directory(out) as temporary:
        extended_folder(folder, extension).write(temporary)


def _public_name(name: str) -> str:
    """Return the name of a tokenizer for its public metadata: of a path, the last folder."""
    path = Path(name)
    if not path.exists():
        return name
    return (path.resolve().parent if path.is_file() else path.resolve()).name


def _folder(base: Base) -> TokenizerFolder:
    return base if isinstance(base, TokenizerFolder) else TokenizerFolder.read(base)
