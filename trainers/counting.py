"""Counting words over files and iterators, in several threads or processes. Any number of them gives the same counts."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from fnmatch import fnmatch
from operator import length_hint
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from tqdm import tqdm

from hf_sgpe import kernel
from hf_sgpe.bpe.codec import available_cores
from hf_sgpe.counts.counters import NativeWordCounter, WordCounter, in_batches, make_word_counter, only_texts
from hf_sgpe.counts.files import check_same_settings, read_info
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.quiet import bar_disabled
from hf_sgpe.splitting.splitting import HasSplitting
from trainers.corpora import CorpusFile, read_texts, size_of

# Below this, starting processes takes longer than counting.
_WORTH_WORKERS_BYTES = 8 << 20

# Each holds words of its own, and no machine has more cores.
_MOST_WORKERS = 1024

Result = TypeVar("Result")


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
    """Counts the words of files.

    Memory grows with distinct words and the number of workers, not with the files.

    Args:
        files: As `trainers.find_files` gives them.
        config: A `TrainingConfig`, a `Splitting`, or whatever else says how text is cut.
        counts: Files of words counted before, to be added up with them.
        weights: As those of `TrainingConfig`; None for its own, if it is one.
        text_field: The field with the text in JSON Lines and Parquet.
        workers: How many to use, threads with the native kernels and processes without; None for one a core, or one in all
            for small corpora.
        progress: Show a bar on stderr; None for only on a terminal.

    Raises:
        SGPEError: a file cannot be read; the message names it and the place. Or a weight fits none of the files.
    """
    files = list(files)
    weigh = _weights(getattr(config, "weights", {}) if weights is None else weights, [*files, *counts])
    size = sum(map(size_of, files))
    if workers is None:
        workers = available_cores() if size >= _WORTH_WORKERS_BYTES else 1
    with _bar(size, progress) as bar:

        def texts(files: list[CorpusFile]) -> Iterator[str]:
            return _texts(files, config, text_field, bar)

        parts = [
            _count(in_batches(texts([file for file in files if weigh(file) == weight])), config, workers) * weight
            for weight in dict.fromkeys(map(weigh, files))
        ]
    parts += [_load(file, config) * weigh(file) for file in counts]
    return sum(parts[1:], start=parts[0]) if parts else WordCounts({}, config.splitting)


def read_files(
    files: Iterable[CorpusFile], config: HasSplitting, *, text_field: str = "text", progress: bool | None = None
) -> Iterator[str]:
    """The texts of files, as `count_files` reads them; arguments and errors as there."""
    files = list(files)
    with _bar(sum(map(size_of, files)), progress) as bar:
        yield from _texts(files, config, text_field, bar)


def _texts(files: Iterable[CorpusFile], config: HasSplitting, text_field: str, bar: tqdm) -> Iterator[str]:
    for file in files:
        yield from read_texts(
            file, text_field=text_field, special_tokens=config.splitting.special_tokens or (), on_progress=bar.update
        )


def _bar(size: int, progress: bool | None) -> tqdm:
    return tqdm(total=size, unit="B", unit_scale=True, desc="Reading", disable=bar_disabled(progress), leave=False)


def _load(file: Path, config: HasSplitting) -> WordCounts:
    check_same_settings({file: read_info(file)}, config.splitting)
    return WordCounts.load(file)


def _weights(weights: Mapping[str, float], files: Sequence[CorpusFile]) -> Callable[[CorpusFile], float]:
    """What `TrainingConfig.weights` means for these files."""

    def fits(file: CorpusFile, name: str) -> bool:
        # A name may hold characters that have a meaning in a glob.
        return any(own == name or fnmatch(own, name) for own in (file.name, str(file)))

    fitting = {file: [name for name in weights if fits(file, name)] for file in files}
    for name in weights:
        if not any(name in names for names in fitting.values()):
            raise SGPEError(f"weights: {name!r} fits none of the files: give the name of one, or a glob")
    return lambda file: weights[fitting[file][0]] if fitting[file] else 1


def count_texts(
    texts: Iterable[str], config: HasSplitting, *, workers: int | None = None, progress: bool | None = None
) -> WordCounts:
    """Counts the words of an iterator of texts, which is read once and lazily; arguments as for `count_files`."""
    return _count(in_batches(read_iterator(texts, progress=progress)), config, workers)


def read_iterator(texts: Iterable[str], *, progress: bool | None = None) -> Iterator[str]:
    """The texts as they are, with a bar as for `count_files`; errors as for `only_texts`."""
    show = {"unit": " texts", "unit_scale": True, "desc": "Reading", "disable": bar_disabled(progress), "leave": False}
    with tqdm(total=length_hint(texts) or None, **show) as bar:
        for text in only_texts(texts):
            yield text
            bar.update()


def _count(batches: Iterable[list[str]], config: HasSplitting, workers: int | None) -> WordCounts:
    """Counts batches of texts in threads if the kernel releases the GIL, else in processes."""
    counter = make_word_counter(config)
    native = isinstance(counter, NativeWordCounter)
    if workers is None:
        # Threads cost nothing. Processes do, and are not expected by someone who passes an iterator.
        workers = available_cores() if native else 1
    if check_workers(workers) > 1 and not native:
        return _count_in_processes(batches, config, workers)
    others = [NativeWordCounter(config) for _ in range(workers - 1)]
    share_out(batches, [counter, *others], lambda counter, batch: counter.add(batch))
    if isinstance(counter, NativeWordCounter):
        for other in others:
            counter.update(other)
    return WordCounts(counter.counts(), config.splitting)


def check_workers(workers: int) -> int:
    """The number itself.

    Raises:
        SGPEError: it is not a possible number of workers.
    """
    if not isinstance(workers, int) or not 1 <= workers <= _MOST_WORKERS:
        raise SGPEError(f"workers must be a number from 1 to {_MOST_WORKERS}, not {workers}")
    return workers


def share_out(
    batches: Iterable[list[str]], counters: Sequence[WordCounter], add: Callable[[WordCounter, list[str]], None]
) -> None:
    """Adds each batch to one of the counters, which are at work in a thread each; one alone, in the caller's.

    Args:
        add: Called with a batch and a counter that is in no other thread at the time.
    """
    if len(counters) == 1:
        for batch in batches:
            add(counters[0], batch)
        return
    idle: SimpleQueue[WordCounter] = SimpleQueue()
    for counter in counters:
        idle.put(counter)

    def add_to_one(batch: list[str]) -> None:
        counter = idle.get()
        try:
            add(counter, batch)
        finally:
            idle.put(counter)

    with ThreadPoolExecutor(len(counters)) as pool:
        for _ in in_turn(pool, add_to_one, batches, 2 * len(counters)):
            pass


def _count_in_processes(batches: Iterable[list[str]], config: HasSplitting, workers: int) -> WordCounts:
    total: Counter[bytes] = Counter()

    def noted() -> Iterator[list[str]]:
        for batch in batches:
            kernel.note_slow_use(sum(map(len, batch)))
            yield batch

    # A copy of this process starts at once and needs no importable main module; elsewhere copies are unsafe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    with ProcessPoolExecutor(workers, context, initializer=_start, initargs=(config,)) as pool:
        try:
            for counts in in_turn(pool, _count_batch, noted(), 2 * workers):
                total.update(counts)
        except BrokenProcessPool:
            raise SGPEError(
                "a counting process ended early: use fewer workers if memory is short, and call training from under "
                "if __name__ == '__main__'"
            ) from None
    return WordCounts(total, config.splitting)


def in_turn(
    pool: Executor, work: Callable[[list[str]], Result], batches: Iterable[list[str]], ahead: int
) -> Iterator[Result]:
    """The results of ``work``. Only ``ahead`` batches wait, so that reading does not outrun counting and fill memory."""
    running: deque[Future[Result]] = deque()
    try:
        for batch in batches:
            running.append(pool.submit(work, batch))
            if len(running) > ahead:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


_config: HasSplitting


def _start(config: HasSplitting) -> None:
    # Ctrl-C reaches every process of a terminal; the one that reads ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    kernel.leave_slow_use_to_others()
    global _config
    _config = config


def _count_batch(texts: list[str]) -> dict[bytes, int]:
    return dict(WordCounts.from_texts(texts, _config).items())
