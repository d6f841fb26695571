"""Options of ``count``, ``train`` and ``extend``: the corpus, and how it is split into words."""

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

CORPUS_HELP = "Files, folders or globs of text: .txt, .jsonl or .parquet; .txt and .jsonl also with .gz, .xz, .zst or .bz2."
RECIPES_HELP = "; ".join(f"{name}: {recipe.meaning}" for name, recipe in RECIPES.items())
PATTERN_HELP = f"Split pattern of the pre-tokenizer: {', '.join(SPLIT_PATTERNS)}, or a regex"

WORKERS_HELP = "Number of threads that count words; without native kernels, number of processes (default: one per core)."

WEIGHT = {
    "help": "Weight of the words of a file: NAME-OR-GLOB=NUMBER, such as 'si*=2.5' (repeatable; the first match applies).",
    "names": ("--weight",),
    "type": list[str],
}
"""How the setting ``weights`` becomes an option."""

script_option = partial(
    option_list,
    "Scripts or languages whose syllables stay whole, such as sinhala,tamil or si,hi (repeatable; default: auto, "
    "the scripts with at least 1 % of the text). The value all selects every script that hf-sgpe info "
    "lists. In other "
    "Unicode scripts, such as ethiopic, arabic or hangul, and in emoji, grapheme clusters stay whole.",
)
runs_in_option = partial(
    option_list,
    "Runtimes that must produce the same ids, even if text needs more tokens as a result: llama.cpp, tiktoken, "
    "tokenizers-1.0, "
    "gigatoken and others (repeatable or comma-separated).",
)


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """The files and datasets that form a corpus, and how to read them."""

    corpus: list[str] = arguments(CORPUS_HELP)
    text_field: str = option(
        "Field (.jsonl) or column (.parquet, dataset) that contains the text.",
        "text",
        "--text-field",
        "--text-column",
    )
    dataset: list[str] = option_list(
        "Dataset on the Hub or in a folder, added to the files: NAME or NAME:CONFIG (repeatable)."
    )
    split: str | None = option("Split of the dataset to read (default: train).")
    streaming: bool = option("Read the dataset while it downloads, and keep no copy on disk.", False)
    workers: int | None = option(WORKERS_HELP)

    def read(self, counts: Iterable[Path] = (), weight: Iterable[str] = ()) -> Corpus:
        """Find the files, open the datasets, and return them with files of word counts as one corpus."""
        from trainers import Corpus, find_files, read_dataset

        for name, is_given in {"--streaming": self.streaming, "--split": self.split is not None}.items():
            if is_given and not self.dataset:
                raise SGPEError(f"{name} needs a dataset: name one with --dataset")
        counts, split, field = tuple(counts), self.split or "train", self.text_field
        if weight and not self.corpus and not counts:
            raise SGPEError(
                "--weight applies only to files, but no file is named: leave out --weight, or count the dataset into a "
                "file with hf-sgpe count"
            )
        weights = named_numbers(weight, "--weight", "NAME-OR-GLOB=NUMBER, for example 'si*=2.5'", float)
        datasets = (read_dataset(name, split=split, text_column=field, streaming=self.streaming) for name in self.dataset)
        return Corpus(tuple(find_files(self.corpus)), tuple(datasets), counts, weights, field)
