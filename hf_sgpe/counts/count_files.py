"""Files of counted words: Parquet, with words in an order that lets any number of files be added up in little memory.

A file has the columns ``word`` (bytes) and ``count``, and says in its metadata how the words were cut and of what. The order
is that of a hash of the words, then of their bytes, so that equal counts make equal files, files are added up a 1024th of
their words at a time, and several machines can share the work by the hash.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from operator import lt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_sgpe.counts.word_arrays import BUCKETS, Words, bucket_of
from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.splitting.splitting import Splitting

if TYPE_CHECKING:
    import pyarrow as pa

Source = Mapping[str, Any]
"""What was counted: ``name``, and ``bytes`` or ``split`` where there are any."""

Dropped = Mapping[str, int]
"""What was left out of rare words: ``min_count``, how many ``distinct`` ones and how many in ``total`` occurred less often,
and ``pair``, the most occurrences that any pair of tokens can have lost."""

MOST = 1 << 60
"""The most running words that there can be: counts of pairs, and of several files, are added up in 64 bits."""

_KEY = "hf_sgpe.word_counts"
_FORMAT = 1
_OF_DROPPED = {"min_count", "distinct", "total", "pair"}
# Rows that are read and written together; a megabyte or two.
_ROWS = 1 << 16


@dataclass(frozen=True)
class CountsInfo:
    """The metadata of a file of counts.

    Attributes:
        splitting: How the words were cut.
        distinct: Number of words.
        total: Number of running words.
        digest: SHA-256 (hexadecimal) of words, counts and how they were cut; the same as `WordCounts.digest`.
        sources: What was counted.
        versions: Packages that cut the words → their versions, several with commas between them.
        dropped: What was left out of rare words; None for nothing.
    """

    splitting: Splitting
    distinct: int
    total: int
    digest: str
    sources: tuple[Source, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    dropped: Dropped | None = None

    def summary(self) -> str:
        """Return the number of words, their hash, and what was left out; in one line, or two."""
        size = f"{self.total:,} words ({self.distinct:,} distinct), SHA-256 {self.digest}"
        return f"{size}\n{self.loss()}" if self.dropped else size

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {name: value for name, value in vars(self).items() if name != "splitting"}
        return {"counting": self.splitting.to_dict(), **values}

    def loss(self) -> str:
        """Return what was left out, and what that can change; empty if nothing was."""
        dropped = self.dropped
        if not dropped:
            return ""
        return (
            f"{dropped['distinct']:,} distinct words that occur less than {dropped['min_count']:,} times, "
            f"{dropped['total'] / max(dropped['total'] + self.total, 1):.3%} of the running words, are left out: "
            f"no pair of tokens loses more than {dropped['pair']:,} occurrences, "
            "so a merge can differ only where the best pair leads by less"
        )


class Digest:
    """The SHA-256 of counts that come in the order of a file."""

    def __init__(self, splitting: Splitting, scale: int = 1) -> None:
        settings = splitting.to_dict() if scale == 1 else {**splitting.to_dict(), "scale": scale}
        self._settings = json.dumps(settings, sort_keys=True, ensure_ascii=False).encode()
        self._columns = [hashlib.sha256() for _ in range(3)]

    def update(self, words: bytes, lengths: Any, counts: Any) -> None:
        """Add words: ``words`` one after another, their lengths in bytes, and how often each occurs (both int64)."""
        for column, values in zip(self._columns, (words, lengths, counts), strict=True):
            column.update(values if isinstance(values, bytes) else np.ascontiguousarray(values, "<i8").data)

    def hexdigest(self) -> str:
        """Return the hash of the words so far."""
        return hashlib.sha256(b"".join([self._settings, *(column.digest() for column in self._columns)])).hexdigest()


def require_pyarrow(path: str | os.PathLike[str]) -> None:
    """Make sure that files of counts can be read and written.

    Raises:
        SGPEError: pyarrow is not installed.
    """
    for module in ("pyarrow.compute", "pyarrow.parquet"):
        optional(module, f"{os.fspath(path)}: files of counts need pyarrow", "pyarrow", extra="corpora")


def table_of(words: Words, counts: Any) -> pa.Table:
    """Return two columns, ``word`` and ``count``, of words and an array of int64; without a copy."""
    import pyarrow as pa

    blob, starts = words.arrays()
    # From an array of NumPy's, pyarrow would import pandas, which takes a second.
    buffers = {"word": (pa.large_binary(), starts, blob), "count": (pa.int64(), counts)}
    return pa.table(
        {
            name: pa.Array.from_buffers(kind, len(counts), [None, *map(pa.py_buffer, arrays)])
            for name, (kind, *arrays) in buffers.items()
        }
    )


def write(
    path: str | os.PathLike[str],
    tables: Iterable[pa.Table],
    splitting: Splitting,
    *,
    sources: Iterable[Source] = (),
    versions: Mapping[str, str] | None = None,
    dropped: Callable[[], Dropped | None] = lambda: None,
) -> CountsInfo:
    """Write a file, the same bytes for the same counts and sources.

    Args:
        tables: Columns ``word`` and ``count``, in the order of a file.
        versions: Packages that cut the words → their versions; None for those that are here.
        dropped: What was left out of the words, as `CountsInfo` has it; asked when all are there.

    Raises:
        SGPEError: pyarrow is not installed, or there are too many running words.
    """
    require_pyarrow(path)
    import pyarrow as pa
    import pyarrow.parquet as pq

    digest = Digest(splitting)
    distinct = total = 0
    first_buckets: list[int] = []
    schema = pa.schema({"word": pa.large_binary(), "count": pa.int64()})
    with (
        atomic_file(path) as temporary,
        # pyarrow opens files by name only if the name is UTF-8.
        temporary.open("wb") as opened,
        # Each word occurs once, so a dictionary of them saves nothing.
        pq.ParquetWriter(opened, schema, compression="zstd", use_dictionary=False) as writer,
    ):
        for table in _rows(tables):
            words, lengths, counts = columns(table)
            digest.update(words, lengths, counts)
            distinct += len(counts)
            total += total_of(counts)
            writer.write_table(table, row_group_size=_ROWS)
            first_buckets += [bucket_of(table["word"][row].as_py()) for row in range(0, len(counts), _ROWS)]
        check_total(total)
        info = CountsInfo(
            splitting,
            distinct,
            total,
            digest.hexdigest(),
            tuple(dict(source) for source in sources),
            dict(versions or _versions()),
            dropped(),
        )
        metadata = {"format": _FORMAT, **info.to_dict(), "first_buckets": first_buckets}
        writer.add_key_value_metadata({_KEY: json.dumps(metadata, ensure_ascii=False)})
    return info


def read_info(path: str | os.PathLike[str]) -> CountsInfo:
    """Return the metadata of a file; its words are not read.

    Raises:
        SGPEError: the file holds no counts, or damaged ones.
        OSError: the file cannot be opened.
    """
    with _reading(path) as file:
        return _metadata_of(file)[0]


def read(path: str | os.PathLike[str], buckets: range = range(BUCKETS)) -> Iterator[tuple[int, pa.Table]]:
    """Yield the words of a file, one bucket after another: (number of the bucket, columns ``word`` and ``count``).

    One bucket is in memory at a time, and what is read at once. Of a file that is read whole, the hash is checked.

    Raises:
        SGPEError: the file holds no counts, or damaged ones.
        OSError: the file cannot be opened.
    """
    import pyarrow as pa

    with _reading(path) as file:
        info, first_buckets = _metadata_of(file)
        # The row groups that hold words of these buckets.
        pairs = enumerate(pairwise([*first_buckets, BUCKETS]))
        groups = [group for group, (first, after) in pairs if first < buckets.stop and after >= buckets.start]
        digest = Digest(info.splitting)
        distinct = total = 0
        number, last = -1, b""
        parts: list[pa.Table] = []
        for batch in file.iter_batches(_ROWS, groups, ["word", "count"], use_threads=False) if groups else ():
            table = pa.Table.from_batches([batch])
            words, lengths, counts = columns(table)
            if (counts <= 0).any() or (lengths <= 0).any():
                raise ValueError("a word or a count below 1")
            table["word"].cast(pa.large_utf8())  # fails where a word is not UTF-8
            digest.update(words, lengths, counts)
            distinct += len(counts)
            total += total_of(counts)
            if total > info.total:
                raise ValueError("its words are not those that its hash is of")
            listed = table["word"].to_pylist()
            numbers = np.fromiter(map(bucket_of, listed), np.int64, len(counts))
            starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(counts)]
            for start, stop in pairwise(starts):
                bucket = int(numbers[start])
                inside = listed[start:stop]
                if bucket < number or (bucket == number and inside[0] <= last) or not all(map(lt, inside, inside[1:])):
                    raise ValueError("its words are out of order")
                last = inside[-1]
                if bucket > number:
                    if parts and number in buckets:
                        yield number, pa.concat_tables(parts)
                    number, parts = bucket, []
                parts.append(table.slice(start, stop - start))
        if parts and number in buckets:
            yield number, pa.concat_tables(parts)
        is_whole = len(groups) == len(first_buckets)
        if is_whole and (digest.hexdigest(), distinct, total) != (info.digest, info.distinct, info.total):
            raise ValueError("its words are not those that its hash is of")


def release_unused() -> None:
    """Give back the memory that pyarrow keeps to read more."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def check_total(total: int) -> None:
    """Make sure that a number of running words can be added up.

    Raises:
        SGPEError: there are more than `MOST`.
    """
    if total > MOST:
        raise SGPEError(f"{total:,} running words are too many to be added up: give fewer files, or smaller weights")


