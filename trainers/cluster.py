"""Pipeline steps for counting and tokenizing on many machines. datatrove runs the steps locally, on Slurm or on Ray.

Three steps count words. Each task of `CountWords` counts the words in its share of the texts, and writes the counts to a
file. In all of these files, the words are divided into the same buckets, by a hash. Each task of `AddCounts` adds up the
counts in some of the buckets. The single task of `JoinCounts` joins these sums into one file.

A file gets its name only when it is complete, so a task that was killed can be repeated without loss or double counting. All
machines must see the same folders.

To tokenize, run the step `TokenizeFiles`, and then call `trainers.tokenize_corpus` with the same arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.hub_datasets import read_dataset
from hf_sgpe.corpora.text_files import CorpusFile, read_texts
from hf_sgpe.counts.count_files import CountsInfo, Source, read, read_info, write
from hf_sgpe.counts.sums import all_dropped, all_versions, check_same_settings, sum_of
from hf_sgpe.counts.word_arrays import BUCKETS
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.files.atomic import scratch_directory
from hf_sgpe.splitting.splitting import HasSplitting
from trainers.counting.counting_on_disk import RareWords, check_min_count, count_to_file
from trainers.token_files.token_shards import TokenizingJob

try:
    from datatrove.data import Document
    from datatrove.pipeline.base import PipelineStep
except ImportError:
    raise not_installed("working on a cluster needs datatrove", "datatrove", extra="cluster") from None


class ReadFiles(PipelineStep):  # type: ignore[misc]
    """A step that reads the texts of files, as `trainers.count_files` reads them. Each file is read by one task. Instead of
    this step, a pipeline can also begin with one of datatrove's readers.

    Args:
        files: The files, as `trainers.find_files` returns them.
        config: Configuration that names the special tokens. Long texts are cut, but never inside a special token.
        text_field: Name of the field that contains the text in JSON Lines and Parquet files.
    """

    name, type = "📖 Files", "READER"

    def __init__(self, files: Sequence[CorpusFile], config: HasSplitting, *, text_field: str = "text") -> None:
        super().__init__()
        self.files = list(files)
        self.config = config
        self.text_field = text_field

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        yield from data or ()
        for file in self.files[rank::world_size]:
            specials = self.config.splitting.special_tokens or ()
            for number, text in enumerate(read_texts(file, text_field=self.text_field, special_tokens=specials)):
                self.stat_update("texts")
                yield Document(text=text, id=f"{file}/{number}")


class ReadDataset(PipelineStep):  # type: ignore[misc]
    """A step that reads the texts of a dataset. The arguments are those of `trainers.read_dataset`. Each task reads its own
    part of the dataset.
    """

    name, type = "📖 Dataset", "READER"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__()
        self.dataset = name
        self.options = options

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        yield from data or ()
        for number, text in enumerate(read_dataset(self.dataset, **self.options).part(rank, world_size)):
            self.stat_update("texts")
            yield Document(text=text, id=f"{self.dataset}/{rank}/{number}")


class CountWords(PipelineStep):  # type: ignore[misc]
    """A step in which each task counts the words in its documents, and writes these counts to a file.

    Args:
        folder: Folder in which each task writes its file.
        config: Configuration that defines how texts are split into words.
        memory_limit: Maximum memory of a task's process, in bytes. None for the default of `trainers.count_to_file`.
        workers: Number of threads in a task.
    """

    name, type = "🔢 Count words", "🔢 COUNTS"

    def __init__(self, folder: Path, config: HasSplitting, *, memory_limit: int | None = None, workers: int = 1) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.config = config
        self.memory_limit = memory_limit
        self.workers = workers

    def run(self, data: Iterable[Any], rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        path = self.folder / part_name(rank, world_size)
        info = count_to_file(
            (document.text for document in data),
            path,
            self.config,
            memory_limit=self.memory_limit,
            workers=self.workers,
        )
        self.stat_update("words", value=info.total)
        self.stat_update("distinct words", value=info.distinct)
        yield from ()


class AddCounts(PipelineStep):  # type: ignore[misc]
    """A step that adds up the counts in the files of all tasks of `CountWords`. The words are divided among the tasks by a
    hash. Each task writes its sums to a file.

    Args:
        counted: The folder in which `CountWords` wrote its files.
        tasks: Number of tasks of `CountWords`.
        folder: Folder for the sums.
        min_count: Words that occur fewer times than this in all texts together are left out.
    """

    name, type = "➕ Add counts", "🔢 COUNTS"

    def __init__(self, counted: Path, tasks: int, folder: Path, *, min_count: int = 1) -> None:
        super().__init__()
        self.counted = Path(counted)
        self.tasks = tasks
        self.folder = Path(folder)
        self.min_count = check_min_count(min_count)

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        buckets = range(BUCKETS * rank // world_size, BUCKETS * (rank + 1) // world_size)
        infos = _parts(self.counted, self.tasks)
        path = self.folder / part_name(rank, world_size)
        rare = RareWords(self.min_count)
        with scratch_directory(path) as folder:
            tables = rare.left_out_of(sum_of(infos, folder, buckets=buckets))
            info = write(path, tables, **_facts(infos), dropped=rare.report)
        self.stat_update("distinct words", value=info.distinct)
        yield from ()


class JoinCounts(PipelineStep):  # type: ignore[misc]
    """A step that joins the files of `AddCounts` into one file, which then contains the word counts of all texts.

    Args:
        summed: The folder in which `AddCounts` wrote its files.
        tasks: Number of tasks of `AddCounts`.
        path: File to write.
        sources: Sources of the texts, to record in the file.
    """

    name, type = "🧵 Join counts", "🔢 COUNTS"

    def __init__(self, summed: Path, tasks: int, path: Path, *, sources: Iterable[Source] = ()) -> None:
        super().__init__()
        self.summed = Path(summed)
        self.tasks = tasks
        self.path = Path(path)
        self.sources = list(sources)

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        infos = _parts(self.summed, self.tasks)
        tables = (table for file in infos for _, table in read(file))
        dropped = all_dropped(info.dropped for info in infos.values())
        facts = {**_facts(infos), "sources": self.sources, "dropped": lambda: dropped}
        info = write(self.path, tables, **facts, needs_words=True)
        self.stat_update("words", value=info.total)
        self.stat_update("distinct words", value=info.distinct)
        yield from ()


class TokenizeFiles(PipelineStep):  # type: ignore[misc]
    """A step that tokenizes a corpus, and writes the shards that `trainers.tokenize_corpus` would write. Each task tokenizes
    some of the ``parts`` of the corpus.

    When all tasks have finished, call `trainers.tokenize_corpus` with the same arguments. It writes the totals and any
    missing shards. If there are more tasks than ``parts``, the additional tasks have nothing to do.

    Args:
        files: As in `trainers.tokenize_corpus`, like the ``options`` (``format``, ``end_token`` and so on).
        tokenizer: A tokenizer, or the folder, file or repository from which `BPETokenizer.from_pretrained` loads it. It is
            loaded once, when the step is created.
        out: Folder in which all tasks write their shards.
        workers: Number of threads in a task.
    """

    name, type = "🔢 Tokenize", "🔢 TOKENS"

    def __init__(self, files: Any, tokenizer: Any, out: Path, *, workers: int = 1, **options: Any) -> None:
        super().__init__()
        self.job = TokenizingJob(files, tokenizer, out, **options)
        self.workers = workers

    @property
    def parts(self) -> int:
        """Number of parts of the corpus. A part is one large file, or several files with at most 128 MB together."""
        return len(self.job.parts)

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        there = self.job.begin()
        for part in range(rank, self.parts, world_size):
            done = there[part]
            if not done.complete:
                done = self.job.run_part(part, done, threads=self.workers)
            self.stat_update("documents", value=done.documents)
            self.stat_update("tokens", value=sum(shard.tokens for shard in done.shards))
        yield from ()


def part_name(rank: int, world_size: int) -> str:
    """Return the name of the file that a task writes, from the number of the task (``rank``) and the number of tasks.

    >>> part_name(3, 16)
    '00003-of-00016.parquet'
    """
    return f"{rank:05d}-of-{world_size:05d}.parquet"


def _parts(folder: Path, tasks: int) -> dict[Path, CountsInfo]:
    """Read the metadata of the files that the tasks wrote, and return it, keyed by file."""
    files = [folder / part_name(rank, tasks) for rank in range(tasks)]
    for file in files:
        if not file.exists():
            raise SGPEError(f"{file}: no such file: the task has not finished, or it wrote to another folder")
    infos = {file: read_info(file) for file in files}
    check_same_settings(infos)
    return infos


def _facts(infos: dict[Path, CountsInfo]) -> dict[str, Any]:
    """Return what to record in a file that combines files of word counts: their split settings and software versions."""
    return {"splitting": next(iter(infos.values())).splitting, "versions": all_versions(infos.values())}
