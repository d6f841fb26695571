"""Counting of words in many tasks, locally, on Slurm or on Ray, with the pipeline steps of `trainers.cluster`.

The resulting file is the same as that of a single process, even if tasks are killed. If the same count is started again,
finished tasks are not repeated. All machines must see the corpus, the work folder and the folder of the result.
"""

from __future__ import annotations

import logging
import multiprocessing.connection
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.hub_datasets import DatasetTexts, commit_of
from hf_sgpe.corpora.text_files import source_of
from hf_sgpe.counts.count_files import CountsInfo, read_info
from hf_sgpe.counts.task_plan import TaskPlan
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.files.resuming import LOCK_FILE, SETTINGS_FILE, alone_in, check_settings, keep_settings
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.vocabulary.codec import available_cores
from trainers.cluster import AddCounts, CountWords, JoinCounts, ReadCorpus
from trainers.counting.parallel_counting import MOST_PROCESSES, check_workers, process_context

logger = logging.getLogger(__name__)

_TASKS = 16
_MEMORY = 2_000_000_000  # bytes for each task
# A task that is killed this often will not succeed.
_TRIES = 5
# Seconds after which a step on Ray is reported if none of its tasks has ended.
_PATIENCE = 600
# The exit code of a task that received SIGTERM.
_TERMINATED = 128 + signal.SIGTERM


@dataclass(frozen=True)
class _Step:
    """One of the three steps of counting, with the pipeline that each task runs."""

    name: str
    pipeline: list[Any]
    tasks: int
    logs: Path

    def unfinished(self) -> list[int]:
        """Return the tasks that have not finished. The last is to run first."""
        completions = self.logs / "completions"
        return [rank for rank in reversed(range(self.tasks)) if not (completions / f"{rank:05d}").exists()]

    def failure(self, rank: int) -> SGPEError:
        """Return an error that says why a task failed, according to its log."""
        log = self.logs / "logs" / f"task_{rank:05d}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        message = next((line for line in reversed(lines) if "Error: " in line), "")
        return SGPEError(message.partition("Error: ")[2] or f"task {rank} failed: see {log}")


def corpus_apart_from_work(corpus: Corpus, out: Path, plan: TaskPlan) -> Corpus:
    """Return the corpus with absolute paths, and without the files that an earlier run wrote into the work folder."""
    work = plan.work_for(out)
    files = [file.resolve() if isinstance(file, Path) else file for file in corpus.files]
    apart = tuple(file for file in files if not (isinstance(file, Path) and work in file.parents))
    if work in out.resolve().parents or (len(apart) < len(files) and not _is_work_folder(work)):
        raise SGPEError(f"--work {work}: the corpus and --out must not be in this folder: give another work folder")
    return replace(corpus, files=apart)


def count_in_tasks(
    corpus: Corpus,
    out: Path,
    splitting: Splitting,
    plan: TaskPlan,
    *,
    workers: int | None = None,
    memory_limit: int | None = None,
    min_count: int = 1,
) -> CountsInfo | None:
    """Count the words of files and of streamed datasets, and write the counts to one file.

    Args:
        corpus: The corpus, as `corpus_apart_from_work` returns it.
        workers: Number of tasks that run at the same time. None for one per core on this machine, or for all on a cluster.
        memory_limit: Maximum memory of each task, in bytes; None for 2 GB.
        min_count: Words that occur fewer times than this in the whole corpus are left out.

    Returns:
        The metadata of the file; None on Slurm, where the file is not complete when the function returns.
    """
    out, work, files = out.resolve(), plan.work_for(out), corpus.files
    if workers is not None:
        check_workers(workers)
    memory = _MEMORY if memory_limit is None else memory_limit
    tasks, sources, datasets = plan.tasks or _TASKS, list(map(source_of, files)), []
    for texts in corpus.streams:
        if isinstance(texts, DatasetTexts):
            commit = commit_of(texts.name)
            sources.append({"name": texts.name, "split": texts.split, "commit": commit})
            options = {"split": texts.split, "revision": commit, "text_column": corpus.text_field, "streaming": True}
            datasets.append({"name": texts.name, **options})
    if not datasets:
        tasks = min(tasks, len(files))  # further tasks would have nothing to do
    settings = {
        "counting": splitting.to_dict(),
        "sources": sources,
        # A file can change and keep its size.
        "times": [file.stat().st_mtime_ns if isinstance(file, Path) else None for file in files],
        "tasks": tasks,
        "adding_tasks": plan.adding_tasks,
        "min_count": min_count,
        "text_field": corpus.text_field,
    }
    counted, summed, logs = work / "counted", work / "summed", work / "logs"
    reading = ReadCorpus(files, splitting, text_field=corpus.text_field, datasets=datasets)
    counting = CountWords(counted, splitting, memory_limit=memory)
    steps = [
        _Step("count", [reading, counting], tasks, logs / "count"),
        _Step("add", [AddCounts(counted, tasks, summed, min_count=min_count)], plan.adding_tasks, logs / "add"),
        _Step("join", [JoinCounts(summed, plan.adding_tasks, out, sources=sources)], 1, logs / "join"),
    ]
    with _locked_work_folder(work, settings, keep=plan.on == "slurm"):
        if plan.on == "slurm":
            _submit(steps, plan, workers, memory)
            return None
        if plan.on == "ray":
            _run_on_ray(steps, workers, memory / 1e9)
        else:
            _run_here(steps, workers)
    return read_info(out)


