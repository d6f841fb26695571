"""Tools for benchmarks: functions that measure in turns and in separate processes, and records of the results as JSON lines.

`package_worker.py` imports this module in interpreters that lack hf_sgpe. The module therefore imports only the standard
library at the top; all other imports are inside functions.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[1]
SOURCES = "sources.json"
"""File next to downloaded texts. It maps the name of each text to its data set, commit, size and checksum."""
_LIBRARIES = ("hf-sgpe", "numpy", "tokenizers", "transformers", "torch")

T = TypeVar("T")


@contextlib.contextmanager
def command(description: str | None, run: Callable[[Any], None]) -> Iterator[Callable[..., Any]]:
    """Run a benchmark as a program: parse the options that the ``with`` block declares, call ``run`` with them, and exit.

    The yielded function works like ``add_argument`` of `argparse`, but it gives an option the type of its default, and adds
    the default to the help text.
    """
    from hf_sgpe.terminal.command import ArgumentParser, exit_code

    parser = ArgumentParser(description)

    def option(*names: str, help: str = "", **more: Any) -> None:
        if isinstance(more.get("default"), (int, float, str, Path)):
            more, help = {"type": type(more["default"])} | more, f"{help} (default: %(default)s)"
        parser.add_argument(*names, help=help, **more)

    yield option
    args = parser.parse_args()
    sys.exit(exit_code(lambda: run(args)))


# ---------------------------------------------------------------- time


class Sample(NamedTuple):
    """Wall-clock and CPU seconds of one turn."""

    seconds: float
    cpu: float


class _Comparison(NamedTuple):
    """The speed of a function, compared with the first function of `take_turns`.

    ``seconds`` (wall-clock time), ``cpu`` (CPU time) and ``ratio`` (speed divided by the speed of the first function) are
    medians over the turns. ``least`` and ``greatest`` are the lowest and the highest ratio.
    """

    seconds: float
    cpu: float
    ratio: float
    least: float
    greatest: float


def measured(work: Callable[[], T], cpu: Callable[[], float] = time.process_time) -> tuple[T, Sample]:
    """Run ``work``. Return its result, and the time taken. ``cpu`` returns the CPU seconds of a process."""
    begun, cpu_begun = time.perf_counter(), cpu()
    result = work()
    seconds = time.perf_counter() - begun
    return result, Sample(seconds, cpu() - cpu_begun)


def timed(work: Callable[[], object], pid: int | None = None) -> Callable[[], Sample]:
    """Wrap ``work`` in a function that runs it and returns the time taken. ``pid`` is the process whose CPU time counts."""
    if pid is None:
        return lambda: measured(work)[1]
    import psutil

    process = psutil.Process(pid)
    return lambda: measured(work, lambda: sum(process.cpu_times()[:2]))[1]


def take_turns(
    ways: Mapping[str, Callable[[], T]], turns: int, *, warm_up: bool = True, enough: Callable[[T], bool] = lambda _: False
) -> dict[str, list[T]]:
    """Run several functions in turns, so that other work on the machine affects all of them. Return the results by name.

    Args:
        ways: The functions, keyed by name. Every second turn runs them in reverse order.
        warm_up: Whether to run an additional first turn whose results are discarded.
        enough: Function that takes a result. If it returns True, for example because the turn was too long, the function
            that produced the result gets no more turns.
    """
    taken: dict[str, list[T]] = {name: [] for name in ways}
    for turn in range(-warm_up, turns):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            if not any(map(enough, taken[name])):
                result = ways[name]()
                if turn >= 0:
                    taken[name].append(result)
    return taken


def compare(taken: Mapping[str, Sequence[Sample]]) -> dict[str, _Comparison]:
    """Compare the speed of each function with the speed of the first, from the results of `take_turns`."""
    first = next(iter(taken.values()))
    compared = {}
    for name, samples in taken.items():
        ratios = [one.seconds / other.seconds for one, other in zip(first, samples, strict=True)]
        seconds, cpu = (median(column) for column in zip(*samples, strict=True))
        compared[name] = _Comparison(seconds, cpu, median(ratios), min(ratios), max(ratios))
    return compared


# ---------------------------------------------------------------- memory


def apart(function: Callable[..., T], *args: Any) -> T:
    """Call a function in a new process that does nothing else, so its peak memory is that of the function."""
    from hf_sgpe import SGPEError

    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(function, *args).result()
        except BrokenProcessPool:
            raise SGPEError("a measurement was killed, maybe because there is too little memory") from None


def forget_peak() -> int:
    """Reset the recorded peak memory of this process (only on Linux), and return the peak from then on, in bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_bytes(b"5")
    return peak_bytes()


def peak_bytes() -> int:
    """Return the peak memory of this process, in bytes."""
    with contextlib.suppress(OSError):
        if found := re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii")):
            return int(found[1]) * 1024
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ---------------------------------------------------------------- records


