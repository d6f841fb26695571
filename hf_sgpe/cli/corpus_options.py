"""The corpus that ``count``, ``train`` and ``extend`` read, and how its text is cut into words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sgpe.cli.application import named_numbers
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS
from hf_sgpe.splitting.splitting import RECIPES
from hf_sgpe.terminal.options import arguments, option, option_list

if TYPE_CHECKING:
    from trainers import Corpus

CORPUS_HELP = "Files, folders or globs: .txt, .jsonl, .parquet, plain or .gz .xz .zst .bz2."
RECIPES_HELP = "; ".join(f"{name}: {recipe.meaning}" for name, recipe in RECIPES.items())
PATTERN_HELP = f"Split pattern for everything else: {', '.join(SPLIT_PATTERNS)}, or a regex"

script_option = partial(
    option_list,
    "Scripts whose syllables stay whole, such as sinhala,tamil, or all that hf-sgpe info lists; by the characters that a "
    "reader sees, any other that Unicode names, such as ethiopic, hebrew, arabic or hangul, and emoji; or languages such as "
    "si,hi (repeatable; default: auto, those of at least 1 % of the text).",
)
runs_in_option = partial(
    option_list,
    "Runtimes that must give the same ids, whatever that costs: llama.cpp, tiktoken, tokenizers-1.0, gigatoken and others "
    "(repeatable, or with commas between).",
)


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """Text in files and datasets."""

    corpus: list[str] = arguments(CORPUS_HELP)
    text_field: str = option(
        "Field or column with the text in .jsonl, .parquet and the dataset.", "text", "--text-field", "--text-column"
    )
    dataset: list[str] = option_list(
        "Dataset on the Hub or in a folder, besides any corpus: NAME or NAME:CONFIG (repeatable)."
    )
    split: str | None = option("Split of the dataset (default: train).")
    streaming: bool = option("Read the dataset while it is downloaded, and keep no copy.", False)
    workers: int | None = option("Threads that count words; processes without native kernels (default: one a core).")

    def read(self, counts: Iterable[Path] = (), weight: Iterable[str] = ()) -> Corpus:
        """Return the corpus.

        Args:
            counts: Files of words that were counted before, which are part of it.
            weight: How much files count, as ``--weight`` has it.

        Raises:
            SGPEError: options for a dataset come without one, weights without files, or as `find_files` and `read_dataset`.
        """
        from trainers import Corpus, find_files, read_dataset

        for name, is_given in {"--streaming": self.streaming, "--split": self.split is not None}.items():
            if is_given and not self.dataset:
                raise SGPEError(f"{name} is for a dataset: name one by --dataset")
        counts, split, field = tuple(counts), self.split or "train", self.text_field
        if weight and not self.corpus and not counts:
            raise SGPEError("--weight is for files: a dataset counts once")
        weights = named_numbers(weight, "--weight", "NAME-OR-GLOB=NUMBER, for example 'si*=2.5'", float)
        datasets = (read_dataset(name, split=split, text_column=field, streaming=self.streaming) for name in self.dataset)
        return Corpus(tuple(find_files(self.corpus)), tuple(datasets), counts, weights, field)
