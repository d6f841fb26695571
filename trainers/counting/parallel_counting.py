"""Counting of words with threads or processes. The result is the same for any number of workers."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from operator import length_hint
from pathlib import Path
from queue import SimpleQueue

from tqdm import tqdm

from hf_sgpe import kernels
from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.text_files import CorpusFile, size_of
from hf_sgpe.counts.count_files import read_info
from hf_sgpe.counts.counters import WordCounter, in_batches, in_turn, make_word_counter, only_texts
from hf_sgpe.counts.sums import check_same_settings
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.splitting import HasSplitting
from hf_sgpe.terminal.progress import bar_disabled
from hf_sgpe.vocabulary.codec import available_cores

# For smaller corpora, starting processes takes longer than counting.
_WORTH_WORKERS_BYTES = 8 << 20

# There is a limit because every worker has its own table of words. No machine has more cores.
_MOST_WORKERS = 1024

MOST_PROCESSES = 61 if sys.platform == "win32" else _MOST_WORKERS
"""The maximum number of processes that one process can wait for."""


def count_files(
    files: Iterable[CorpusFile],
    config: HasSplitting,
    *,
    counts: Sequence[Path] = (),
    weights: Mapping[str, float] | None = None,
    text_field: str = "text",
    workers: int | None = None,
    progress: bool | None = None,
) -> WordCounts:
    """Count the words in text files. Memory grows with the number of distinct words and with the number of workers, but not
    with the size of the files.

    Args:
        files: The files, as `trainers.find_files` returns them.
        config: A `TrainingConfig`, a `Splitting`, or another object with the attribute ``splitting``.
        counts: Files of word counts. These counts are added to the result.
        weights: As in `TrainingConfig`. None for the weights in ``config``, if there are any.
        text_field: Name of the field that contains the text in JSON Lines and Parquet files.
        workers: Number of threads or, without the native kernels, of processes. None for one per core, or for a single
            worker if the corpus is small.
        progress: Whether to show a bar on stderr; None shows it only on a terminal.
    """
    if weights is None:
        weights = getattr(config, "weights", {})
    corpus = Corpus(tuple(files), counts=tuple(counts), weights=weights, text_field=text_field)
    return count_corpus(corpus, config, workers=workers, progress=progress)


def count_corpus(
    corpus: Corpus, config: HasSplitting, *, workers: int | None = None, progress: bool | None = None
) -> WordCounts:
    """Count the words of a corpus. Each file counts with its weight. The other arguments are those of `count_files`."""
    parts: list[WordCounts] = []
    if corpus.files:
        few = 1 if corpus.size < _WORTH_WORKERS_BYTES else available_cores()
        with reading_bar(corpus.files, progress) as bar:
            for weight in dict.fromkeys(map(corpus.weight_of, corpus.files)):
                alike = [file for file in corpus.files if corpus.weight_of(file) == weight]
                texts = _texts(replace(corpus, files=tuple(alike), weights={}), config, bar)
                parts.append(_count(in_batches(texts), config, few if workers is None else workers) * weight)
    for file in corpus.counts:
        check_same_settings({file: read_info(file)}, config.splitting)
        parts.append(WordCounts.load(file) * corpus.weight_of(file))
    parts += [count_texts(texts, config, workers=workers, progress=progress) for texts in corpus.streams]
    return WordCounts.sum(parts) if parts else WordCounts({}, config.splitting)


def read_files(
    files: Iterable[CorpusFile], config: HasSplitting, *, text_field: str = "text", progress: bool | None = None
) -> Iterator[str]:
    """Yield the texts of files as `count_files` reads them."""
    return read_corpus(Corpus(tuple(files), text_field=text_field), config, progress=progress)


def read_corpus(corpus: Corpus, config: HasSplitting, *, progress: bool | None = None) -> Iterator[str]:
    """Yield the texts of a corpus as `count_corpus` reads them."""
    if corpus.files:
        with reading_bar(corpus.files, progress) as bar:
            yield from _texts(corpus, config, bar)
    for texts in corpus.streams:
        yield from read_iterator(texts, progress=progress)


def _texts(corpus: Corpus, config: HasSplitting, bar: tqdm) -> Iterator[str]:
    return corpus.read_texts(special_tokens=config.splitting.special_tokens or (), on_progress=bar.update)


def reading_bar(files: Iterable[CorpusFile], progress: bool | None = None, *, done: Iterable[CorpusFile] = ()) -> tqdm:
    """Return a progress bar for the bytes of files that are read from disk. An earlier run has read the files ``done``."""
    total, initial = (sum(map(size_of, some)) for some in (files, done))
    disable = bar_disabled(progress)
    return tqdm(total=total, initial=initial, unit="B", unit_scale=True, desc="Reading", disable=disable, leave=False)


def count_texts(
    texts: Iterable[str], config: HasSplitting, *, workers: int | None = None, progress: bool | None = None
) -> WordCounts:
    """Count the words of strings, which are read once and lazily. The other arguments are those of `count_files`."""
    return _count(in_batches(read_iterator(texts, progress=progress)), config, workers)


def read_iterator(texts: Iterable[str], *, progress: bool | None = None) -> Iterator[str]:
    """Yield the texts of an iterator unchanged, and show on a progress bar how many were read."""
    options = {"unit": " texts", "unit_scale": True, "desc": "Reading", "disable": bar_disabled(progress), "leave": False}
    with tqdm(total=length_hint(texts) or None, **options) as bar:
        for text in only_texts(texts):
            yield text
            bar.update()


def _count(batches: Iterable[list[str]], config: HasSplitting, workers: int | None) -> WordCounts:
    """Count the words in batches of texts, with the native kernels in threads, because they release the GIL, and without
    them in processes.
    """
    counter = make_word_counter(config)
    if workers is None:
        # Threads are cheap, but processes are not. Therefore, this function starts no processes by default.
        workers = available_cores() if counter.is_native else 1
    if check_workers(workers) > 1 and not counter.is_native:
        if multiprocessing.current_process().daemon:  # a daemonic process cannot have child processes
            return _count(batches, config, 1)
        return _count_in_processes(batches, config, workers)
    others = [make_word_counter(config) for _ in range(workers - 1)]
    share_out(batches, [counter, *others], lambda counter, batch: counter.add(batch))
    for other in others:
        counter.update(other)
    return WordCounts.of_counter(counter, config)


def check_workers(workers: int) -> int:
    """Return a number of workers, after checking it."""
    if not isinstance(workers, int) or not 1 <= workers <= _MOST_WORKERS:
        raise SGPEError(f"workers must be a number from 1 to {_MOST_WORKERS}, not {workers}")
    return workers


def share_out(
    batches: Iterable[list[str]], counters: Sequence[WordCounter], add: Callable[[WordCounter, list[str]], None]
) -> None:
    """Call ``add`` with each batch of texts and some counter. Several counters work at the same time, each in a thread."""
    if len(counters) == 1:
        for batch in batches:
            add(counters[0], batch)
        return
    idle: SimpleQueue[WordCounter] = SimpleQueue()
    for counter in counters:
        idle.put(counter)

    def add_to_idle(batch: list[str]) -> None:
        counter = idle.get()
        try:
            add(counter, batch)
        finally:
            idle.put(counter)

    with ThreadPoolExecutor(len(counters)) as pool:
        for _ in in_turn(pool, add_to_idle, batches, 2 * len(counters)):
            pass


def _count_in_processes(batches: Iterable[list[str]], config: HasSplitting, workers: int) -> WordCounts:
    total: Counter[bytes] = Counter()

    def with_slow_note() -> Iterator[list[str]]:
        for batch in batches:
            kernels.note_slow_use(sum(map(len, batch)))
            yield batch

    with ProcessPoolExecutor(
        min(workers, MOST_PROCESSES), process_context(), initializer=_start, initargs=(config, kernels.is_native())
    ) as pool:
        try:
            for counts in in_turn(pool, _count_batch, with_slow_note(), 2 * workers):
                total.update(counts)
        except BrokenProcessPool:
            raise SGPEError(
                "a counting process ended early: if memory is short, use fewer workers; in a script, put the call under "
                "if __name__ == '__main__':"
            ) from None
    return WordCounts(total, config.splitting)


def process_context() -> multiprocessing.context.BaseContext:
    """Return the `multiprocessing` context for worker processes."""
    # A forked process starts at once and needs no importable main module. Only on Linux, forking is safe enough.
    return multiprocessing.get_context("fork" if sys.platform == "linux" else None)


def start_worker(native: bool) -> None:
    """Make a new worker process ignore Ctrl-C, and use the native kernels only if the main process does. Without this value,
    a spawned process would choose for itself.
    """
    # Ctrl-C reaches every process of a terminal. Worker processes ignore it, and the main process ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    kernels.leave_slow_use_to_others()
    if not native:
        kernels.stay_readable()


_config: HasSplitting


def _start(config: HasSplitting, native: bool) -> None:
    start_worker(native)
    global _config
    _config = config


def _count_batch(texts: list[str]) -> dict[bytes, int]:
    return dict(WordCounts.from_texts(texts, _config).items())