def total_of(counts: Any) -> int:
    """Return the sum of an array of counts, each of which may be as large as 64 bits allow."""
    return int(counts.sum()) if len(counts) * int(counts.max(initial=0)) < 1 << 63 else sum(counts.tolist())


@contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[Any]:
    require_pyarrow(path)
    import pyarrow as pa
    import pyarrow.parquet as pq

    with Path(path).open("rb") as raw:
        try:
            with pq.ParquetFile(raw) as file:
                yield file
        except (pa.ArrowException, ValueError, KeyError, TypeError, OSError, OverflowError, RecursionError) as error:
            if isinstance(error, SGPEError):
                raise
            if Path(path).is_file():
                check_no_pointer(Path(path))
            reason = " ".join((str(error) or type(error).__name__).splitlines()[0].split())
            raise SGPEError(f"{path}: not a file of word counts, or damaged ({reason}): count the text again") from None


def _metadata_of(file: Any) -> tuple[CountsInfo, list[int]]:
    """Return the metadata of a file, and the bucket of the first word in each of its row groups."""
    import pyarrow as pa

    metadata = file.metadata.metadata or {}
    if _KEY.encode() not in metadata:
        raise ValueError("it does not say how its words were cut")
    facts = json.loads(metadata[_KEY.encode()])
    if not isinstance(facts, dict) or facts.pop("format", None) != _FORMAT:
        raise ValueError("of a later version, or its metadata is not as it must be")
    schema = file.schema_arrow
    if [(field.name, field.type) for field in schema] != [("word", pa.large_binary()), ("count", pa.int64())]:
        raise ValueError("its columns are not word and count")
    first_buckets = facts.pop("first_buckets")
    if not _are(first_buckets, list, int) or not all(0 <= number < BUCKETS for number in first_buckets):
        raise ValueError("its metadata is not as it must be")
    sources = facts.get("sources", ())
    counting = facts.pop("counting")
    if not _are(counting, dict, object):
        raise ValueError("its metadata is not as it must be")
    try:
        splitting = Splitting.from_dict(counting)
    except SGPEError as error:
        raise ValueError(str(error)) from None
    info = CountsInfo(splitting, **facts | {"sources": tuple(sources) if isinstance(sources, list) else sources})
    is_sound = (
        type(info.distinct) is type(info.total) is int
        and 0 <= info.distinct <= info.total
        and isinstance(info.digest, str)
        and all(isinstance(source, dict) for source in info.sources)
        and _are(info.versions, dict, str)
        and (info.dropped is None or (_are(info.dropped, dict, int) and info.dropped.keys() == _OF_DROPPED))
    )
    if not is_sound:
        raise ValueError("its metadata is not as it must be")
    if len(first_buckets) != file.metadata.num_row_groups:
        raise ValueError("it was written by something else")
    if info.distinct != file.metadata.num_rows:
        raise ValueError("its words are not those that its hash is of")
    return info, first_buckets