# ---------------------------------------------------------------- the work folder

_CONTENT = (SETTINGS_FILE, LOCK_FILE, "counted", "summed", "logs")


@contextmanager
def _locked_work_folder(work: Path, settings: dict[str, Any], *, keep: bool) -> Iterator[None]:
    """Check that finished tasks in the work folder had the same settings, and lock it. Then remove it, unless ``keep`` is
    set, or the block fails after some task has finished.
    """
    if work.is_dir() and any(work.iterdir()) and not _is_work_folder(work):
        raise SGPEError(f"--work {work} has other files: give an empty or a new folder")
    work.mkdir(parents=True, exist_ok=True)
    try:
        with alone_in(work, patience=0):
            check_settings(work, settings)
            keep_settings(work, settings)
            try:
                yield
            except BaseException:
                if not any((work / "logs").glob("*/completions/*")):
                    _remove(work)  # so that the next try can have other options
                raise
            if not keep:
                _remove(work)
    finally:
        with suppress(OSError):  # not empty, unless our files were removed
            work.rmdir()


def _is_work_folder(work: Path) -> bool:
    return all(file.name in _CONTENT for file in work.glob("*")) and (any((work / name).exists() for name in _CONTENT[:2]))


def _remove(work: Path) -> None:
    # The settings and the lock are last, in case the removal is interrupted.
    for name in reversed(_CONTENT):
        path = work / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            with suppress(PermissionError):  # on Windows, the lock file is removed when the lock is released
                path.unlink(missing_ok=True)


def _progress_bar(steps: list[_Step]) -> tqdm:
    total = sum(step.tasks for step in steps)
    return tqdm(total=total, unit=" tasks", desc="Counting", disable=not somebody_watches(), leave=False)


# ---------------------------------------------------------------- on this machine


def _run_here(steps: list[_Step], workers: int | None) -> None:
    """Run each task in its own process, and restart tasks that are killed."""
    # Imported once here, so that forked processes already have these modules; the second module imports pandas.
    import datatrove.executor  # noqa: F401
    import pyarrow.acero  # noqa: F401

    most = min(workers or available_cores(), MOST_PROCESSES)
    new_process: Any = process_context().Process  # type: ignore[attr-defined]
    with _progress_bar(steps) as bar:
        for step in steps:
            waiting = [(rank, 1) for rank in step.unfinished()]
            bar.update(step.tasks - len(waiting))
            running: dict[Any, tuple[Any, int, int]] = {}
            try:
                while waiting or running:
                    while waiting and len(running) < most:
                        rank, tries = waiting.pop()
                        process = new_process(target=_run_task, args=(step, rank))
                        process.start()
                        running[process.sentinel] = process, rank, tries
                    # There is a timeout because children of a killed process can keep its sentinel open.
                    multiprocessing.connection.wait(list(running), timeout=1)
                    for ended in [sentinel for sentinel, (process, _, _) in running.items() if not process.is_alive()]:
                        process, rank, tries = running.pop(ended)
                        was_killed = process.exitcode < 0 or process.exitcode == _TERMINATED
                        if process.exitcode == 0:
                            bar.update()
                        elif not was_killed:
                            raise step.failure(rank)
                        elif tries < _TRIES:
                            waiting.append((rank, tries + 1))
                        else:
                            raise SGPEError(
                                f"task {rank} was killed {_TRIES} times: give fewer --workers, or change --memory-limit"
                            )
            finally:
                for process, _, _ in running.values():
                    process.terminate()
                for process, _, _ in running.values():
                    process.join()


