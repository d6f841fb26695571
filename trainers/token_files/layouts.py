"""Formats of token files for training programs, each described by a `TokenFormat`.

A corpus is written as several shards. A shard is one file, or a few files whose names have the same stem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hf_sgpe.errors import SGPEError, not_installed

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The type of small ids in all layouts, and the number of ids that fit into it.
_NARROW = "uint16"
_MOST_NARROW = 1 << 16

# The limit on lengths of documents in Megatron's index, and on offsets in a row group of Parquet.
_MOST_IN_DOCUMENT = (1 << 31) - 1
_ROW_GROUP_TOKENS = 1 << 20


class FlatFile:
    """A writer of a file that contains only token ids, in little-endian order. Its subclasses add a second file as an index.

    It receives the tokens of one shard in blocks, and keeps only the lengths of the documents in memory.

    Args:
        stem: Path of the file without its extension.
        dtype: NumPy's name for the type of the ids, such as ``uint16``.

    Attributes:
        tokens: Number of tokens written so far.
        file: The open file.
    """

    ending = ".bin"

    def __init__(self, stem: Path, dtype: str) -> None:
        self.stem = stem
        self.dtype = dtype
        self.file = self.path(self.ending).open("wb")
        self.tokens = 0
        self._ends: list[NDArray[np.int64]] = []

    def path(self, ending: str) -> Path:
        """Return the path of the shard's file with the extension ``ending``."""
        return _with_ending(self.stem, ending)

    def write(self, tokens: NDArray[Any], ends: NDArray[np.int64]) -> None:
        """Write a block of tokens.

        Args:
            tokens: Ids, in the writer's ``dtype``.
            ends: The positions in this block at which documents end, in order, counted in tokens.
        """
        # NumPy's own writing to files does not report a full disk.
        self.file.write(np.ascontiguousarray(tokens, np.dtype(self.dtype).newbyteorder("<")).data)
        self._ends.append(ends + self.tokens)
        self.tokens += len(tokens)

    def finish(self) -> None:
        """Write what can be written only after all tokens, such as an index."""

    def close(self) -> None:
        """Close the file, even if it is not finished."""
        self.file.close()

    def _all_ends(self) -> NDArray[np.int64]:
        return np.concatenate([np.zeros(0, np.int64), *self._ends])


class _EndsFile(FlatFile):
    """A writer of datatrove's layout: the token ids, and a file with the positions at which documents end, counted in tokens
    (uint64).
    """

    ending = ".ds"

    def finish(self) -> None:
        self.path(".ds.index").write_bytes(self._all_ends().astype("<u8").data)


class _IndexedFile(FlatFile):
    """A writer of Megatron-LM's layout, ``IndexedDataset`` in ``megatron/core/datasets/indexed_dataset.py``. Each document
    is one sequence. The index has lengths in tokens, starts in bytes, and the first sequence of each document.
    """

    # Megatron's codes for the types of ids.
    _CODES = {"int32": 4, _NARROW: 8}

    def finish(self) -> None:
        lengths = np.diff(self._all_ends(), prepend=0)
        _check_length(lengths, "the index of Megatron-LM")
        beginnings = (np.cumsum(lengths) - lengths) * np.dtype(self.dtype).itemsize
        with self.path(".idx").open("wb") as file:
            file.write(b"MMIDIDX\x00\x00" + (1).to_bytes(8, "little") + bytes([self._CODES[self.dtype]]))
            file.write(len(lengths).to_bytes(8, "little") + (len(lengths) + 1).to_bytes(8, "little"))
            for numbers, kind in ((lengths, "<i4"), (beginnings, "<i8"), (np.arange(len(lengths) + 1), "<i8")):
                file.write(numbers.astype(kind).data)


class _ParquetRows:
    """A writer of Parquet files with a row for each document and the ids in the column ``input_ids``. Its arguments and
    methods are those of `FlatFile`.

    Rows stay in memory until their row group is complete. A row group ends with the document that reaches a million tokens.
    """

    def __init__(self, stem: Path, dtype: str) -> None:
        pa, pq = _pyarrow()
        self._schema = pa.schema([("input_ids", pa.list_(getattr(pa, dtype)()))])
        self._file = pq.ParquetWriter(_with_ending(stem, ".parquet"), self._schema, compression="zstd")
        self._blocks: list[NDArray[Any]] = []
        self._ends: list[NDArray[np.int64]] = []
        self._tokens = 0

    def write(self, tokens: NDArray[Any], ends: NDArray[np.int64]) -> None:
        # The end of a row group must depend only on the documents, not on the ends of blocks.
        while (last := int(np.searchsorted(ends, _ROW_GROUP_TOKENS - self._tokens))) < len(ends):
            cut = int(ends[last])
            self._take(tokens[:cut], ends[: last + 1])
            self._flush()
            tokens, ends = tokens[cut:], ends[last + 1 :] - cut
        self._take(tokens, ends)

    def finish(self) -> None:
        if sum(map(len, self._ends)):
            self._flush()
        self._file.close()

    def close(self) -> None:
        self._file.close()

    def _take(self, tokens: NDArray[Any], ends: NDArray[np.int64]) -> None:
        self._blocks.append(tokens)
        self._ends.append(ends + self._tokens)
        self._tokens += len(tokens)

    def _flush(self) -> None:
        pa, _ = _pyarrow()
        ends = np.concatenate(self._ends)
        _check_length(ends[-1:], "a row group of Parquet")
        places = pa.array(np.concatenate([np.zeros(1, np.int64), ends]).astype(np.int32))
        rows = pa.ListArray.from_arrays(places, pa.array(np.concatenate(self._blocks)))
        self._file.write_table(pa.Table.from_arrays([rows], schema=self._schema))
        self._blocks, self._ends, self._tokens = [], [], 0


