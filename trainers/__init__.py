"""Counting words in files or iterators, training tokenizers on the counts, and tokenizing files into ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.hub_datasets import read_dataset
from hf_sgpe.corpora.text_files import SAMPLE, CorpusFile, find_files, read_lines, read_texts, size_of, source_of
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.extension.extension_config import ExtensionConfig
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.package import lazily
from hf_sgpe.tokenizer import train_from_counts
from trainers.counting.counting_on_disk import add_files, count_to_file
from trainers.counting.parallel_counting import count_files, count_texts, read_files, read_iterator
from trainers.token_files.tokenizing import Tokenized, tokenize_corpus
from trainers.tokenizers.balancing import Balanced, train_balanced
from trainers.tokenizers.merge_steps import MergeStep, merge_steps
from trainers.tokenizers.recipes import RecipeChoice, choose_recipe
from trainers.tokenizers.sgpe_trainer import SGPETrainer
from trainers.tokenizers.tokenizer_extender import TokenizerExtender
from trainers.tokenizers.tokenizer_trainer import TokenizerTrainer, train_bpe

if TYPE_CHECKING:
    from trainers.language_models.language_progress import LanguageProgress as LanguageProgress
    from trainers.tokenizer_extension import Extended as Extended, extend as extend
    from trainers.tokenizer_trimming import Trimmed as Trimmed, trim as trim
    from trainers.training import Trained as Trained, train as train

__all__ = [
    "SAMPLE",
    "Balanced",
    "Corpus",
    "CorpusFile",
    "Extended",
    "ExtensionConfig",
    "MergeStep",
    "RecipeChoice",
    "SGPEError",
    "SGPETrainer",
    "Tokenized",
    "TokenizerExtender",
    "TokenizerTrainer",
    "Trained",
    "TrainingConfig",
    "Trimmed",
    "WordCounts",
    "add_files",
    "choose_recipe",
    "count_files",
    "count_texts",
    "count_to_file",
    "extend",
    "find_files",
    "merge_steps",
    "read_dataset",
    "read_files",
    "read_iterator",
    "read_lines",
    "read_texts",
    "size_of",
    "source_of",
    "tokenize_corpus",
    "train",
    "train_balanced",
    "train_bpe",
    "train_from_counts",
    "trim",
]

# `LanguageProgress` needs transformers. The others would make the import of this package slower.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "trainers.tokenizer_extension": "Extended extend",
        "trainers.tokenizer_trimming": "Trimmed trim",
        "trainers.language_models.language_progress": "LanguageProgress",
        "trainers.training": "Trained train",
    },
)