def _run_task(step: _Step, rank: int) -> None:
    # On Ctrl-C, the parent process sends SIGTERM to this process. Exiting with sys.exit removes half-written files.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(null, stream.fileno())
    _run_rank(step, rank)


def _run_rank(step: _Step, rank: int) -> None:
    """Run a task in this process."""
    # datatrove's executors would start other processes, which survive if this one is killed, or wait for ever in Ray.
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.utils.logging import logger as its_logger

    class OneTask(LocalPipelineExecutor):  # type: ignore[misc]
        def run(self) -> Any:
            return self._run_for_rank(rank)

    its_logger.remove()  # the task writes a log file
    os.environ["DATATROVE_COLORIZE_LOGS"] = "0"
    OneTask(step.pipeline, tasks=step.tasks, logging_dir=str(step.logs)).run()


# ---------------------------------------------------------------- on a cluster


def _submit(steps: list[_Step], plan: TaskPlan, workers: int | None, memory: int) -> None:
    """Submit a Slurm job for each step. Each job starts when the previous job has finished."""
    from datatrove.executor import SlurmPipelineExecutor
    from datatrove.utils.logging import logger as its_logger

    its_logger.remove()
    job = None
    for step in steps:
        job = SlurmPipelineExecutor(
            step.pipeline,
            tasks=step.tasks,
            workers=workers or -1,
            time=plan.time,
            partition=plan.partition,
            mem_per_cpu_gb=max(round(memory * 1.25e-9), 1),
            job_name=f"count-words-{step.name}",
            logging_dir=str(step.logs),
            slurm_logs_folder=str(step.logs / "slurm"),
            venv_path=str(Path(sys.prefix) / "bin" / "activate") if sys.prefix != sys.base_prefix else None,
            qos="",
            depends=job,
        )
    assert job is not None
    try:
        job.run()
    except subprocess.CalledProcessError as error:
        raise SGPEError(f"sbatch rejected the job (exit code {error.returncode}): see its message above") from None


def _run_on_ray(steps: list[_Step], workers: int | None, memory: float) -> None:
    """Run the steps on the Ray cluster of this machine, or on a new one, with ``memory`` gigabytes for a task."""
    try:
        import ray
    except ImportError:
        raise not_installed("--on ray needs Ray", "ray") from None

    ray.init(ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
    try:
        largest = max(node.get("Resources", {}).get("memory", 0) for node in ray.nodes()) / 1e9
        if memory > largest:
            raise SGPEError(f"--memory-limit {memory:g}GB: no machine of the cluster has more than {largest:.1f} GB")
        # Ray starts a task again if its process is killed.
        start = ray.remote(num_cpus=1, memory=int(memory * 1e9), max_retries=_TRIES - 1)(_run_rank).remote
        with _progress_bar(steps) as bar:
            for step in steps:
                waiting = step.unfinished()
                bar.update(step.tasks - len(waiting))
                running: dict[Any, int] = {}
                while waiting or running:
                    while waiting and len(running) < (workers or step.tasks):
                        rank = waiting.pop()
                        running[start(step, rank)] = rank
                    ended, _ = ray.wait(list(running), timeout=_PATIENCE)
                    if not ended:
                        ranks = ", ".join(map(str, sorted(running.values())))
                        logger.warning(
                            "no task has ended for %.0f minutes; tasks of the step %s that run or wait: %s; their logs are "
                            "in %s",
                            _PATIENCE / 60,
                            step.name,
                            ranks,
                            step.logs / "logs",
                        )
                    for task in ended:
                        rank = running.pop(task)
                        try:
                            ray.get(task)
                        except ray.exceptions.RayError:
                            raise step.failure(rank) from None
                        bar.update()
    finally:
        ray.shutdown()
