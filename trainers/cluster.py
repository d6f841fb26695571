"""Pipeline steps for counting and tokenizing on many machines. datatrove runs the steps locally, on Slurm or on Ray.

Three steps count words. Each task of `CountWords` writes the word counts of its share of the texts to a file. Each task of
`AddCounts` adds up these files for a share of the words, chosen by a hash. The single task of `JoinCounts` joins the sums.
A file gets its name only when it is complete, so a task that was killed can be repeated. All machines must see the same
folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.hub_datasets import read_dataset
from hf_sgpe.corpora.text_files import CorpusFile
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


class ReadCorpus(PipelineStep):  # type: ignore[misc]
    """A step that reads the texts of files and datasets, as `trainers.count_files` reads them. Each file is read by one
    task. Each task reads its own part of a dataset.

    Args:
        config: It names the special tokens, inside which long texts are never cut.
        datasets: The arguments of `trainers.read_dataset` for each dataset.
    """

    name, type = "📖 Corpus", "READER"

    def __init__(
        self,
        files: Sequence[CorpusFile],
        config: HasSplitting,
        *,
        text_field: str = "text",
        datasets: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__()
        self.files = tuple(files)
        self.config = config
        self.text_field = text_field
        self.datasets = list(datasets)

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        yield from data or ()
        for number, text in enumerate(self._texts(rank, world_size)):
            self.stat_update("texts")
            yield Document(text=text, id=f"{rank}/{number}")

    def _texts(self, rank: int, world_size: int) -> Iterator[str]:
        corpus = Corpus(self.files[rank::world_size], text_field=self.text_field)
        yield from corpus.read_texts(special_tokens=self.config.splitting.special_tokens or ())
        for dataset in self.datasets:
            yield from read_dataset(**dataset).part(rank, world_size)


class CountWords(PipelineStep):  # type: ignore[misc]
    """A step in which each task counts the words in its documents, and writes the counts to a file in ``folder``."""

    name, type = "🔢 Count words", "🔢 COUNTS"

    def __init__(self, folder: Path, config: HasSplitting, *, memory_limit: int | None = None, workers: int = 1) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.config = config
        self.memory_limit = memory_limit
        self.workers = workers

    def run(self, data: Iterable[Any], rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        path = self.folder / _part_name(rank, world_size)
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
    """A step that adds up the counts in the files of `CountWords`. The words are divided among the tasks by a hash.

    Args:
        counted: The folder of `CountWords`.
        tasks: The number of tasks of `CountWords`.
        folder: Folder in which each task writes its sums to a file.
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
        path = self.folder / _part_name(rank, world_size)
        rare = RareWords(self.min_count)
        with scratch_directory(path) as folder:
            tables = rare.left_out_of(sum_of(infos, folder, buckets=buckets))
            info = write(path, tables, **_facts(infos), dropped=rare.report)
        self.stat_update("distinct words", value=info.distinct)
        yield from ()


class JoinCounts(PipelineStep):  # type: ignore[misc]
    """A step that joins the files of `AddCounts` into one file with the word counts of all texts.

    Args:
        summed: The folder of `AddCounts`.
        tasks: The number of tasks of `AddCounts`.
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
    """A step that tokenizes a corpus, and writes the shards that `trainers.tokenize_corpus` would write. When all tasks have
    finished, call `trainers.tokenize_corpus` with the same arguments. It writes the totals and any missing shards.

    The arguments are those of `trainers.tokenize_corpus`. The tokenizer is loaded once, when the step is created.
    ``workers`` is the number of threads in a task.
    """

    name, type = "🔢 Tokenize", "🔢 TOKENS"

    def __init__(self, files: Any, tokenizer: Any, out: Path, *, workers: int = 1, **options: Any) -> None:
        super().__init__()
        self.job = TokenizingJob(files, tokenizer, out, **options)
        self.workers = workers

    @property
    def parts(self) -> int:
        """Number of parts of the corpus, and so of tasks with work: large files, or files with at most 128 MB together."""
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


def _part_name(rank: int, world_size: int) -> str:
    return f"{rank:05d}-of-{world_size:05d}.parquet"


def _parts(folder: Path, tasks: int) -> dict[Path, CountsInfo]:
    """Return the metadata of the files that the tasks wrote, keyed by file."""
    files = [folder / _part_name(rank, tasks) for rank in range(tasks)]
    for file in files:
        if not file.exists():
            raise SGPEError(f"{file}: no such file: the task has not finished, or it wrote to another folder")
    infos = {file: read_info(file) for file in files}
    check_same_settings(infos)
    return infos


def _facts(infos: dict[Path, CountsInfo]) -> dict[str, Any]:
    """Return what to record in a file that combines files of word counts."""
    return {"splitting": next(iter(infos.values())).splitting, "versions": all_versions(infos.values())}
