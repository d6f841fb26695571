"""Files of word counts, in Parquet, with the columns ``word`` (bytes) and ``count``. The metadata records the sources of the
text and how the text was split into words.

Words are sorted by a hash, then by their bytes, so equal counts make equal files. The hash divides the words into 1024
buckets: files can be added up bucket by bucket with little memory, and several machines can share the work.
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

from hf_sgpe.corpora.text_files import PARQUET, kind_of
from hf_sgpe.counts.word_arrays import BUCKETS, Words, bucket_of
from hf_sgpe.errors import SGPEError, no_words, optional
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.package import __version__
from hf_sgpe.splitting.splitting import Splitting

if TYPE_CHECKING:
    import pyarrow as pa

Source = Mapping[str, Any]
"""A source of the counted text, with the keys ``name`` and, if known, ``bytes`` or ``split``."""

Dropped = Mapping[str, int]
"""The rare words that were left out: ``min_count`` is the least count of a kept word, ``distinct`` the number of rare words,
``total`` that of their occurrences, and ``pair`` an upper limit on the lost occurrences of any pair of tokens.
"""

MOST = 1 << 60
"""The greatest allowed total count of all words. Up to this limit, counts of pairs and sums of files fit into 64 bits."""

_KEY = "hf_sgpe.word_counts"
_MAGIC = b"PAR1"
_FORMAT = 1
_DROPPED_KEYS = {"min_count", "distinct", "total", "pair"}
# Number of rows to read or write at a time. They take one or two megabytes.
_ROWS = 1 << 16


@dataclass(frozen=True)
class CountsInfo:
    """The metadata of a file of counts.

    Attributes:
        splitting: The rules that split the text into words.
        distinct: Number of distinct words.
        total: Number of words in the text: the sum of all counts.
        digest: SHA-256 (hexadecimal) of the words, the counts and the splitting; the same as `WordCounts.digest`.
        sources: The sources of the counted text.
        versions: Versions of the packages that split the text into words, keyed by package; several versions of one package
            are separated by commas.
        dropped: The rare words that were left out, or None.
    """

    splitting: Splitting
    distinct: int
    total: int
    digest: str
    sources: tuple[Source, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    dropped: Dropped | None = None

    def summary(self) -> str:
        """Return a line with the numbers of words and the digest. A second line describes any `loss`."""
        size = f"{self.total:,} words ({self.distinct:,} distinct), SHA-256 {self.digest}"
        return f"{size}\n{self.loss()}" if self.dropped else size

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata as plain JSON values."""
        values = {name: value for name, value in vars(self).items() if name != "splitting"}
        return {"counting": self.splitting.to_dict(), **values}

    def loss(self) -> str:
        """Return a sentence about the words that were left out and their effect on the merges, or an empty string."""
        dropped = self.dropped
        if not dropped:
            return ""
        return (
            f"{dropped['distinct']:,} distinct words that occur fewer than {dropped['min_count']:,} times, "
            f"{dropped['total'] / max(dropped['total'] + self.total, 1):.3%} of the running words, are left out: "
            f"no pair of tokens loses more than {dropped['pair']:,} occurrences, "
            "so a merge can change only where the best pair leads by a smaller margin"
        )


class Digest:
    """A calculation of the SHA-256 of word counts. Words must be added in the order of a file of counts."""

    def __init__(self, splitting: Splitting, scale: int = 1) -> None:
        settings = splitting.to_dict() if scale == 1 else {**splitting.to_dict(), "scale": scale}
        self._settings = json.dumps(settings, sort_keys=True, ensure_ascii=False).encode()
        self._columns = [hashlib.sha256() for _ in range(3)]

    def update(self, words: bytes, lengths: Any, counts: Any) -> None:
        """Add words: their joined bytes, the number of bytes of each word (int64), and their counts (int64)."""
        for column, values in zip(self._columns, (words, lengths, counts), strict=True):
            column.update(values if isinstance(values, bytes) else np.ascontiguousarray(values, "<i8").data)

    def hexdigest(self) -> str:
        return hashlib.sha256(b"".join([self._settings, *(column.digest() for column in self._columns)])).hexdigest()


def require_pyarrow(path: str | os.PathLike[str]) -> None:
    """Check that pyarrow is installed. The file of counts at ``path`` needs it."""
    for module in ("pyarrow.compute", "pyarrow.parquet"):
        optional(module, f"{os.fspath(path)}: files of counts need pyarrow", "pyarrow", extra="corpora")


def table_of(words: Words, counts: Any) -> pa.Table:
    """Make a table with the columns ``word`` and ``count``. It shares the memory of ``words`` and ``counts`` (int64)."""
    import pyarrow as pa

    blob, starts = words.arrays()
    # To convert a NumPy array, pyarrow would import pandas, and the import takes a second.
    word_buffers = [None, pa.py_buffer(starts), pa.py_buffer(blob)]
    word_column = pa.Array.from_buffers(pa.large_binary(), len(counts), word_buffers)
    count_column = pa.Array.from_buffers(pa.int64(), len(counts), [None, pa.py_buffer(counts)])
    return pa.table({"word": word_column, "count": count_column})


