#!/usr/bin/env python3
"""Compares training, encoding and decoding with other packages, if they are installed: same bytes, one run, in turns.

Every package runs in its own process (`benchmark_peers.py`), which reports its peak memory. Before any speed is printed,
results are compared with a reference: `tokenizers` for ids, and `rustbpe` for merges (of equally frequent pairs, the one
with the smallest ids first). Different results are marked. Writes benchmark.md, benchmark.json and benchmark.png.

    python scripts/benchmark.py out/ --text english=en.txt.xz --text code=code.jsonl.xz --text sinhala=si.txt.xz \\
        --text hindi=hi.txt.xz --text tamil=ta.txt.xz --text mixed=en.txt.xz,si.txt.xz,hi.txt.xz,ta.txt.xz,code.jsonl.xz

A package that cannot be installed beside the others runs with an interpreter of its own, and so does another build of a
package, as a row of its own:

    … --python tokenizers-1=venv-1/bin/python --python hf_sgpe@before=venv-before/bin/python
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import multiprocessing
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import benchmark_peers
from benchmark_peers import MEASURES, ONE_THREAD_ONLY, PACKAGES, TRAINERS, WITHOUT_CACHE

ONE_REGEX = " ?[\u0d80-\u0dff\u200d]+| ?[^ \\t\\n\\r]|[ \\t\\n\\r]"
"""A split pattern for Sinhala that keeps conjuncts whole in all packages."""
RECIPES = {
    "english": ("gpt2", "o200k"),
    "code": ("cl100k",),
    "sinhala": ("hybrid", ONE_REGEX),
    "hindi": ("hybrid",),
    "tamil": ("hybrid",),
    "mixed": ("hybrid",),
}
"""How each kind of text is cut: by the recipe ``hybrid``, or by ``bpe`` with this split pattern; otherwise gpt2."""
SCRIPTS = {"sinhala": ("sinhala",), "hindi": ("devanagari",), "tamil": ("tamil",), "mixed": ("all",)}
PARTS = (*MEASURES, "training", "processes", "growth", "syllables")
PROCESSES = ("hf_sgpe", "rustbpe", "gigatoken", "tokenizers")
_TIMEOUT = 900  # seconds for one answer of a package
_LEGEND = """Tables of encoding give MB of UTF-8 a second, first pass / again, and below how many times as fast hf_sgpe is.
batch: many texts in the form that costs the package least; lists: the same as Python lists; 5,000 and 200 characters: single
texts, one by one, as lists; tok(list): in transformers, or a drop-in for its class; map: `datasets.map(batched=True)`;
decode: ids of many texts, as lists, to text. `hybrid` normalizes to NFC and tiktoken does not, so other texts differ."""

Docs = list[str]
Results = dict[str, dict[str, Any]]
"""By row of a table, which is a package or, after an @, a certain build of it."""


# ---------------------------------------------------------------- taking turns


@dataclass
class Settings:
    """Where packages run, and how often they are measured."""

    pythons: dict[str, str]
    repeats: int
    long: float
    """A package that takes more seconds for a measure gets no more turns of it."""
    threads: int
    core: int | None
    """Measurements with one thread are pinned to this core of the processor."""
    cpu_time: bool
    """Speeds with one thread are by the processor's time, in which other processes have no part."""

    def python(self, row: str) -> str:
        return self.pythons.get(row, sys.executable)


