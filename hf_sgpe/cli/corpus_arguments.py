"""The corpus that the arguments of ``count``, ``train`` and ``extend`` name."""

from __future__ import annotations

from pathlib import Path

from hf_sgpe.cli.application import named_numbers
from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.hub_datasets import read_dataset
from hf_sgpe.corpora.text_files import find_files
from hf_sgpe.errors import SGPEError


def corpus_of(
    files: list[str] | None,
    dataset: list[str] | None,
    split: str | None,
    streaming: bool,
    text_field: str,
    *,
    counts: list[Path] | None = None,
    weight: list[str] | None = None,
) -> Corpus:
    """Return the corpus that the arguments of a command name.

    Raises:
        SGPEError: options for a dataset come without one, weights without files, or as `find_files` and `read_dataset`.
    """
    for option, is_given in {"--streaming": streaming, "--split": split is not None}.items():
        if is_given and not dataset:
            raise SGPEError(f"{option} is for a dataset: name one by --dataset")
    if weight and not files and not counts:
        raise SGPEError("--weight is for files: a dataset counts once")
    weights = named_numbers(weight or [], "--weight", "NAME-OR-GLOB=NUMBER, for example 'si*=2.5'", float)
    datasets = (
        read_dataset(name, split=split or "train", text_column=text_field, streaming=streaming) for name in dataset or ()
    )
    return Corpus(tuple(find_files(files or ())), tuple(datasets), tuple(counts or ()), weights, text_field)
