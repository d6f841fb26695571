"""Training examples (rows of token ids) from text files, datasets, and folders that ``hf-sgpe tokenize`` wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy

from hf_sgpe.corpora.measured_text import normalized
from hf_sgpe.corpora.text_files import CorpusFile, Text, beginning_of, find_files, read_model_texts
from hf_sgpe.corpora.validation_part import is_for_validation
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.finetuning_options import TextOptions
from hf_sgpe.tokenizer import BPETokenizer
from trainers.language_models.causal_objective import CausalObjective
from trainers.language_models.language_model import text_start
from trainers.language_models.objectives import Objective
from trainers.language_models.training_runs import digest_of
from trainers.token_files.token_folders import TokenFolder, TokenRows, split_corpus

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Maximum number of characters of validation text.
_MOST_VALIDATION = 1 << 20


@dataclass(frozen=True)
class TrainingRows:
    """Rows of ids to train on, as a dataset for transformers' ``Trainer``.

    Attributes:
        texts: Number of texts in the rows, not counting texts from ``--keep``.
        validation: The texts of the validation part in NFC, at most about a million characters.
        digest: A hash of the rows or, for folders of tokens, of the folders' manifests.
        kept: Number of rows from ``--keep``. They are the last rows.
    """

    rows: Any
    texts: int
    validation: list[str]
    digest: str
    kept: int = 0


def check_corpus(options: TextOptions) -> None:
    """Check that all files of the corpus and of ``--keep`` exist."""
    for names in (options.corpus, options.keep):
        find_files(split_corpus(names)[1])


def read_rows(
    options: TextOptions,
    tokenizer: PreTrainedTokenizerBase,
    where: str,
    *,
    most: int | None = None,
    objective: Objective | None = None,
) -> TrainingRows:
    """Return the rows of the corpus or dataset, and then those of ``--keep``. In both groups, rows from folders of tokens,
    which stay on disk except in the format ``parquet``, precede rows from text.

    Args:
        where: Folder or repository of the tokenizer. Each folder of tokens must have been written with this tokenizer.
        most: Maximum number of rows to read from text; None for all.
        objective: The objective that makes the rows from text; None for the objective of causal models. Folders of tokens
            are for causal models only.
    """
    from torch.utils.data import ConcatDataset, Subset

    objective = objective or CausalObjective()
    text = _rows_of(options, tokenizer, where, most, objective)
    if not options.keep:
        return text
    share = options.share_to_keep()
    count = max(1, round(len(text.rows) * share / (1 - share)))
    others = replace(options, corpus=options.keep, dataset=None, validation_share=None)
    kept = _rows_of(others, tokenizer, where, count, objective)
    few = kept.rows if len(kept.rows) <= count else Subset(kept.rows, range(count))
    digest = digest_of([text.digest, kept.digest, count])
    return TrainingRows(ConcatDataset([text.rows, few]), text.texts, text.validation, digest, kept=len(few))


def _rows_of(
    options: TextOptions, tokenizer: PreTrainedTokenizerBase, where: str, most: int | None, objective: Objective
) -> TrainingRows:
    folders, names = split_corpus(options.corpus)
    parts: list[TrainingRows] = []
    if folders:
        if not isinstance(objective, CausalObjective):
            raise SGPEError(f"{folders[0].path} has tokens for a causal model: give text for a model of this kind")
        if options.validation_share is not None:
            raise SGPEError(
                f"--validation-share is for text, but {folders[0].path} has tokens: use --validation-share of hf-sgpe "
                "tokenize"
            )
        parts.append(_rows_of_tokens(folders, BPETokenizer.from_pretrained(where), text_start(tokenizer)[0], options.length))
    if names or options.dataset:
        parts.append(_rows_of_texts(options, find_files(names), tokenizer, most, objective))
    if len(parts) == 1:
        return parts[0]
    from torch.utils.data import ConcatDataset

    rows: Any = ConcatDataset([part.rows for part in parts])
    validation = [text for part in parts for text in part.validation]
    digest = digest_of(part.digest for part in parts)
    return TrainingRows(rows, sum(part.texts for part in parts), validation, digest)


def _rows_of_tokens(folders: Sequence[TokenFolder], tokenizer: BPETokenizer, separator: int, length: int) -> TrainingRows:
    for folder in folders:
        folder.check_tokenizer(tokenizer)
    rows: Any = TokenRows(chain.from_iterable(folder.pieces(separator) for folder in folders), length)
    if not len(rows):
        raise _too_short(folders[0].path, length)
    validation = [folder.validation for folder in folders if folder.validation]
    texts = beginning_of(chain.from_iterable(folder.texts(tokenizer) for folder in validation), _MOST_VALIDATION)
    made_of = ((folder.settings, [vars(shard) for shard in folder.shards], length) for folder in folders)
    return TrainingRows(rows, sum(folder.documents for folder in folders), list(map(normalized, texts)), digest_of(made_of))


def _rows_of_texts(
    options: TextOptions,
    files: Sequence[CorpusFile],
    tokenizer: PreTrainedTokenizerBase,
    most: int | None,
    objective: Objective,
) -> TrainingRows:
    texts: Iterable[Text] = read_model_texts(
        files, text_field=options.text_field, special_tokens=tokenizer.all_special_tokens, lines=options.lines
    )
    where = ", ".join(map(str, files))
    if not files and options.dataset:
        from hf_sgpe.corpora.hub_datasets import read_dataset

        where = f"dataset {options.dataset}"
        texts = read_dataset(
            options.dataset, split=options.split or "train", text_column=options.text_field, streaming=options.streaming
        )
    validation: list[str] = []
    count = size = 0

    def for_training() -> Iterator[Text]:
        nonlocal count, size
        for text in texts:
            if options.validation_share is not None:
                text = text if isinstance(text, str) else "".join(text)  # the hash is of the whole text
                if is_for_validation(text, options.validation_share):
                    if size < _MOST_VALIDATION:
                        validation.append(normalized(text))
                        size += len(text)
                    continue
            count += 1
            yield text

    rows: Any = list(islice(objective.examples(for_training(), tokenizer, options.length), most))
    if options.validation_share is not None and not validation:
        raise SGPEError(f"{where}: there are too few texts for a validation part: add text, or use --lines")
    if not len(rows):
        raise _too_short(where, options.length)
    digest = digest_of(rows)
    if isinstance(rows[0], list):
        rows = numpy.array(rows, numpy.int32)
    return TrainingRows(rows, count, validation, digest)


def _too_short(where: object, length: int) -> SGPEError:
    return SGPEError(f"{where}: too little text for a row of {length} tokens: add text, or use a smaller --length")
