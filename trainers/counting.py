"""Counting words over files and iterators, in several processes. Any number of them gives the same counts."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tqdm import tqdm

from hf_sgpe.errors import SGPEError
from hf_sgpe.training import TrainingConfig, WordCounts, only_texts, word_splitter
from trainers.corpora import read_texts

# Characters that go to a process at once: enough to make its start and the transfer of counts cheap.
_BATCH_CHARACTERS = 1 << 20
# Below this, starting processes takes longer than counting.
_WORTH_PROCESSES_BYTES = 8 << 20


def count_files(
    files: Iterable[Path],
    config: TrainingConfig,
    *,
    text_field: str = "text",
    processes: int | None = None,
    progress: bool | None = None,
) -> WordCounts:
    """Counts the words of files. Memory grows with distinct words and the number of processes, not with the files.

    Args:
        files: As `trainers.find_files` gives them.
        text_field: The field with the text in JSON Lines and Parquet.
        processes: How many to use; None for one per core, or one in all for small corpora.
        progress: Show a bar on stderr; None for only on a terminal.

    Raises:
        SGPEError: a file cannot be read; the message names it and the place.
    """
    files = list(files)
    size = sum(file.stat().st_size for file in files)
    if processes is None:
        processes = (os.cpu_count() or 1) if size >= _WORTH_PROCESSES_BYTES else 1
    with tqdm(total=size, unit="B", unit_scale=True, desc="Reading", disable=bar_disabled(progress), leave=False) as bar:

        def texts() -> Iterator[str]:
            for file in files:
                yield from read_texts(
                    file, text_field=text_field, special_tokens=config.special_tokens or (), on_progress=bar.update
                )

        return _count(texts(), config, processes)


def count_texts(
    texts: Iterable[str], config: TrainingConfig, *, processes: int | None = None, progress: bool | None = None
) -> WordCounts:
    """Counts the words of an iterator of texts, which is read once and lazily; arguments as for `count_files`."""
    with tqdm(unit=" texts", unit_scale=True, desc="Reading", disable=bar_disabled(progress), leave=False) as bar:

        def counted() -> Iterator[str]:
            for text in only_texts(texts):
                yield text
                bar.update()

        return _count(counted(), config, processes or 1)


def bar_disabled(progress: bool | None) -> bool | None:
    """tqdm's ``disable`` for our ``progress``: None leaves it to whether stderr is a terminal."""
    return None if progress is None else not progress


def _count(texts: Iterable[str], config: TrainingConfig, processes: int) -> WordCounts:
    if processes < 1:
        raise SGPEError(f"processes must be at least 1, not {processes}")
    if processes == 1:
        return WordCounts.from_texts(texts, config)
    total: Counter[str] = Counter()
    # A copy of this process starts at once and needs no importable main module; elsewhere copies are unsafe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    with ProcessPoolExecutor(processes, context, initializer=_start, initargs=(config,)) as pool:
        running: deque[Future[Counter[str]]] = deque()
        try:
            for batch in _batches(texts):
                running.append(pool.submit(_count_batch, batch))
                # Bounded, so that reading does not run ahead of counting and fill the memory.
                if len(running) > 2 * processes:
                    total.update(running.popleft().result())
            while running:
                total.update(running.popleft().result())
        except BrokenProcessPool:
            raise SGPEError(
                "a counting process ended early: use fewer processes if memory is short, and call training from under "
                "if __name__ == '__main__'"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return WordCounts({word.encode(): count for word, count in total.items()}, config.counting())


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


_split: Callable[[str], list[str]]


def _start(config: TrainingConfig) -> None:
    # Ctrl-C reaches every process of a terminal; the one that reads ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    global _split
    _split = word_splitter(config)


def _count_batch(texts: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_split(text))
    return counts
