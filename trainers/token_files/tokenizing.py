"""Tokenizing of a corpus into packed token ids on disk, on all cores and in bounded memory. An interrupted run can be
continued.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe import kernels
from hf_sgpe.corpora.corpus import Files
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import parents_of
from hf_sgpe.files.resuming import alone_in
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.vocabulary.codec import available_cores
from trainers.counting.parallel_counting import (
    MOST_PROCESSES,
    check_workers,
    process_context,
    reading_bar,
    start_worker,
)
from trainers.token_files.token_shards import MANIFEST, PartProgress, TokenizingJob

if TYPE_CHECKING:
    from tqdm import tqdm

# Number of seconds between checks of the worker processes' progress.
_LOOK = 0.2


@dataclass(frozen=True)
class Tokenized:
    """The result of `tokenize_corpus`: what the folder of tokens contains, and what this run did.

    Attributes:
        out: The folder with the shards.
        format: Name of the format of the shards.
        dtype: NumPy's name for the type of the ids.
        shards: Number of shards.
        documents: Number of documents in all shards.
        tokens: Number of tokens, including tokens that end documents.
        text_bytes: Number of bytes of the text in UTF-8.
        new_text_bytes: Bytes of the text that this run tokenized; 0 if the folder was already complete.
        seconds: Duration of this run.
        validation: The validation part, if there is one.
    """

    out: Path
    format: str
    dtype: str
    shards: int
    documents: int
    tokens: int
    text_bytes: int
    new_text_bytes: int
    seconds: float
    validation: Tokenized | None = None


def tokenize_corpus(
    files: Files,
    tokenizer: BPETokenizer | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Tokenized:
    """Write the token ids of a corpus into a folder, document by document, in the order of the corpus.

    The ids of a document are those of `BPETokenizer.encode`, after the begin token if the tokenizer puts one before each
    text. Text that spells a special token is encoded as ordinary text. Documents without text are left out. The written
    bytes do not depend on the number of workers, or on interruptions (even by kill -9) of a run that is then continued. Each
    worker needs about 100 MB of memory, plus memory for its longest document from .jsonl or .parquet files. A text file can
    be of any length.

    Args:
        files: Files, or a corpus of files. A document is a text file, a line of a .jsonl file, or a row of a .parquet file.
        tokenizer: A tokenizer, or the folder, file or repository from which `BPETokenizer.from_pretrained` loads it.
        out: Folder for the shards and for ``manifest.json``, which records how the shards were made.
        workers: Number of cores to use; None for all. The corpus is divided into parts: a part is one large file, or several
            files with at most 128 MB together. Each process tokenizes one part at a time, in several threads if there are
            more cores than parts.
        progress: Whether to show a bar on stderr; None shows it only on a terminal.
        **settings: Arguments of `TokenizingConfig`, such as ``format``.

    Raises:
        SGPEError: an argument is wrong, the corpus has no text or cannot be read, or the folder contains other files or
            tokens that were made with other settings. If no shard is complete at that time, no files remain.
        OSError: the folder cannot be written, or another process is writing to it.
    """
    job = TokenizingJob(files, tokenizer, out, **settings)
    workers = check_workers(available_cores() if workers is None else workers)
    # The small part comes first, because bad input then ends the run early.
    validation = None if job.share is None else _tokenize(job.for_validation(), workers, progress)
    return replace(_tokenize(job, workers, progress), validation=validation)


def _tokenize(job: TokenizingJob, workers: int, progress: bool | None) -> Tokenized:
    """Write the shards of a job and the manifest of the folder."""
    started = time.monotonic()
    with parents_of(job.out / MANIFEST), alone_in(job.out):
        parts = job.begin()
        try:
            before = sum(shard.text_bytes for part in parts for shard in part.shards)
            parts = _run(job, parts, workers, progress)
            if not any(part.shards for part in parts):
                files = job.corpus.files
                where = f"{files[0]}{' and the others' * (len(files) > 1)}"
                if job.share is not None:
                    part = "validation" if job.is_validation else "training"
                    raise SGPEError(
                        f"{where}: no document was chosen for {part}, because there are too few documents: add documents, "
                        "change --validation-share, or make each line a document with --lines"
                    )
                raise SGPEError(f"{where}: no text to tokenize")
            totals = job.finish(parts)
        except BaseException:
            job.give_up()
            raise
    return Tokenized(
        out=job.out,
        format=job.form.name,
        dtype=job.dtype,
        shards=sum(len(part.shards) for part in parts),
        documents=totals["documents"],
        tokens=totals["tokens"],
        text_bytes=totals["text_bytes"],
        new_text_bytes=totals["text_bytes"] - before,
        seconds=time.monotonic() - started,
    )


def _run(job: TokenizingJob, parts: Sequence[PartProgress], workers: int, progress: bool | None) -> list[PartProgress]:
    """Tokenize the parts that are incomplete, and return the progress of all parts."""
    there = [file for files, part in zip(job.parts, parts, strict=True) if part.complete for file in files]
    waiting = {number: part for number, part in enumerate(parts) if not part.complete}
    processes = min(workers, len(waiting), MOST_PROCESSES)
    if multiprocessing.current_process().daemon:  # a daemonic process cannot have child processes
        processes = 1
    threads = -(-workers // max(processes, 1)) if kernels.is_native() else 1
    with reading_bar(job.corpus.files, progress, done=there) as bar:
        if processes > 1:
            done = _run_in_processes(job, waiting, processes, threads, bar)
        else:
            done = {
                number: job.run_part(number, part, threads=threads, on_progress=bar.update)
                for number, part in waiting.items()
            }
    return [done.get(number, part) for number, part in enumerate(parts)]


def _run_in_processes(
    job: TokenizingJob, waiting: dict[int, PartProgress], processes: int, threads: int, bar: tqdm
) -> dict[int, PartProgress]:
    context = process_context()
    # There are no locks, because a killed process would keep its lock. Each number has only one writer.
    read = context.RawArray("q", len(job.parts))
    stopped = context.RawValue("b", 0)
    pool = ProcessPoolExecutor(
        processes, context, initializer=_start, initargs=(job, threads, read, stopped, kernels.is_native())
    )
    with pool:
        try:
            numbers = {pool.submit(_run_part, number, part): number for number, part in waiting.items()}
            pending = set(numbers)
            shown = 0
            while pending:
                ended, pending = wait(pending, timeout=_LOOK, return_when=FIRST_COMPLETED)
                now = sum(read)
                bar.update(now - shown)
                shown = now
                for future in ended:
                    future.result()
            return {number: future.result() for future, number in numbers.items()}
        except BrokenProcessPool:
            raise SGPEError(
                "a worker ended early: use fewer workers if memory is short, and put the call under "
                "if __name__ == '__main__'; complete shards are kept, and the same call continues after them"
            ) from None
        finally:
            stopped.value = 1
            pool.shutdown(cancel_futures=True)  # after this, no process writes to the folder


_job: TokenizingJob
_threads: int
_read: Any
_stopped: Any


def _start(job: TokenizingJob, threads: int, read: Any, stopped: Any, native: bool) -> None:
    start_worker(native)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    global _job, _threads, _read, _stopped
    _job, _threads, _read, _stopped = job, threads, read, stopped


def _end_with_parent() -> None:
    """End this process when its parent process has ended, even if the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run_part(number: int, part: PartProgress) -> PartProgress:
    def on_progress(count: int) -> None:
        if _stopped.value:
            raise SGPEError("stopped, because another worker failed")
        _read[number] += count

    return _job.run_part(number, part, threads=_threads, on_progress=on_progress)