Block: TypeAlias = "tuple[NDArray[Any], NDArray[np.int64] | None]"
"""A pair: tokens of a shard, and the positions at which documents end in these tokens. If the layout does not record the
positions, they are None.
"""


def _read_flat(stem: Path, dtype: str) -> Iterator[Block]:
    yield _mapped(stem, ".bin", dtype), None


def _read_ends(stem: Path, dtype: str) -> Iterator[Block]:
    ends = np.fromfile(_with_ending(stem, ".ds.index"), "<u8")
    yield _mapped(stem, ".ds", dtype), ends.astype(np.int64)


def _read_indexed(stem: Path, dtype: str) -> Iterator[Block]:
    with _with_ending(stem, ".idx").open("rb") as file:
        file.seek(18)  # after the name, the version and the type
        count = int.from_bytes(file.read(8), "little")
        file.seek(8, 1)
        lengths = np.frombuffer(file.read(4 * count), "<i4")
    yield _mapped(stem, ".bin", dtype), np.cumsum(lengths, dtype=np.int64)


def _read_rows(stem: Path, dtype: str) -> Iterator[Block]:
    _, pq = _pyarrow()
    with pq.ParquetFile(_with_ending(stem, ".parquet")) as file:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=["input_ids"]).column(0).combine_chunks()
            yield rows.flatten().to_numpy().astype(dtype), np.diff(rows.offsets.to_numpy()).cumsum(dtype=np.int64)


def _with_ending(stem: Path, ending: str) -> Path:
    return stem.with_name(stem.name + ending)


def _mapped(stem: Path, ending: str, dtype: str) -> NDArray[Any]:
    """Return tokens that are mapped from a file instead of loaded."""
    return np.memmap(_with_ending(stem, ending), np.dtype(dtype).newbyteorder("<"), mode="r")


def _check_length(lengths: NDArray[np.int64], limited: str) -> None:
    longest = int(lengths.max(initial=0))
    if longest > _MOST_IN_DOCUMENT:
        raise SGPEError(
            f"a document has {longest:,} tokens, but {limited} only has room for 2**31 - 1: choose another format"
        )


def _pyarrow() -> tuple[Any, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa, pq


@dataclass(frozen=True)
class TokenFormat:
    """A layout for files of token ids, with the functions that write and read it.

    Attributes:
        name: Name for ``hf-sgpe tokenize --format``.
        endings: Extensions of the files in a complete shard.
        holds: Phrase for help texts: what the files contain, and which programs read them.
        writer: Function that takes a path without extension and the type of the ids, and returns an object with the methods
            of `FlatFile`.
        keeps_ends: Whether the layout records the ends of documents, so that documents need no end token.
        wide: The type for ids that do not fit into two bytes.
        packages: Packages that are required in addition to NumPy.
        reader: Function that takes the same arguments as ``writer``, and yields the tokens of a finished shard with the
            positions at which its documents end. None if `hf-sgpe finetune` cannot read the layout.
    """

    name: str
    endings: tuple[str, ...]
    holds: str
    writer: Callable[[Path, str], FlatFile | _ParquetRows]
    keeps_ends: bool = True
    wide: str = "uint32"
    packages: tuple[str, ...] = ()
    reader: Callable[[Path, str], Iterator[Block]] | None = None

    def dtype(self, ids: int) -> str:
        """Return the NumPy type for ids from 0 to ``ids - 1``.

        >>> TOKEN_FORMATS["megatron"].dtype(65_536), TOKEN_FORMATS["megatron"].dtype(65_537)
        ('uint16', 'int32')
        """
        return _NARROW if ids <= _MOST_NARROW else self.wide


TOKEN_FORMATS: dict[str, TokenFormat] = {}
"""The layouts, keyed by name. `add_token_format` adds a layout."""


def add_token_format(form: TokenFormat) -> None:
    """Add a layout to those that ``hf-sgpe tokenize --format`` accepts."""
    if form.name in TOKEN_FORMATS:
        raise SGPEError(f"there is already a token format with the name {form.name!r}: choose another name")
    TOKEN_FORMATS[form.name] = form


def token_format(name: str) -> TokenFormat:
    """Return the layout with the given name, after checking that its packages are installed."""
    from importlib.util import find_spec

    if name not in TOKEN_FORMATS:
        raise SGPEError(f"unknown format {name!r}: choose from {', '.join(TOKEN_FORMATS)}")
    form = TOKEN_FORMATS[name]
    for package in form.packages:
        if find_spec(package) is None:
            raise not_installed(f"the format {name} needs {package}", package)
    return form


_HOLDS = {
    "nanogpt": "ids alone, for numpy.memmap, as nanoGPT reads them",
    "megatron": "IndexedDataset of Megatron-LM",
    "datatrove": "DatatroveFileDataset, as nanotron reads it",
    "parquet": "one row for each document, for datasets",
}
for _form in (
    TokenFormat("nanogpt", (".bin",), _HOLDS["nanogpt"], FlatFile, keeps_ends=False, reader=_read_flat),
    TokenFormat("megatron", (".bin", ".idx"), _HOLDS["megatron"], _IndexedFile, wide="int32", reader=_read_indexed),
    TokenFormat("datatrove", (".ds", ".ds.index"), _HOLDS["datatrove"], _EndsFile, reader=_read_ends),
    TokenFormat("parquet", (".parquet",), _HOLDS["parquet"], _ParquetRows, packages=("pyarrow",), reader=_read_rows),
):
    add_token_format(_form)
