"""Exact counting of words within a memory limit. Counts that do not fit into memory are written to disk and added up."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from sys import getsizeof
from typing import TYPE_CHECKING

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.counts.count_files import (
    CountsInfo,
    Dropped,
    Source,
    check_total,
    columns,
    read_info,
    require_pyarrow,
    write,
)
from hf_sgpe.counts.counters import WordCounter, in_batches, make_word_counter, only_texts
from hf_sgpe.counts.sums import (
    MOST_FILES,
    READER_BYTES,
    added,
    all_dropped,
    all_versions,
    check_same_settings,
    sum_of,
)
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.files.atomic import scratch_directory
from hf_sgpe.splitting.splitting import HasSplitting
from hf_sgpe.vocabulary.codec import available_cores
from trainers.counting.parallel_counting import check_workers, read_corpus, share_out

if TYPE_CHECKING:
    import pyarrow as pa

# Number of characters in a batch. Before a counter adds a batch, it must have room for all words of the batch.
_BATCH_CHARACTERS = 1 << 18
# Memory of each worker for reading, waiting texts and scratch space, and memory for writing.
_WORKER_BYTES = 12 << 20
_WRITER_BYTES = 64 << 20
# With less room, a counter would spend more time writing than counting.
_LEAST_ROOM = 32 << 20


def count_to_file(
    texts: Iterable[str] | Corpus,
    path: str | os.PathLike[str],
    config: HasSplitting,
    *,
    sources: Iterable[Source] = (),
    memory_limit: int | None = None,
    workers: int | None = None,
    min_count: int = 1,
    needs_words: bool = False,
) -> CountsInfo:
    """Count the words of texts, and write the counts to one file. The memory limit and the number of workers do not change
    this file. Counts beyond the limit are moved to temporary files, which takes additional time.

    Args:
        texts: An iterable of strings, which is read once and lazily, or a corpus. Files of word counts in a corpus are
            ignored.
        path: File to write. Temporary files are written next to it.
        sources: The sources of the texts, to record in the file. If ``texts`` is a corpus, its own sources are recorded.
        memory_limit: Maximum memory of the whole process, in bytes. None for the memory that the process uses now, plus half
            of the free memory.
        workers: Number of threads; None for one per core. Without the native kernels, there is always one thread.
        min_count: Words that occur fewer times than this in all texts together are left out.
        needs_words: Whether to raise an error, instead of writing the file, if there are no words.
    """
    if isinstance(texts, Corpus):
        sources = texts.sources
        texts = read_corpus(texts, config)
    rare = RareWords(min_count)
    require_pyarrow(path)  # imported before the memory in use is measured
    counters = [make_word_counter(config)]
    if counters[0].is_native:
        workers = check_workers(available_cores() if workers is None else workers)
        counters += [make_word_counter(config) for _ in range(workers - 1)]
    room = _room(memory_limit, len(counters))
    with scratch_directory(path) as folder:
        runs = _Runs(folder, config)
        _count(texts, counters, runs, room // len(counters))
        if not runs.files:
            tables = added([counter.take(threads=len(counters)) for counter in _merged(counters, room)])
        else:
            for counter in counters:
                runs.take(counter)
            tables = sum_of(runs.files, folder, most=max(min(room // READER_BYTES, MOST_FILES), 2))
        return write(
            path,
            rare.left_out_of(tables),
            config.splitting,
            sources=sources,
            dropped=rare.report,
            needs_words=needs_words,
        )


def add_files(paths: Sequence[str | os.PathLike[str]], path: str | os.PathLike[str], *, min_count: int = 1) -> CountsInfo:
    """Add up the word counts in several files, and write the sums to one file. Only a small part of the words is in memory
    at a time.

    Args:
        paths: Files to add. A file that is given twice is added twice.
        path: File to write. It may be one of ``paths``.
        min_count: Words that occur fewer times than this in all files together are left out.
    """
    infos = {Path(file): read_info(file) for file in paths}
    if not infos:
        raise SGPEError("nothing to add up: give at least one file of word counts")
    rare = RareWords(min_count)
    check_same_settings(infos)
    all_infos = [infos[Path(file)] for file in paths]  # repeats a file that is given twice
    check_total(sum(info.total for info in all_infos))
    with scratch_directory(path) as folder:
        return write(
            path,
            rare.left_out_of(sum_of(map(Path, paths), folder)),
            all_infos[0].splitting,
            sources=[source for info in all_infos for source in info.sources],
            versions=all_versions(all_infos),
            dropped=lambda: all_dropped([*(info.dropped for info in all_infos), rare.report()]),
        )


def _count(texts: Iterable[str], counters: Sequence[WordCounter], runs: _Runs, room: int) -> None:
    def add(counter: WordCounter, batch: list[str]) -> None:
        # If Python needs one, two or four bytes for each character, UTF-8 needs at most one, three or four bytes.
        if counter.peak(3 * sum(map(getsizeof, batch)) // 2) > room:
            runs.take(counter)
        counter.add(batch)

    share_out(in_batches(only_texts(texts), _BATCH_CHARACTERS), counters, add)


def _merged(counters: Sequence[WordCounter], room: int) -> list[WordCounter]:
    """Merge counters in memory, which is faster than adding up files. Return the first counter, and those that could not be
    added to it for lack of memory.
    """
    first, *left = counters
    for other in counters[1:]:
        # `peak` allows for at most 16 bytes per word, for words of any length.
        if sum(counter.peak(0) for counter in left) + first.peak(16 * len(other)) <= room:
            first.update(other)
            left.remove(other)
    return [first, *left]


class _Runs:
    """Temporary files for counts that do not fit into memory. In each file, the words are sorted as in the final file."""

    def __init__(self, folder: Path, config: HasSplitting) -> None:
        self.files: list[Path] = []
        self._folder = folder
        self._splitting = config.splitting
        self._lock = threading.Lock()

    def take(self, counter: WordCounter) -> None:
        """Write the counts of a counter to a new file, and empty the counter."""
        with self._lock:
            file = self._folder / f"{len(self.files)}.parquet"
            self.files.append(file)
        write(file, (table for _, table in counter.take()), self._splitting)


def _room(memory_limit: int | None, workers: int) -> int:
    """Return how many bytes of memory all counters together may use for their words."""
    try:
        import psutil
    except ImportError:
        raise not_installed("counting to a file needs psutil", "psutil", extra="corpora") from None

    used = psutil.Process().memory_info().rss
    overhead = used + workers * _WORKER_BYTES + _WRITER_BYTES
    limit = used + psutil.virtual_memory().available // 2 if memory_limit is None else memory_limit
    room = int(limit - overhead)
    if room < workers * _LEAST_ROOM:
        least = -(-(overhead + workers * _LEAST_ROOM) // 1_000_000)
        several = workers > 1
        raise SGPEError(
            f"a memory limit of {limit / 1e6:,.0f} MB is too small for {workers} worker{'s' * several}: "
            f"give at least {least:,} MB{', or fewer workers' * several}"
        )
    return room


def check_min_count(min_count: int) -> int:
    """Return ``min_count``, after checking it."""
    if min_count < 1:
        raise SGPEError(f"min_count must be at least 1, not {min_count}")
    return min_count


class RareWords:
    """A filter that removes words that occur fewer than ``min_count`` times. It also computes a limit on how much this can
    change the merges that a tokenizer learns.

    The limit is the number of occurrences that the most affected pair of bytes loses. Wherever two tokens meet, two bytes
    also meet, so no pair of tokens can lose more occurrences. A merge can change only if its count exceeds the count of the
    next pair by less than the limit.
    """

    def __init__(self, min_count: int) -> None:
        import numpy as np

        self._min_count = check_min_count(min_count)
        self._pairs = np.zeros(1 << 16, np.int64)
        self._distinct = self._total = 0

    def left_out_of(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the tables without the rare words."""
        import pyarrow.compute as pc

        for table in tables:
            if self._min_count == 1:
                yield table
                continue
            is_rare = pc.less(table["count"], self._min_count)
            self._count(table.filter(is_rare))
            yield table.filter(pc.invert(is_rare))

    def report(self) -> Dropped | None:
        """Return what was left out so far, with the limit as ``pair``. If ``min_count`` is 1, return None."""
        if self._min_count == 1:
            return None
        most = int(self._pairs.max())
        return {"min_count": self._min_count, "distinct": self._distinct, "total": self._total, "pair": most}

    def _count(self, table: pa.Table) -> None:
        import numpy as np

        words, lengths, counts = columns(table)
        self._distinct += len(counts)
        self._total += int(counts.sum())
        codes = np.frombuffer(words, np.uint8).astype(np.int64)
        times = np.repeat(counts, lengths)
        times[np.cumsum(lengths) - 1] = 0  # no pair begins at a word's last byte
        # This is exact, because floats represent all whole numbers up to 2 ** 53, and the counts are smaller.
        pairs = np.bincount(codes[:-1] << 8 | codes[1:], times[:-1], minlength=1 << 16)
        self._pairs += pairs.astype(np.int64)