class Records:
    """The results of a benchmark, in a file with one JSON line per result.

    Args:
        path: The file. It is rewritten after each result.
        keep: Whether to keep the records that are already in the file. By default, they are dropped.
    """

    def __init__(self, path: Path, *, keep: bool = False) -> None:
        self.path = path
        self._records = {record["about"]: record for record in read_records(path)} if keep and path.exists() else {}

    @property
    def results(self) -> dict[str, Any]:
        return {about: record["result"] for about, record in self._records.items()}

    def add(self, about: str, result: Any, order: Iterable[str] = ()) -> None:
        """Add the result about a subject, or replace it, and rewrite the file. The subjects in ``order`` come first."""
        from hf_sgpe.files.atomic import write_text

        record = {"question": self.path.stem, "about": about, "result": result, **_surroundings()}
        self._records[about] = json.loads(json.dumps(record))
        names = dict.fromkeys([*(name for name in order if name in self._records), *self._records])
        self._records = {name: self._records[name] for name in names}
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in self._records.values())
        write_text(self.path, "".join(lines))


def read_records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _surroundings() -> dict[str, Any]:
    """Return this run's date, commit, command, machine, texts and load, and the versions of its libraries."""
    described = ["git", "-C", str(ROOT), "describe", "--always", "--tags", "--dirty"]
    commit = None
    with contextlib.suppress(FileNotFoundError):  # git is not installed
        commit = subprocess.run(described, capture_output=True, text=True).stdout.strip() or None
    versions = {}
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "date": f"{date.today()}",
        "commit": commit,
        "command": _command_line(sys.argv),
        "machine": machine(),
        "texts": _sources_of(sys.argv[1:]),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def _sources_of(words: Sequence[str]) -> dict[str, Any]:
    """Return the entries in sources.json for the texts that a command line names, as files or as folders of files."""
    entries: dict[str, Any] = {}
    for path in map(Path, re.split("[=,\0]", "\0".join(words))):
        file = (path if path.is_dir() else path.parent) / SOURCES
        if file.exists():
            known = json.loads(file.read_text(encoding="utf-8"))
            entries |= {name: entry for name, entry in known.items() if path.is_dir() or name == path.name}
    return entries


def _command_line(words: Sequence[str]) -> str:
    """Return a command line from ``sys.argv``. Only the program keeps its folder.

    >>> _command_line(["/here/benchmarks/speed.py", "out", "--text", "si=/there/si.txt"])
    'python benchmarks/speed.py out --text si=si.txt'
    """
    names = [re.sub(r"(?<![^=,])[^=,]*/(?=[^/=,])", "", word) for word in words[1:]]
    return shlex.join(["python", f"benchmarks/{Path(words[0]).name}", *names])


def machine() -> str:
    from hf_sgpe.vocabulary.codec import available_cores

    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        if found := re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8")):
            model = found[1]
    return f"{model}, {available_cores()} cores, {platform.system()}, Python {platform.python_version()}"


# ---------------------------------------------------------------- texts and models


def beginning(texts: Iterable[str], megabytes: float | None) -> Iterator[str]:
    """Yield texts from the start, until their total size in UTF-8 reaches ``megabytes`` (None: all)."""
    size = 0
    for text in texts:
        yield text
        size += len(text.encode())
        if megabytes is not None and size >= megabytes * 1e6:
            return


def lines_of(paths: Sequence[str], held_out: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of files, normalized to NFC. Leave out blank lines and the lines of the held-out texts."""
    from hf_sgpe.corpora.measured_text import normalized
    from trainers import find_files, read_lines

    left_out = {line for lines in held_out.values() for line in lines}
    lines = (normalized(line) for file in find_files(paths) for line in read_lines(file) if line.strip())
    return [line for line in lines if line not in left_out]


def held_out_lines(values: Sequence[str], most: int | None = None) -> dict[str, list[str]]:
    """Read held-out texts, given as ``FILE`` or ``NAME=FILE``. Return up to ``most`` lines of each, keyed by name."""
    from hf_sgpe import SGPEError
    from hf_sgpe.corpora.held_out import read_held_out

    held_out = {name: list(one)[:most] for name, one in read_held_out(values).items()}
    for name, lines in held_out.items():
        if not lines:
            raise SGPEError(f"{name} has no text to measure")
    return held_out


@contextlib.contextmanager
def small_model(rows: int, args: Any, *, heads: int, length: int) -> Iterator[tuple[str, int]]:
    """Save a tokenizer and a small Llama with random weights in a temporary folder. Yield the folder and the model's number
    of parameters. The model has ``rows`` embedding rows, ``args.layers`` layers and the hidden size ``args.width``.
    """
    import torch
    from transformers import LlamaForCausalLM

    from hf_sgpe import BPETokenizer
    from trainers.language_models.language_model import small_llama

    torch.manual_seed(1)
    model = LlamaForCausalLM(small_llama(rows, layers=args.layers, width=args.width, heads=heads, length=length))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        BPETokenizer.train_from_iterator(["some words"], 260).save(folder)
        yield folder, model.num_parameters()