class Worker:
    """The process of one package, which answers questions.

    Args:
        job: What `benchmark_peers.work` is to do; texts may be long, so they go through the pipe.
    """

    def __init__(self, row: str, settings: Settings, threads: int, **job: Any) -> None:
        self.row, self.package, self.threads = row, package_of(row), threads
        self.failures: dict[str, str] = {}
        environment = {
            **os.environ,
            "RAYON_NUM_THREADS": str(threads),
            "TOKENIZERS_PARALLELISM": str(threads > 1).lower(),
            "TRANSFORMERS_VERBOSITY": "error",
        }
        self._questions, theirs = multiprocessing.Pipe()
        command = [settings.python(row), benchmark_peers.__file__, "work", str(theirs.fileno())]
        self._process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        core = settings.core if threads == 1 else None
        with contextlib.suppress(OSError):  # it has ended, which the first question will show
            self._questions.send({"name": self.package, "threads": threads, "core": core, **job})

    def ask(self, what: str, measure: str) -> Any:
        """The answer; None after a failure in this measure."""
        if measure in self.failures:
            return None
        answer: Any = f"no answer after {_TIMEOUT} s"
        try:
            self._questions.send((what, measure))
            if self._questions.poll(_TIMEOUT):
                answer = self._questions.recv()
        except (EOFError, OSError):
            answer = "the process has ended"
        if isinstance(answer, str):
            self.failures[measure] = answer
            return None
        return answer

    def close(self) -> None:
        self._questions.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def take_turns(workers: Sequence[Worker], measure: str, docs: Docs, settings: Settings, reference: str) -> Results:
    """Of each row medians of ``cold`` and ``warm`` (MB/s), ``peak`` (bytes) and ``differs`` (share); or ``failure``.

    What a process has taken at its peak says something of its first measure only.
    """
    with_peak = measure in ("batch", "train")
    seconds: dict[str, dict[str, list[float]]] = {worker.row: {"cold": [], "warm": []} for worker in workers}
    cpu_seconds: dict[str, dict[str, list[float]]] = {worker.row: {"cold": [], "warm": []} for worker in workers}
    for worker in settings.repeats * tuple(workers):
        if max(chain(*seconds[worker.row].values()), default=0) > settings.long:
            continue
        once = measure in ("train", "decode") or worker.package in WITHOUT_CACHE
        for how in ("cold",) if once else ("cold", "warm"):
            answer = worker.ask(how, measure)
            if answer is not None:
                seconds[worker.row][how].append(answer[0])
                cpu_seconds[worker.row][how].append(answer[1])
    results: Results = {}
    outputs: dict[str, list[bytes]] = {}
    total = megabytes(docs)
    for worker in workers:
        peak = worker.ask("peak", measure) if with_peak else None
        output = worker.ask("check", measure)
        if measure in worker.failures:
            results[worker.row] = {"failure": worker.failures[measure]}
            continue
        counted = (cpu_seconds if settings.cpu_time and worker.threads == 1 else seconds)[worker.row]
        speeds = {how: total / statistics.median(turns) for how, turns in counted.items() if turns}
        taken = {"seconds": seconds[worker.row], "cpu seconds": cpu_seconds[worker.row]}
        results[worker.row] = {**speeds, **taken, **({"peak": peak} if with_peak else {})}
        if output:
            outputs[worker.row] = output
    expected = outputs.get(reference) or outputs.get("hf_sgpe") or []
    for row, output in outputs.items():
        results[row]["differs"] = share_of_differences(output, expected)
    return results


def share_of_differences(output: list[bytes], expected: list[bytes]) -> float:
    differing = sum(a != b for a, b in zip(output, expected, strict=False))
    return (differing + abs(len(output) - len(expected))) / max(len(expected), 1)


def measure_encoding(
    rows: Sequence[str], docs: Docs, folder: Path, measures: Sequence[str], settings: Settings
) -> dict[str, Results]:
    """The results of each column: a measure, and a number of threads."""
    columns: dict[str, Results] = {}
    for threads in sorted({1, settings.threads}):
        chosen = [measure for measure in measures if threads == 1 or measure not in ONE_THREAD_ONLY]
        with contextlib.ExitStack() as stack:
            job = {"texts": docs, "folder": str(folder)}
            workers = [stack.enter_context(contextlib.closing(Worker(row, settings, threads, **job))) for row in rows]
            for measure in chosen:
                columns[f"{measure}, {threads}"] = take_turns(workers, measure, docs, settings, "tokenizers")
    order = [f"{measure}, {threads}" for measure in measures for threads in sorted({1, settings.threads})]
    return {column: columns[column] for column in order if column in columns}


