"""Corpora from the ``datasets`` library: a dataset on the Hub or in a folder, whole or streamed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError

_BATCH_ROWS = 1000


class DatasetTexts:
    """The texts of one column of a dataset, read anew whenever it is iterated over; made by `read_dataset`."""

    def __init__(self, dataset: Any, column: str, where: str) -> None:
        self._dataset = dataset
        self._column = column
        self._where = where

    def __length_hint__(self) -> int:
        # A streamed dataset does not know how long it is.
        return len(self._dataset) if hasattr(self._dataset, "__len__") else 0

    def __iter__(self) -> Iterator[str]:
        with _one_line(self._where):
            for batch in self._dataset.iter(batch_size=_BATCH_ROWS):
                if self._column not in batch:
                    raise _no_column(self._where, self._column, batch)
                for text in batch[self._column]:
                    if text is None:
                        continue
                    if not isinstance(text, str):
                        kind = type(text).__name__
                        raise SGPEError(f"{self._where}: column {self._column!r} holds no text but {kind}")
                    yield text


def read_dataset(
    name: str | os.PathLike[str],
    *,
    split: str = "train",
    text_column: str = "text",
    streaming: bool = False,
) -> DatasetTexts:
    """Opens a dataset for its texts.

    Args:
        name: On the Hub, or a local folder: of Parquet, JSON Lines, CSV or text files, or one that ``save_to_disk`` wrote.
            Of several configurations of a dataset on the Hub it names one after a colon.
        split: Also a part of one: ``train[:10%]``.
        text_column: The column with the text; rows without one are passed over.
        streaming: Read while downloading, without a copy in the cache. Otherwise it is downloaded first, and kept.

    Raises:
        SGPEError: ``datasets`` is not installed; there is no such dataset, configuration, split or column; it is damaged,
            or the Hub cannot be reached. Some of it shows only when the texts are read.

    Example, with a dataset on the Hub::

        trainer.count(iterator=read_dataset("wikimedia/wikipedia:20231101.si", streaming=True))
    """
    try:
        import datasets
    except ImportError:
        raise SGPEError("reading datasets needs the package of that name: pip install datasets") from None
    where = f"dataset {os.fspath(name)}"
    path = Path(name)
    if path.is_file():
        raise SGPEError(f"{path}: is a file, not a dataset: give it as corpus, or name its folder")
    dataset_name, _, config = (os.fspath(name), "", "") if path.exists() else os.fspath(name).partition(":")
    with _one_line(where), _quiet_unless_on_a_terminal(datasets):
        if (path / "dataset_info.json").exists() or (path / "dataset_dict.json").exists():
            dataset = _saved(datasets.load_from_disk(os.fspath(name)), split, where)
        else:
            dataset = datasets.load_dataset(dataset_name, config or None, split=split, streaming=streaming)
        if dataset.column_names is None:  # a stream that has to be read to know
            return DatasetTexts(dataset, text_column, where)
        if text_column not in dataset.column_names:
            raise _no_column(where, text_column, dataset.column_names)
        return DatasetTexts(dataset.select_columns([text_column]), text_column, where)


def _saved(dataset: Any, split: str, where: str) -> Any:
    """The split of what ``save_to_disk`` wrote: one dataset, which has no splits, or a dictionary of them."""
    if not isinstance(dataset, dict):
        return dataset
    if split not in dataset:
        raise SGPEError(f"{where}: no split {split!r}: it has {', '.join(dataset)}")
    return dataset[split]


def _no_column(where: str, column: str, columns: Any) -> SGPEError:
    return SGPEError(f"{where}: no column {column!r} (it has {', '.join(map(repr, columns))}): name the one with the text")


@contextmanager
def _one_line(where: str) -> Iterator[None]:
    """What the library, and whatever it reads with, can raise becomes one line that names the dataset."""
    try:
        yield
    except (SGPEError, KeyboardInterrupt, GeneratorExit):
        raise
    except Exception as error:
        cause = error.__cause__ or error  # the library wraps what it met while making a split
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        raise SGPEError(f"{where}: {lines[0]}") from error


@contextmanager
def _quiet_unless_on_a_terminal(datasets: Any) -> Iterator[None]:
    if sys.stderr.isatty() or datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
