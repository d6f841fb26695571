"""Texts of datasets on the Hub or in a folder. The ``datasets`` library downloads or streams them."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.text_files import no_such
from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.files import hub
from hf_sgpe.terminal.progress import hidden_bars

_BATCH_ROWS = 1000


class DatasetTexts:
    """The texts of one column of a dataset, from `read_dataset`. Every iteration starts at the first text. If the connection
    fails, reading is retried and continues after the last text that was read.

    Attributes:
        name: The name given to `read_dataset`.
        split: The split, or the part of a split.
    """

    def __init__(self, dataset: Any, column: str, name: str, split: str) -> None:
        self.name, self.split = name, split
        self._dataset = dataset
        self._column = column
        self._where = f"dataset {name}"

    def __str__(self) -> str:
        return self.name

    def part(self, number: int, parts: int) -> DatasetTexts:
        """Divide this dataset into ``parts`` parts, and return the one with the index ``number``. A streamed dataset is
        divided by files, so some parts may be empty.
        """
        # A streamed dataset cannot have more parts than files.
        parts = min(parts, getattr(self._dataset, "num_shards", parts))
        shard = self._dataset.shard(parts, number, contiguous=True) if number < parts else None
        return DatasetTexts(shard, self._column, self.name, self.split)

    def __length_hint__(self) -> int:
        if hasattr(self._dataset, "__len__"):
            return len(self._dataset)
        # The number of rows of a streamed dataset is known only if the metadata includes it.
        split = (self._dataset.info.splits or {}).get(str(self._dataset.split))
        return (split.num_examples or 0) if split else 0

    def __iter__(self) -> Iterator[str]:
        dataset = copy.copy(self._dataset)  # the state of the dataset is the reading position
        patience = hub.Patience()
        with _one_line_errors(self._where):
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
            raise SGPEError(f"{self._where}: {no_such('column', self._column, batch)}")
        for text in batch[self._column]:
            if text is None:
                continue
            if not isinstance(text, str):
                raise SGPEError(f"{self._where}: column {self._column!r} must contain strings, not {type(text).__name__}")
            yield text


def read_dataset(
    name: str | os.PathLike[str],
    *,
    split: str = "train",
    text_column: str = "text",
    streaming: bool = False,
    revision: str | None = None,
) -> DatasetTexts:
    """Open a dataset on the Hub or in a folder, and return its texts.

    Args:
        name: A dataset on the Hub, or a local folder. A folder has Parquet, JSON Lines, CSV or text files, or was written by
            ``save_to_disk``. To choose one of several configurations on the Hub, append a colon and the name of the
            configuration.
        split: A split, or a part of a split, such as ``train[:10%]``.
        text_column: The column with the text. Rows in which it is null are skipped.
        streaming: Whether to read while downloading, without a copy in the cache. By default, the dataset is downloaded
            first.
        revision: Branch, tag or commit of a dataset on the Hub; None for the main branch.

    Some errors, such as a failed connection, are raised only when the texts are read.

    Example, with a dataset on the Hub::

        trainer.count(iterator=read_dataset("wikimedia/wikipedia:20231101.si", streaming=True))
    """
    datasets = optional("datasets", "reading datasets needs the package datasets", extra="datasets")
    where = f"dataset {os.fspath(name)}"
    path = Path(name)
    if path.is_file():
        raise SGPEError(f"{path} is a file, not a dataset: give the folder that contains it, or give it as a corpus file")
    if not os.fspath(name):
        raise SGPEError("the name of a dataset must not be empty: give a dataset on the Hub, or a folder")
    # A folder needs its full path, because the library has builders with the names text, json and csv.
    dataset_name, _, config = (os.path.abspath(name), "", "") if path.exists() else os.fspath(name).partition(":")  # noqa: PTH100
    are_shown = not datasets.are_progress_bars_disabled()
    bars = hidden_bars(are_shown, datasets.disable_progress_bars, datasets.enable_progress_bars)
    with _one_line_errors(where), bars:
        if (path / "dataset_info.json").exists() or (path / "dataset_dict.json").exists():
            dataset = datasets.load_from_disk(os.fspath(name))
            if isinstance(dataset, dict):  # it was saved with its splits
                if split not in dataset:
                    raise SGPEError(f"{where} has no split {split!r}: choose from {', '.join(dataset)}")
                dataset = dataset[split]
        else:
            dataset = datasets.load_dataset(
                dataset_name, config or None, split=split, streaming=streaming, revision=revision
            )
        if dataset.column_names is not None:  # the columns of some streams are known only after reading
            if text_column not in dataset.column_names:
                raise SGPEError(f"{where}: {no_such('column', text_column, dataset.column_names)}")
            dataset = dataset.select_columns([text_column])
    return DatasetTexts(dataset, text_column, os.fspath(name), split)


def commit_of(name: str) -> str | None:
    """Return the latest commit of a dataset on the Hub, or None for a local dataset."""
    if Path(name).exists():
        return None
    from huggingface_hub import HfApi

    with hub.hub_errors(f"dataset {name}:"):
        return HfApi().dataset_info(name.partition(":")[0]).sha


@contextmanager
def _one_line_errors(where: str) -> Iterator[None]:
    """Convert library errors of the ``with`` block into a one-line `SGPEError` that begins with ``where``."""
    try:
        yield
    except (SGPEError, KeyboardInterrupt, GeneratorExit):
        raise
    except Exception as error:
        cause = error.__cause__ or error  # the library wraps errors that happen while it builds a split
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        if isinstance(cause, StopIteration):
            lines = ["it has no rows"]
        if "client has been closed" in lines[0]:  # the library closes its connection after a failure, and tries again
            lines = ["the connection to the Hub failed"]
        # The second line of this error lists the configurations.
        message = " ".join(lines[: 2 if lines[0].startswith("Config name is missing") else 1])
        raise SGPEError(f"{where}: {message}") from error