def measure_training(rows: Sequence[str], docs: Docs, pattern: str, size: int, settings: Settings, threads: int) -> Results:
    with contextlib.ExitStack() as stack:
        job = {"texts": docs, "pattern": pattern, "size": size}
        workers = [stack.enter_context(contextlib.closing(Worker(row, settings, threads, **job))) for row in rows]
        return take_turns(workers, "train", docs, settings, "rustbpe")


def measure_processes(rows: Sequence[str], file: Path, pattern: str, size: int, settings: Settings) -> Results:
    """Training as a whole process: ``seconds`` and their median ``cold``, ``peak``, ``differs``; or ``failure``."""
    tokens: dict[str, list[bytes]] = {}
    results: Results = {}

    def train(row: str, *out: str) -> tuple[float, int] | None:
        arguments = [package_of(row), str(file), pattern, str(size), str(settings.threads), *out]
        command = [settings.python(row), benchmark_peers.__file__, "train", *arguments]
        environment = {**os.environ, "RAYON_NUM_THREADS": str(settings.threads)}
        started = time.perf_counter()
        process = subprocess.run(command, capture_output=True, text=True, env=environment)
        taken = time.perf_counter() - started
        if process.returncode == 0:
            return taken, int(process.stdout.splitlines()[-1])
        errors = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
        results[row] = {"failure": errors[-1][:300]}
        return None

    with tempfile.TemporaryDirectory() as temporary:
        for row in rows:  # not timed: writes the tokens, and has the file in memory for all
            out = Path(temporary) / "tokens.json"
            if train(row, str(out)):
                tokens[row] = json.loads(out.read_text(encoding="utf-8"))
                results[row] = {"seconds": []}
        for row in settings.repeats * tuple(tokens):
            if done := train(row):
                results[row]["seconds"].append(done[0])
                results[row]["peak"] = max(results[row].get("peak", 0), done[1])
    expected = tokens.get("rustbpe") or tokens.get("hf_sgpe") or []
    for row in tokens:
        if "failure" not in results[row]:
            results[row]["cold"] = statistics.median(results[row]["seconds"])
            results[row]["differs"] = share_of_differences(tokens[row], expected)
    return results


# ---------------------------------------------------------------- texts and tokenizers


def megabytes(docs: Docs) -> float:
    return sum(len(doc.encode()) for doc in docs) / 1e6


def read_documents(paths: str, megabytes: float) -> Docs:
    """The beginning of a corpus, in documents of a few thousand characters; of several, as much of each, in turns."""
    from trainers import find_files, read_texts

    names = paths.split(",")
    mixed: list[Docs] = []
    for name in names:
        docs, size = [], 0.0
        texts = (text for file in find_files([name]) for text in read_texts(file))
        for piece in chain.from_iterable(map(pieces, texts)):
            docs.append(piece)
            size += len(piece.encode()) / 1e6
            if size >= megabytes / len(names):
                break
        mixed.append(docs)
    longest = max(map(len, mixed))
    return [docs[n] for n in range(longest) for docs in mixed if n < len(docs)]


def pieces(text: str, characters: int = 4000) -> Iterator[str]:
    start = 0
    while start < len(text):
        cut = text.find("\n", start + characters) + 1 or len(text)
        yield text[start:cut]
        start = cut


def trained(docs: Docs, folder: Path, kind: str, recipe: str, vocab_size: int) -> Path:
    """Saves a tokenizer, also as tiktoken takes it."""
    from hf_sgpe.formats.tiktoken import one_pattern
    from trainers import TokenizerTrainer, TrainingConfig

    # No special tokens: packages differ in whether they recognise them in text, and some of the code contains them.
    hybrid = {"recipe": "hybrid", "scripts": SCRIPTS.get(kind, ("all",)), "pattern": "o200k"}
    options: dict[str, Any] = hybrid if recipe == "hybrid" else {"recipe": "bpe", "pattern": recipe}
    config = TrainingConfig(vocab_size, special_tokens=(), **options)
    trainer = TokenizerTrainer(config, progress=False)
    tokenizer = trainer.learn(trainer.count(iterator=docs))
    tokenizer.save(folder)
    ranks = {base64.b64encode(token).decode(): rank for token, rank in tokenizer.get_mergeable_ranks()}
    content = {"pattern": one_pattern(tokenizer.splitting), "ranks": ranks}
    (folder / "tiktoken.json").write_text(json.dumps(content), encoding="utf-8", newline="\n")
    return folder