def _are(values: object, of: type, kind: type) -> bool:
    """Return whether something from JSON is a list, or a dictionary, of values of one kind."""
    inside = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    # True and False are not numbers here.
    return isinstance(values, of) and all(isinstance(value, kind) and type(value) is not bool for value in inside)


def _rows(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in tables of `_ROWS` or not many more, so that their groups depend on nothing else."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= _ROWS:
            whole = pa.concat_tables(waiting)
            full = rows - rows % _ROWS
            yield whole.slice(0, full)
            waiting, rows = [whole.slice(full)], rows - full
    if rows:
        yield pa.concat_tables(waiting)


def columns(table: pa.Table) -> tuple[bytes, Any, Any]:
    """Return the words of a table one after another, their lengths in bytes, and their counts (both int64)."""
    import pyarrow.compute as pc

    words = table["word"]
    blob = b"".join(_bytes_of(chunk) for chunk in words.chunks)
    return blob, array_of(pc.binary_length(words)), array_of(table["count"])


def array_of(column: pa.ChunkedArray) -> Any:
    """Return a column of int64 as an array; pyarrow's own method would import pandas, which takes a second."""
    chunks = [
        np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), 8 * chunk.offset) for chunk in column.chunks if len(chunk)
    ]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)


def _bytes_of(words: pa.LargeBinaryArray) -> bytes:
    _, offsets, data = words.buffers()
    if data is None or not len(words):
        return b""
    ends = np.frombuffer(offsets, np.int64)[words.offset : words.offset + len(words) + 1]
    return bytes(memoryview(data)[ends[0] : ends[-1]])


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    from hf_sgpe.package import __version__

    return {"hf_sgpe": __version__, "tokenizers": version("tokenizers"), "regex": version("regex")}