def write(
    path: str | os.PathLike[str],
    tables: Iterable[pa.Table],
    splitting: Splitting,
    *,
    sources: Iterable[Source] = (),
    versions: Mapping[str, str] | None = None,
    dropped: Callable[[], Dropped | None] = lambda: None,
    needs_words: bool = False,
) -> CountsInfo:
    """Write a file of counts, and return its metadata. Equal counts from equal sources produce equal bytes.

    Args:
        tables: Tables with the columns ``word`` and ``count``, sorted as in a file of counts.
        versions: See `CountsInfo`; None for the installed versions.
        dropped: Function that returns the value of `CountsInfo.dropped` after the last table.
        needs_words: Whether to raise an error, instead of writing the file, if there are no words.
    """
    require_pyarrow(path)
    from importlib.metadata import version

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
        # Each word occurs once, so a dictionary saves nothing.
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
            dict(versions or {"hf_sgpe": __version__, **{name: version(name) for name in ("tokenizers", "regex")}}),
            dropped(),
        )
        if needs_words and not total:
            if info.dropped and info.dropped["total"]:
                raise SGPEError(f"min_count {info.dropped['min_count']} leaves out every word: give a smaller min_count")
            raise no_words("count")
        metadata = {"format": _FORMAT, **info.to_dict(), "first_buckets": first_buckets}
        writer.add_key_value_metadata({_KEY: json.dumps(metadata, ensure_ascii=False)})
    return info


def read_info(path: str | os.PathLike[str]) -> CountsInfo:
    """Return the metadata of a file of counts, without reading its words."""
    with _reading(path) as file:
        return _metadata_of(file)[0]


def is_file_of_counts(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a Parquet file of word counts, not a file of another kind or a Parquet file with texts."""
    # Counts may have a name without a suffix. A file with the suffix of another kind is not opened as Parquet.
    if kind_of(Path(path)) not in (None, PARQUET):
        return False
    with Path(path).open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return False
    with _reading(path) as file:
        return _KEY.encode() in (file.metadata.metadata or {})


def read(path: str | os.PathLike[str], buckets: range = range(BUCKETS)) -> Iterator[tuple[int, pa.Table]]:
    """Yield the number of each bucket in ``buckets`` that has words, and a table with its words and their counts.

    Only one bucket and one batch of rows are in memory at a time. If the whole file is read, the digest is checked.
    """
    import pyarrow as pa

    with _reading(path) as file:
        info, first_buckets = _metadata_of(file)
        # The row groups with words of these buckets.
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
                raise ValueError("it has an empty word, or a count below 1")
            table["word"].cast(pa.large_utf8())  # raises if a word is not UTF-8
            digest.update(words, lengths, counts)
            distinct += len(counts)
            total += total_of(counts)
            if total > info.total:
                raise ValueError("its words do not match its digest")
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
            raise ValueError("its words do not match its digest")


def check_total(total: int) -> None:
    """Check that the total count of all words does not exceed `MOST`."""
    if total > MOST:
        raise SGPEError(f"{total:,} running words are too many to add up: give fewer files, or smaller weights")


def total_of(counts: Any) -> int:
    """Return the exact sum of an array of counts, even if the sum exceeds 64 bits."""
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
            raise SGPEError(f"{path} is damaged or not a file of word counts ({reason}): count the text again") from None


def _metadata_of(file: Any) -> tuple[CountsInfo, list[int]]:
    """Return the metadata of a Parquet file of counts, and the bucket of the first word of each row group.

    Raises:
        ValueError: the file is not a file of counts, or its metadata is invalid.
    """
    import pyarrow as pa

    metadata = file.metadata.metadata or {}
    if _KEY.encode() not in metadata:
        raise ValueError("its metadata does not record how the text was split into words")
    facts = json.loads(metadata[_KEY.encode()])
    if not isinstance(facts, dict) or facts.pop("format", None) != _FORMAT:
        raise ValueError("it has a later format, or its metadata is invalid")
    schema = file.schema_arrow
    if [(field.name, field.type) for field in schema] != [("word", pa.large_binary()), ("count", pa.int64())]:
        raise ValueError("its columns are not word and count")
    first_buckets = facts.pop("first_buckets")
    sources = facts.get("sources", ())
    counting = facts.pop("counting")
    are_buckets = _are(first_buckets, list, int) and all(0 <= number < BUCKETS for number in first_buckets)
    if not are_buckets or not isinstance(counting, dict):
        raise ValueError("its metadata is invalid")
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
        and (info.dropped is None or (_are(info.dropped, dict, int) and info.dropped.keys() == _DROPPED_KEYS))
    )
    if not is_sound:
        raise ValueError("its metadata is invalid")
    if len(first_buckets) != file.metadata.num_row_groups:
        raise ValueError("another program wrote it")
    if info.distinct != file.metadata.num_rows:
        raise ValueError("its words do not match its digest")
    return info, first_buckets


def _are(values: Any, container: type[list[Any]] | type[dict[str, Any]], kind: type) -> bool:
    """Return whether a JSON value is a list or dict with values of the type ``kind``."""
    if not isinstance(values, container):
        return False
    # type, because a bool is an instance of int
    return all(type(value) is kind for value in (values.values() if isinstance(values, dict) else values))


def _rows(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Regroup tables so that each except the last has a multiple of `_ROWS` rows. The row groups of the file then do not
    depend on how the rows were divided before.
    """
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
    """Return the joined bytes of the words in a table, the number of bytes of each word (int64), and the counts (int64)."""
    if not len(table):
        return b"", np.empty(0, np.int64), np.empty(0, np.int64)
    # pyarrow's own conversion to NumPy imports pandas, which takes a second.
    words, counts = (table[name].combine_chunks() for name in ("word", "count"))
    _, offsets, data = words.buffers()
    starts = np.frombuffer(offsets, np.int64)[words.offset : words.offset + len(words) + 1]
    blob = bytes(memoryview(data)[starts[0] : starts[-1]]) if data else b""
    return blob, np.diff(starts), np.frombuffer(counts.buffers()[1], np.int64, len(counts), 8 * counts.offset)
