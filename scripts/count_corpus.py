"""Count the words of a corpus with many processes or machines into one file, for hf-sgpe train --counts.

The result is the same file that hf-sgpe count writes. If a run is interrupted, start it again with the same options:
finished tasks are not repeated. All machines must see the folder --work and the corpus, which may also be on the Hub:
hf://datasets/user/name/folder, or a dataset, which is streamed.

    python scripts/count_corpus.py corpus/ --out counts.parquet --script all --tasks 64 --workers 8
    python scripts/count_corpus.py corpus/ --out counts.parquet --executor slurm --partition cpu --time 4:00:00 --tasks 1000
    python scripts/count_corpus.py corpus/ --out counts.parquet --executor ray --tasks 1000 --workers 200
    python scripts/count_corpus.py --dataset wikimedia/wikipedia:20231101.si --out counts.parquet --script all
    hf-sgpe train --counts counts.parquet --script all --out my-tokenizer
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.hub_datasets import commit_of
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.files.atomic import atomic_file, check_file
from hf_sgpe.files.overwriting import check_new_file
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.vocabulary.codec import available_cores
from hf_sgpe.vocabulary.special_tokens import check_special_tokens
from trainers import find_files, source_of
from trainers.counting.parallel_counting import MOST_PROCESSES, check_workers

# A task that is killed this often will not succeed.
_TRIES = 5
# The exit code of a task that got SIGTERM.
_TERMINATED = 128 + signal.SIGTERM


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("corpus", nargs="*", help="files, folders or globs, as for hf-sgpe count")
    parser.add_argument("--dataset", action="append", default=[], help="NAME or NAME:CONFIG, streamed (repeatable)")
    parser.add_argument("--split", default="train", help="split of the dataset (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a file of that name")
    parser.add_argument("--work", type=Path, help="folder for intermediate files (default: --out plus .work)")
    parser.add_argument("--tasks", type=int, default=16, help="counting tasks, at most one per file (default: %(default)s)")
    parser.add_argument("--adding-tasks", type=int, default=4, help="tasks that add up the counts (default: %(default)s)")
    parser.add_argument("--min-count", type=int, default=1, help="as for hf-sgpe counts add (default: %(default)s)")
    parser.add_argument("--workers", type=int, help="tasks at the same time (default: one per core here, all on a cluster)")
    parser.add_argument("--memory-per-task", type=float, default=2.0, help="gigabytes for each task (default: %(default)s)")
    parser.add_argument(
        "--executor", choices=("local", "slurm", "ray"), default="local", help="where to run tasks (default: %(default)s)"
    )
    parser.add_argument("--partition", help="partition of Slurm")
    parser.add_argument("--time", default="24:00:00", help="time limit of a task on Slurm (default: %(default)s)")
    parser.add_argument("--recipe", default="hybrid", help="as for hf-sgpe count (default: %(default)s)")
    parser.add_argument("--script", action="append", help="as for hf-sgpe count (repeatable; default: all)")
    parser.add_argument("--pattern", default="o200k", help="as for hf-sgpe count (default: %(default)s)")
    parser.add_argument("--normalization", help="as for hf-sgpe count")
    parser.add_argument("--special-token", action="append", help="as for hf-sgpe count (repeatable)")
    parser.add_argument("--text-field", "--text-column", default="text", help="as for hf-sgpe count (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: count(args))


def count(args: Any) -> None:
    """Runs the tasks of the three steps that are not finished yet."""
    from trainers.cluster import AddCounts, CountWords, JoinCounts, ReadDataset, ReadFiles

    if not args.corpus and not args.dataset:
        raise SGPEError("nothing to count: give text files, or a dataset with --dataset")
    if args.min_count < 1:
        raise SGPEError("--min-count must be at least 1")
    if args.workers is not None:
        check_workers(args.workers)
    if not 0 < args.memory_per_task < 1e6:
        raise SGPEError("--memory-per-task must be a number of gigabytes above 0")
    for name in ("tasks", "adding_tasks"):
        if not 1 <= getattr(args, name) <= 99_999:
            raise SGPEError(f"--{name.replace('_', '-')} must be a number from 1 to 99999")
    if args.executor == "slurm" and not (args.partition and shutil.which("sbatch")):
        raise SGPEError("--executor slurm needs --partition and sbatch: start it on a machine that can submit jobs")
    options = {"scripts": args.script or ("all",), "special_tokens": args.special_token, "normalization": args.normalization}
    splitting = Splitting(
        recipe=args.recipe,
        pattern=args.pattern,
        **{name: value for name, value in options.items() if value is not None},
    )
    check_special_tokens(splitting.special_tokens or (), splitting.normalization or "none")
    check_file(args.out)
    out = args.out.resolve()
    work = (args.work or args.out.with_name(f"{args.out.name}.work")).resolve()
    corpus = [file.resolve() if isinstance(file, Path) else file for file in find_files(args.corpus)]
    # The work folder may be inside the folder of the corpus.
    files = [file for file in corpus if not (isinstance(file, Path) and work in file.parents)]
    if out in files:
        raise SGPEError(f"--out {args.out} is part of the corpus: give another name")
    check_new_file(args.out, overwrite=args.overwrite)
    if work in out.parents or (len(files) < len(corpus) and not _is_work_folder(work)):
        raise SGPEError(f"--work {work}: the corpus and --out must not be in this folder: give another one")
    if not args.dataset:
        args.tasks = min(args.tasks, len(files))  # more would have nothing to do
    sources = list(map(source_of, files))
    sources += [{"name": name, "split": args.split, "commit": commit_of(name)} for name in args.dataset]
    arguments = {name: getattr(args, name) for name in ("tasks", "adding_tasks", "min_count", "text_field")}
    # A file may change and keep its size.
    times = [file.stat().st_mtime_ns if isinstance(file, Path) else None for file in files]
    settings = {"counting": splitting.to_dict(), "sources": sources, "times": times, **arguments}

    counted, summed = work / "counted", work / "summed"
    memory = int(args.memory_per_task * 1e9)
    reading: list[Any] = [ReadFiles(files, splitting, text_field=args.text_field)] if files else []
    for source in sources[len(files) :]:
        reader_options = {"split": args.split, "revision": source["commit"], "text_column": args.text_field}
        reading.append(ReadDataset(source["name"], streaming=True, **reader_options))
    steps = {
        "count": ([*reading, CountWords(counted, splitting, memory_limit=memory)], args.tasks),
        "add": ([AddCounts(counted, args.tasks, summed, min_count=args.min_count)], args.adding_tasks),
        "join": ([JoinCounts(summed, args.adding_tasks, out, sources=sources)], 1),
    }
    with _locked_work_folder(work, settings, keep=args.executor == "slurm"):
        {"local": _run_here, "slurm": _submit, "ray": _run_on_ray}[args.executor](steps, work, args)
    if args.executor == "slurm":
        print(f"submitted: when the last job is done, {args.out} is complete and {work} can be removed")
        return
    from hf_sgpe.counts.count_files import read_info

    info = read_info(args.out)
    print(f"{args.out}: {info.summary()}")


# ---------------------------------------------------------------- the work folder

_SETTINGS, _LOCK = "settings.json", ".lock"
_CONTENT = (_SETTINGS, _LOCK, "counted", "summed", "logs")


@contextmanager
def _locked_work_folder(work: Path, settings: dict[str, Any], *, keep: bool) -> Iterator[None]:
    """Locks the work folder and checks that its finished tasks are of a run with the same settings.

    The folder is removed after the block, unless ``keep`` is set; after a failure only if no task has finished.
    """
    from filelock import FileLock, Timeout

    if work.is_dir() and any(work.iterdir()) and not _is_work_folder(work):
        raise SGPEError(f"--work {work}: has other files: give an empty or a new folder")
    work.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(work / _LOCK, timeout=0):
            content = json.dumps(settings, ensure_ascii=False, indent=1)
            settings_file = work / _SETTINGS
            if settings_file.exists() and settings_file.read_text(encoding="utf-8") != content:
                raise SGPEError(f"{work}: holds parts of another count: give another --work, or remove this folder")
            with atomic_file(settings_file) as file:
                file.write_text(content, encoding="utf-8", newline="\n")
            try:
                yield
            except BaseException:
                if not any((work / "logs").glob("*/completions/*")):
                    _remove(work)  # so that a next try may have other options
                raise
            if not keep:
                _remove(work)
    except Timeout:
        raise SGPEError(f"{work}: another run is using this folder: wait for it, or give another --work") from None
    finally:
        with suppress(OSError):  # it is not empty, unless our files were removed
            work.rmdir()


def _is_work_folder(work: Path) -> bool:
    return all(file.name in _CONTENT for file in work.glob("*")) and ((work / _SETTINGS).exists() or (work / _LOCK).exists())


def _remove(work: Path) -> None:
    """Removes our files; last those that tell whose they are, in case that this is broken off."""
    for name in reversed(_CONTENT):
        path = work / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            with suppress(PermissionError):  # the lock on Windows, which removes it when it is given back
                path.unlink(missing_ok=True)


# ---------------------------------------------------------------- on this machine


def _run_here(steps: dict[str, Any], work: Path, args: Any) -> None:
    """Runs each task in its own process, and starts it again if it is killed."""
    # Imported here once, so that forked processes have the modules already.
    import datatrove.executor  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    from tqdm import tqdm

    workers = min(args.workers or available_cores(), MOST_PROCESSES)
    total = sum(tasks for _, tasks in steps.values())
    with tqdm(total=total, unit=" tasks", desc="Counting", disable=not somebody_watches(), leave=False) as bar:
        for name, (pipeline, tasks) in steps.items():
            waiting = [
                (rank, 1)
                for rank in reversed(range(tasks))
                if not (work / "logs" / name / f"completions/{rank:05d}").exists()
            ]
            bar.update(tasks - len(waiting))
            running: dict[Any, tuple[Any, int, int]] = {}
            try:
                while waiting or running:
                    while waiting and len(running) < workers:
                        rank, tries = waiting.pop()
                        process = _context().Process(target=_run_task, args=(pipeline, tasks, rank, work / "logs" / name))
                        process.start()
                        running[process.sentinel] = process, rank, tries
                    # The timeout, because children of a killed process can keep its sentinel open.
                    multiprocessing.connection.wait(list(running), timeout=1)
                    for ended in [sentinel for sentinel, (process, _, _) in running.items() if not process.is_alive()]:
                        process, rank, tries = running.pop(ended)
                        if process.exitcode == 0:
                            bar.update()
                        elif _was_killed(process.exitcode) and tries < _TRIES:
                            waiting.append((rank, tries + 1))
                        else:
                            raise SGPEError(_reason(work / "logs" / name, rank, process.exitcode))
            finally:
                for process, _, _ in running.values():
                    process.terminate()
                for process, _, _ in running.values():
                    process.join()


def _run_task(pipeline: list[Any], tasks: int, rank: int, logs: Path) -> None:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.utils.logging import logger

    # On Ctrl-C the parent process ends this one with SIGTERM; exiting by sys.exit removes half-written files.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    logger.remove()  # the task writes a log file
    os.environ["DATATROVE_COLORIZE_LOGS"] = "0"
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(null, stream.fileno())

    class OneTask(LocalPipelineExecutor):  # type: ignore[misc]
        # The executor's own run starts another process, which would survive if this one is killed.
        def run(self) -> Any:
            return self._run_for_rank(rank)

    OneTask(pipeline, tasks=tasks, logging_dir=str(logs)).run()


def _context() -> Any:
    # A forked process starts at once; only on Linux is forking safe enough.
    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def _was_killed(exit_code: int) -> bool:
    return exit_code < 0 or exit_code == _TERMINATED


def _reason(logs: Path, rank: int, exit_code: int) -> str:
    """The reason why a task failed, from its log."""
    if _was_killed(exit_code):
        return f"task {rank} was killed {_TRIES} times: give fewer --workers, or change --memory-per-task"
    log = logs / "logs" / f"task_{rank:05d}.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    message = next((line for line in reversed(lines) if "Error: " in line), "")
    return message.partition("Error: ")[2] or f"task {rank} failed: see {log}"


# ---------------------------------------------------------------- on a cluster


def _submit(steps: dict[str, Any], work: Path, args: Any) -> None:
    """Submits three jobs, each of which starts when the one before is done."""
    from datatrove.executor import SlurmPipelineExecutor
    from datatrove.utils.logging import logger

    logger.remove()
    job = None
    for name, (pipeline, tasks) in steps.items():
        job = SlurmPipelineExecutor(
            pipeline,
            tasks=tasks,
            workers=args.workers or -1,
            time=args.time,
            partition=args.partition,
            mem_per_cpu_gb=max(round(args.memory_per_task * 1.25), 1),
            job_name=f"count-words-{name}",
            logging_dir=str(work / "logs" / name),
            slurm_logs_folder=str(work / "logs" / name / "slurm"),
            venv_path=str(Path(sys.prefix) / "bin" / "activate") if sys.prefix != sys.base_prefix else None,
            qos="",
            depends=job,
        )
    assert job is not None
    try:
        job.run()
    except subprocess.CalledProcessError as error:
        raise SGPEError(f"sbatch rejected the job (exit code {error.returncode}): see its message above") from None


def _run_on_ray(steps: dict[str, Any], work: Path, args: Any) -> None:
    """Runs one step after another on the Ray cluster of this machine, or on a local one if there is none."""
    try:
        import ray
    except ImportError:
        raise not_installed("--executor ray needs Ray", "ray") from None
    from datatrove.executor import RayPipelineExecutor
    from datatrove.utils.logging import logger

    logger.remove()
    ray.init(ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
    try:
        largest = max(node.get("Resources", {}).get("memory", 0) for node in ray.nodes()) / 1e9
        if args.memory_per_task > largest:
            raise SGPEError(
                f"--memory-per-task {args.memory_per_task:g}: no machine of the cluster has more than {largest:.1f}"
            )
        for name, (pipeline, tasks) in steps.items():
            logs = work / "logs" / name
            RayPipelineExecutor(
                pipeline,
                tasks=tasks,
                workers=args.workers or -1,
                mem_per_cpu_gb=args.memory_per_task,
                logging_dir=str(logs),
            ).run()
            for rank in range(tasks):
                if not (logs / "completions" / f"{rank:05d}").exists():
                    raise SGPEError(_reason(logs, rank, 1))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    sys.exit(main())