def syllables_per_second(docs: Docs) -> dict[str, float]:
    """Words per second of the native LinguisTrie, for the ends of syllables and for strings."""
    from hf_sgpe import LinguisTrie

    trie, text = LinguisTrie(), "".join(docs)
    words = len(text.split())
    ways: dict[str, Callable[[str, bool], Any]] = {"ends": trie.ends, "tokenize": trie.tokenize}
    return {name: words / statistics.median(timeit.repeat(partial(way, text, True), number=1)) for name, way in ways.items()}


# ---------------------------------------------------------------- tables and the chart


def encoding_table(title: str, columns: dict[str, Results]) -> str:
    """Rows are packages. A cell: first pass / again, and below how many times as fast hf_sgpe is."""
    rows = list(dict.fromkeys(chain.from_iterable(columns.values())))
    heads = " | ".join(map(head, columns))
    lines = [f"### {title}", "", f"| package | {heads} | peak memory | same result |"]
    lines.append(f"|---|{'---:|' * len(columns)}---:|---|")
    notes = []
    for row in rows:
        results = {column: columns[column][row] for column in columns}
        failures = {column: result["failure"] for column, result in results.items() if "failure" in result}
        cells = [cell(row, results[column], columns[column].get("hf_sgpe", {})) for column in columns]
        peaks = [result["peak"] for column, result in results.items() if column.startswith("batch") and "peak" in result]
        peak = f"{peaks[0] / 1e6:.0f} MB" if peaks else "–"
        same = "–" if len(failures) == len(columns) else sameness(results)
        lines.append(f"| {row} | {' | '.join(cells)} | {peak} | {same} |")
        for reason in dict.fromkeys(failures.values()):
            where = [column for column, failure in failures.items() if failure == reason]
            measures = dict.fromkeys(measure_label(column.split(", ")[0]) for column in where)
            affected = "" if len(where) == len(columns) else f", {', '.join(measures)}"
            shown = textwrap.shorten(reason.replace("|", "¦"), 160, placeholder=" …")
            notes.append(f"- {row}{affected}: {shown}")
    return "\n".join([*lines, "", *notes, ""] if notes else [*lines, ""])


def head(column: str) -> str:
    measure, threads = column.split(", ")
    name = measure_label(measure)
    return name if measure in ONE_THREAD_ONLY else f"{name}, {threads} thread{'s' * (threads != '1')}"


def measure_label(measure: str) -> str:
    return f"{int(measure):,} characters" if measure.isdigit() else {"tok": "tok(list)"}.get(measure, measure)


def cell(row: str, result: dict[str, Any], ours: dict[str, Any]) -> str:
    ways = [how for how in ("cold", "warm") if how in result]
    speeds = " / ".join(number(result[how]) for how in ways)
    if row == "hf_sgpe" or "cold" not in ours or not ways:
        return speeds or "–"
    # A package that is no faster the second time has one speed, to which both of ours compare.
    compared = ("cold", "warm") if "warm" in ours and ways == ["cold"] else ways
    ratios = [times(ours[how] / result.get(how, result["cold"])) for how in compared if how in ours]
    return f"{speeds}<br>{' / '.join(ratios)}"


def number(speed: float) -> str:
    return f"{speed:.1f}" if speed < 100 else f"{speed:.0f}"


def times(ratio: float) -> str:
    return f"{ratio:.2g}×" if ratio < 10 else f"{ratio:.0f}×"


def sameness(results: dict[str, dict[str, Any]]) -> str:
    shares = {column: result["differs"] for column, result in results.items() if "differs" in result}
    if not shares:
        return "not comparable"
    worst = max(shares.values())
    return "yes" if worst == 0 else f"**no**: {worst:.2%} differ" if worst >= 0.0001 else f"**no**: {worst:.1e} differ"


