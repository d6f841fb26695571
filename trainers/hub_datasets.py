"""Corpora from the ``datasets`` library: a dataset on the Hub or in a folder, whole or streamed."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hf_sgpe import hub
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.quiet import somebody_watches

_BATCH_ROWS = 1000


class DatasetTexts:
    """The texts of one column of a dataset, read anew whenever it is iterated over; made by `read_dataset`.

    Where the connection fails, reading goes on from the same place.
    """

    def __init__(self, dataset: Any, column: str, where: str) -> None:
        self._dataset = dataset
        self._column = column
        self._where = where

    def part(self, number: int, parts: int) -> DatasetTexts:
        """One of several parts that together hold all texts; a part of a streamed dataset is some of its files, or none.

        Args:
            number: From 0.
        """
        # A streamed dataset has no more parts than files.
        parts = min(parts, getattr(self._dataset, "num_shards", parts))
        mine = self._dataset.shard(parts, number, contiguous=True) if number < parts else None
        return DatasetTexts(mine, self._column, self._where)

    def __length_hint__(self) -> int:
        if hasattr(self._dataset, "__len__"):
            return len(self._dataset)
        # The length of a streamed dataset is known only if the dataset says it.
        split = (self._dataset.info.splits or {}).get(str(self._dataset.split))
        return (split.num_examples or 0) if split else 0

    def __iter__(self) -> Iterator[str]:
        dataset = copy.copy(self._dataset)  # which knows where it is
        patience = hub.Patience()
        with _one_line(self._where):
            while dataset is not None:
                state = None
                try:
                    for batch in dataset.iter(batch_size=_BATCH_ROWS):
                        yield from self._texts(batch)
                        patience.renew()
                        state = dataset.state_dict() if hasattr(dataset, "state_dict") else None
                    return
                except Exception as error:
                    patience.wait_after(error)
                    if state is not None:
                        dataset.load_state_dict(state)

    def _texts(self, batch: Mapping[str, Any]) -> Iterator[str]:
        if self._column not in batch:
            raise _no_column(self._where, self._column, batch)
        for text in batch[self._column]:
            if text is None:
                continue
            if not isinstance(text, str):
                raise SGPEError(f"{self._where}: column {self._column!r} must be text, not {type(text).__name__}")
            yield text


def read_dataset(
    name: str | os.PathLike[str],
    *,
    split: str = "train",
    text_column: str = "text",
    streaming: bool = False,
    revision: str | None = None,
) -> DatasetTexts:
    """Opens a dataset for its texts.

    Args:
        name: On the Hub, or a local folder: of Parquet, JSON Lines, CSV or text files, or one that ``save_to_disk`` wrote.
            Of several configurations of a dataset on the Hub it names one after a colon.
        split: Also a part of one: ``train[:10%]``.
        text_column: The column with the text; rows without one are passed over.
        streaming: Read while downloading, without a copy in the cache. Otherwise it is downloaded first, and kept.
        revision: Branch, tag or commit of a dataset on the Hub; None for the main branch.

    Raises:
        SGPEError: ``datasets`` is not installed; there is no such dataset, configuration, split or column; it is damaged,
            or the Hub cannot be reached. Some of it shows only when the texts are read.

    Example, with a dataset on the Hub::

        trainer.count(iterator=read_dataset("wikimedia/wikipedia:20231101.si", streaming=True))
    """
    try:
        import datasets
    except ImportError:
        raise not_installed("reading datasets needs the package of that name", "datasets", extra="datasets") from None
    where = f"dataset {os.fspath(name)}"
    path = Path(name)
    if path.is_file():
        raise SGPEError(f"{path}: is a file, not a dataset: give it as corpus, or name its folder")
    if not os.fspath(name):
        raise SGPEError("a dataset must have a name: give one on the Hub, or a folder")
    # A folder by its whole path, since the library has builders of its own called text, json and csv.
    dataset_name, _, config = (os.path.abspath(name), "", "") if path.exists() else os.fspath(name).partition(":")  # noqa: PTH100
    with _one_line(where), _quiet_unless_on_a_terminal(datasets):
        if (path / "dataset_info.json").exists() or (path / "dataset_dict.json").exists():
            dataset = _saved(datasets.load_from_disk(os.fspath(name)), split, where)
        else:
            dataset = datasets.load_dataset(
                dataset_name, config or None, split=split, streaming=streaming, revision=revision
            )
        if dataset.column_names is None:  # a stream that has to be read to know
            return DatasetTexts(dataset, text_column, where)
        if text_column not in dataset.column_names:
            raise _no_column(where, text_column, dataset.column_names)
        return DatasetTexts(dataset.select_columns([text_column]), text_column, where)


def commit_of(name: str) -> str | None:
    """The commit that the main branch of a dataset on the Hub is at; None for a local one.

    Raises:
        SGPEError: there is no such dataset, or the Hub cannot be reached.
    """
    if Path(name).exists():
        return None
    from huggingface_hub import HfApi

    with hub.hub_errors(f"dataset {name}:"):
        return HfApi().dataset_info(name.partition(":")[0]).sha


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
    """A block in which errors of the library, and of those that it uses, become one line that names the dataset."""
    try:
        yield
    except (SGPEError, KeyboardInterrupt, GeneratorExit):
        raise
    except Exception as error:
        cause = error.__cause__ or error  # the library wraps what it met while making a split
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        if isinstance(cause, StopIteration):
            lines = ["it has no rows"]
        # The names of the configurations are in the second line.
        reason = " ".join(lines[: 2 if lines[0].startswith("Config name is missing") else 1])
        raise SGPEError(f"{where}: {reason}") from error


@contextmanager
def _quiet_unless_on_a_terminal(datasets: Any) -> Iterator[None]:
    if somebody_watches() or datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