def training_table(title: str, results: Results, unit: str = "MB/s") -> str:
    ours = results.get("hf_sgpe", {}).get("cold", 0)
    lines = [
        f"### {title}",
        "",
        f"| package | {unit} | hf_sgpe is | peak memory | same result |",
        "|---|---:|---:|---:|---|",
    ]
    for row, result in results.items():
        if "failure" in result:
            lines.append(f"| {row} | – | – | – | {textwrap.shorten(result['failure'].replace('|', '¦'), 80)} |")
            continue
        ratio = ours / result["cold"] if unit == "MB/s" else result["cold"] / max(ours, 1e-9)
        shown = "" if row == "hf_sgpe" or not ours else times(ratio)
        speed = f"{result['cold']:.2f}" if unit == "seconds" else number(result["cold"])
        lines.append(f"| {row} | {speed} | {shown} | {result['peak'] / 1e6:.0f} MB | {sameness({'': result})} |")
    return "\n".join(lines) + "\n"


def growth_table(title: str, growth: dict[str, Results]) -> str:
    rows = list(dict.fromkeys(row for results in growth.values() for row in results))
    lines = [f"### {title}", "", f"| package | {' | '.join(growth)} |", f"|---|{'---:|' * len(growth)}"]
    for row in rows:
        cells = [f"{results[row]['cold']:.1f}" if "cold" in results.get(row, {}) else "–" for results in growth.values()]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def picture(panels: dict[str, Results], path: Path) -> None:
    """Bars of each package's first pass."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    height = (len(panels) + 2) // 3
    figure, axes = pyplot.subplots(height, 3, figsize=(13, 3.2 * height), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (title, measured) in zip(axes.flat, panels.items(), strict=False):
        shown = {row: result for row, result in measured.items() if "failure" not in result}
        ordered = sorted(shown, key=lambda row: shown[row]["cold"])
        values = [shown[row]["cold"] for row in ordered]
        colours = ["#d9480f" if package_of(row) == "hf_sgpe" else "#8a94a0" for row in ordered]
        bars = axis.barh(ordered, values, color=colours)
        labels = [
            f"{value:.0f}" + ("" if not shown[row].get("differs") else " *")
            for row, value in zip(ordered, values, strict=True)
        ]
        axis.bar_label(bars, labels, padding=3, fontsize=9)
        axis.set_title(textwrap.fill(title, 40), fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.15)
        axis.set_xlabel("MB of UTF-8 per second", fontsize=9)
    figure.text(0.995, 0.005, "* result differs from the reference", ha="right", fontsize=8, color="#666666")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


@dataclass
class Report:
    """Everything measured so far, written after each part, because the whole takes long."""

    out: Path
    texts: list[str]
    everything: dict[str, Any] = field(default_factory=dict)
    panels: dict[str, Results] = field(default_factory=dict)

    def add(self, key: str, text: str, results: Any, panel: Results | None = None) -> None:
        self.everything[key] = results
        self.texts.append(text)
        if panel:
            self.panels[key] = panel
        print(text, flush=True)
        (self.out / "benchmark.md").write_text("\n".join(self.texts), encoding="utf-8", newline="\n")
        (self.out / "benchmark.json").write_text(json.dumps(self.everything, indent=1), encoding="utf-8", newline="\n")


# ---------------------------------------------------------------- what is there, and the command


def package_of(row: str) -> str:
    return row.partition("@")[0]


def recipe_label(recipe: str) -> str:
    """The name of a recipe or pattern, for titles."""
    return recipe if re.fullmatch(r"[\w-]+", recipe) else "one regex"


def machine() -> str:
    from hf_sgpe.vocabulary.codec import available_cores

    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]  # type: ignore[index]
    return f"{model}, {available_cores()} cores, {platform.system()}, Python {platform.python_version()}"


def installed(packages: Sequence[str], skipped: Sequence[str], settings: Settings) -> dict[str, str]:
    """The rows that can be measured, with their versions."""
    builds = [row for row in settings.pythons if "@" in row]
    rows = [row for package in packages for row in (package, *(row for row in builds if package_of(row) == package))]
    found = {}
    for row in rows:
        if row in skipped or package_of(row) in skipped:
            continue
        command = [settings.python(row), benchmark_peers.__file__, "versions", package_of(row)]
        version = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[package_of(row)]
        if version:
            found[row] = version
        else:
            print(f"{row} is not installed, or not for {settings.python(row)}", file=sys.stderr)
    return found


def main() -> int:
    from hf_sgpe.terminal.command import ArgumentParser, exit_code

    parser = ArgumentParser(__doc__)
    parser.add_argument("out", type=Path, help="folder for the tables and the chart")
    parser.add_argument(
        "--text",
        action="append",
        required=True,
        metavar="NAME=FILE[,FILE…]",
        help=f"text to measure on (repeatable); names with recipes of their own: {', '.join(RECIPES)}",
    )
    parser.add_argument("--megabytes", type=float, default=64, help="size of each text to use (default: %(default)s)")
    parser.add_argument("--vocab-size", type=int, default=32_000, help="number of tokens (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each package (default: %(default)s)")
    parser.add_argument("--growth", default="1,4,16", help="more sizes to measure, in megabytes (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads to measure with, besides one (default: one for each core)")
    parser.add_argument("--skip", default="", help="packages to leave out, separated by commas")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part to run (repeatable; default: all)")
    parser.add_argument(
        "--recipe", action="append", help="hybrid, or a split pattern, to use in place of those of the text (repeatable)"
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="NAME[@BUILD]=FILE",
        help="the interpreter that has this package, or another build of it (repeatable)",
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="with one thread, count the processor's time: for machines that have other work to do",
    )
    parser.add_argument(
        "--long", type=float, default=3, help="seconds after which a package gets no more turns (default: %(default)s)"
    )
    parser.add_argument("--pin", action="store_true", help="keep what uses one thread on one core (Linux)")
    parser.add_argument(
        "--processes-megabytes", type=float, default=60, help="text for training in whole processes (default: %(default)s)"
    )
    args = parser.parse_args()
    known = {**PACKAGES, **TRAINERS}
    for option in ("--text", "--python"):
        for value in getattr(args, option[2:]):
            name, _, path = value.partition("=")
            if not (name and path):
                parser.error(f"{option} takes NAME=FILE, not {value!r}")
            if option == "--python" and package_of(name) not in known:
                parser.error(f"--python knows no package {package_of(name)!r}, but {', '.join(known)}")
    if args.pin and not hasattr(os, "sched_setaffinity"):
        parser.error("--pin works on Linux only")
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    from hf_sgpe.vocabulary.codec import available_cores

    settings = Settings(
        pythons=dict(value.split("=", 1) for value in args.python),
        repeats=args.repeats,
        long=args.long,
        threads=args.threads or available_cores(),
        core=max(os.sched_getaffinity(0)) if args.pin else None,
        cpu_time=args.cpu_time,
    )
    skipped = args.skip.split(",")
    parts = args.only or PARTS
    encoders, trainers = installed(tuple(PACKAGES), skipped, settings), installed(tuple(TRAINERS), skipped, settings)
    args.out.mkdir(parents=True, exist_ok=True)
    known = ", ".join(f"{row} {version}" for row, version in (encoders | trainers).items())
    report = Report(
        args.out,
        [
            f"{machine()}. {known}. Medians of {args.repeats} turns (one where a turn takes more than {args.long:g} s), "
            f"{args.vocab_size:,} tokens{', one thread pinned to one core' if args.pin else ''}"
            f"{', one thread by the time of the processor' if args.cpu_time else ''}.\n\n{_LEGEND}\n"
        ],
    )
    for text in args.text:
        kind, _, path = text.partition("=")
        measure_text(
            kind, read_documents(path, args.megabytes), tuple(encoders), tuple(trainers), args, parts, settings, report
        )

    kind, _, path = args.text[0].partition("=")
    if "growth" in parts and args.growth:
        measure_growth(kind, path, tuple(encoders), tuple(trainers), args, settings, report)
    if "processes" in parts:
        with tempfile.TemporaryDirectory() as temporary:
            file = Path(temporary) / "corpus.txt"
            docs = read_documents(path, args.processes_megabytes)
            file.write_text("".join(docs), encoding="utf-8", newline="\n")
            rows = [row for row in trainers if package_of(row) in PROCESSES]
            results = measure_processes(rows, file, resolved(patterns(kind, args)[0]), args.vocab_size, settings)
        title = (
            f"Training on {kind}, whole process with import and reading, {recipe_label(patterns(kind, args)[0])}, "
            f"{megabytes(docs):.0f} MB, {settings.threads} threads"
        )
        report.add(title, training_table(title, results, "seconds"), results)
    if report.panels:
        picture(report.panels, args.out / "benchmark.png")
    print(f"written: {args.out}/benchmark.md, benchmark.json, benchmark.png")


def measure_text(
    kind: str,
    docs: Docs,
    encoders: Sequence[str],
    trainers: Sequence[str],
    args: argparse.Namespace,
    parts: Sequence[str],
    settings: Settings,
    report: Report,
) -> None:
    size = f"{megabytes(docs):.0f} MB"
    measures = [measure for measure in MEASURES if measure in parts]
    for recipe in (args.recipe or RECIPES.get(kind, ("gpt2",))) if measures else ():
        with tempfile.TemporaryDirectory() as temporary:
            folder = trained(docs, Path(temporary) / "trained", kind, recipe, args.vocab_size)
            columns = measure_encoding(encoders, docs, folder, measures, settings)
        title = f"Encoding {kind}, {recipe_label(recipe)}, {size}"
        report.add(title, encoding_table(title, columns), columns, next(iter(columns.values())))
    if "training" in parts:
        pattern = patterns(kind, args)[0]
        results = measure_training(trainers, docs, resolved(pattern), args.vocab_size, settings, settings.threads)
        title = f"Training on {kind}, {recipe_label(pattern)}, {size}, {settings.threads} threads"
        report.add(title, training_table(title, results), results, results)
    if "syllables" in parts and kind == "sinhala":
        speeds = syllables_per_second(docs)
        lines = [f"{name}: {speed / 1e6:.2f} million words per second" for name, speed in speeds.items()]
        report.add("LinguisTrie", "### LinguisTrie\n\n" + "\n".join(lines) + "\n", speeds)


def measure_growth(
    kind: str,
    path: str,
    encoders: Sequence[str],
    trainers: Sequence[str],
    args: argparse.Namespace,
    settings: Settings,
    report: Report,
) -> None:
    """On more sizes of one text, because caches and vocabularies make speed depend on it."""
    one_thread = replace(settings, threads=1)
    pattern = patterns(kind, args)[0]
    encoding, training = {}, {}
    for size in [f"{float(size):g}" for size in args.growth.split(",")]:
        docs = read_documents(path, float(size))
        with tempfile.TemporaryDirectory() as temporary:
            folder = trained(docs, Path(temporary) / "trained", kind, pattern, args.vocab_size)
            encoding[f"{size} MB"] = measure_encoding(encoders, docs, folder, ("batch",), one_thread)["batch, 1"]
        rows = [row for row in trainers if row != "sentencepiece"]
        training[f"{size} MB"] = measure_training(rows, docs, resolved(pattern), args.vocab_size, settings, settings.threads)
    title = f"Encoding {kind}, first pass, 1 thread, MB/s"
    report.add("growth of encoding", growth_table(title, encoding), encoding)
    title = f"Training on {kind}, {settings.threads} threads, MB/s"
    report.add("growth of training", growth_table(title, training), training)


def patterns(kind: str, args: argparse.Namespace) -> list[str]:
    """Those of the text's recipes that are split patterns, which is what other packages train with."""
    return [recipe for recipe in args.recipe or RECIPES.get(kind, ()) if recipe != "hybrid"] or ["gpt2"]


def resolved(pattern: str) -> str:
    from hf_sgpe.splitting.patterns import resolve_pattern

    return resolve_pattern(pattern)


if __name__ == "__main__":
    sys.exit(main())
