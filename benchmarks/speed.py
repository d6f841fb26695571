"""Compare the speed of training, encoding and decoding with that of other installed packages.

The packages take turns on the same bytes, in one run. Every package runs in its own process (`package_worker.py`), which
reports its peak memory. The script also compares the results with a reference, and marks results that differ. The reference
is `tokenizers` for ids, and `rustbpe` for merges. (If several pairs are equally frequent, the pair with the smallest ids is
merged first.) The script writes speed.md and speed.jsonl.

    python benchmarks/speed.py out/ --text english=en.txt.xz --text code=code.jsonl.xz --text sinhala=si.txt.xz \\
        --text hindi=hi.txt.xz --text tamil=ta.txt.xz --text mixed=en.txt.xz,si.txt.xz,hi.txt.xz,ta.txt.xz,code.jsonl.xz

To measure another build of a package, or a package that cannot be installed together with the others, pass an interpreter.
Each build gets its own row:

    … --python tokenizers-1=venv-1/bin/python --python hf_sgpe@before=venv-before/bin/python
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from harness import Records, beginning, command, machine, take_turns
from package_worker import MEASURES, ONE_THREAD_ONLY, Worker, version_there
from packages import PACKAGES, TRAINERS
from reporting import table

from hf_sgpe import LinguisTrie, SGPEError
from hf_sgpe.files.atomic import write_text
from hf_sgpe.formats.tiktoken import one_pattern
from hf_sgpe.splitting.patterns import resolve_pattern
from hf_sgpe.vocabulary.codec import available_cores
from trainers import TokenizerTrainer, TrainingConfig, find_files, read_texts

ONE_REGEX = " ?[\u0d80-\u0dff\u200d]+| ?[^ \\t\\n\\r]|[ \\t\\n\\r]"
"""A split pattern for Sinhala that keeps conjuncts whole in all packages."""
RECIPES = {
    "english": ("gpt2", "o200k"),
    "code": ("cl100k",),
    "sinhala": ("hybrid", ONE_REGEX),
    **dict.fromkeys(("hindi", "tamil", "mixed"), ("hybrid",)),
}
"""Recipes to measure, keyed by kind of text: ``hybrid``, or split patterns for the recipe ``bpe``. Other texts use gpt2."""
SCRIPTS = {"sinhala": ("sinhala",), "hindi": ("devanagari",), "tamil": ("tamil",), "mixed": ("all",)}
PARTS = (*MEASURES, "training", "processes", "growth", "syllables")
PROCESSES = ("hf_sgpe", "rustbpe", "gigatoken", "gigabpe", "tokenizers")
OURS = "hf_sgpe"
_LEGEND = {
    "batch": "many texts, in the fastest output format of each package",
    "lists": "many texts, as lists of Python numbers",
    "5000": "single texts of this length, as lists of Python numbers",
    "200": "single texts of this length, as lists of Python numbers",
    "tok": "many texts in a call of the transformers tokenizer, or of the package's replacement for its class",
    "map": "`datasets.map(batched=True)`; packages with a tokenizer for transformers also write attention masks",
    "decode": "lists of ids back to many texts",
}
"""The meaning of each measure."""
_CELLS = (
    "Each cell of the encoding tables has the speed in MB of UTF-8 per second, for the first pass / the second pass (one "
    "number for packages without a cache). The line below has the speed-up of hf_sgpe. The columns are:"
)
_FORMS = "`hybrid` normalizes to NFC and tiktoken does not, so their ids differ for texts that are not in NFC."

Docs = list[str]
Results = dict[str, dict[str, Any]]
"""The results of a table, keyed by row name (a package or PACKAGE@BUILD).

A result has the medians ``cold`` and ``warm`` (in MB/s, or in seconds for whole processes), the times of all turns, ``peak``
(in bytes) and ``differs`` (a share). If the package failed, the result has only ``failure``.
"""


def _run(args: argparse.Namespace) -> None:
    known = {**PACKAGES, **TRAINERS}
    for name, value in [("--text", value) for value in args.text] + [("--python", value) for value in args.python]:
        row, _, path = value.partition("=")
        if not (row and path):
            raise SGPEError(f"{name} needs NAME=FILE, not {value!r}")
        if name == "--python" and _package_of(row) not in known:
            raise SGPEError(f"--python: unknown package {_package_of(row)!r}: choose from {', '.join(known)}")
    if args.pin and not hasattr(os, "sched_setaffinity"):
        raise SGPEError("--pin works only on Linux: leave it out")
    args.python = dict(value.split("=", 1) for value in args.python)
    args.threads = args.threads or available_cores()
    args.core = max(os.sched_getaffinity(0)) if args.pin else None
    args.parts = args.only or PARTS
    encoders, trainers = _installed(tuple(PACKAGES), args), _installed(tuple(TRAINERS), args)
    records = Records(args.out / "speed.jsonl")
    versions = ", ".join(f"{row} {version}" for row, version in (encoders | trainers).items())
    ways = [way for way, chosen in (("are pinned to one core", args.pin), ("use CPU time", args.cpu_time)) if chosen]
    setting = (
        f"{machine()}. {versions}. Each number is the median of {args.repeats} runs (a single run if one takes more than "
        f"{args.long:g} s), and trained tokenizers have {args.vocab_size:,} tokens."
    )
    if ways:
        setting += f" Measurements with one thread {' and '.join(ways)}."
    records.add("setting", {"kind": "setting", "text": setting})
    for title, result in _measured(tuple(encoders), tuple(trainers), args):
        records.add(title, result)
        print(_section(title, result), flush=True)
    report(records.results, args.out)
    print(f"written: {args.out}/speed.md, speed.jsonl")


# ---------------------------------------------------------------- what is measured


def _measured(encoders: Sequence[str], trainers: Sequence[str], args: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield the title and the results of each table."""
    texts = [value.partition("=")[::2] for value in args.text]
    measures = [measure for measure in MEASURES if measure in args.parts]
    for kind, path in texts:
        docs = _read_documents(path, args.megabytes)
        size = f"{_megabytes(docs):.0f} MB"
        for recipe in _recipes(kind, args) if measures else ():
            columns = _measure_encoding(encoders, docs, kind, recipe, measures, args, args.threads)
            yield f"Encoding {kind}, {_label(recipe)}, {size}", {"kind": "encoding", "columns": columns}
        if "training" in args.parts:
            title = f"Training on {kind}, {_label(_pattern_of(kind, args))}, {size}, {args.threads} threads"
            yield title, {"kind": "training", "rows": _measure_training(trainers, docs, kind, args)}
        if "syllables" in args.parts and kind == "sinhala":
            trie, text = LinguisTrie(), "".join(docs)
            # The ends of the syllables, and the syllables as strings.
            ways: dict[str, Callable[[], object]] = {
                "ends": partial(trie.ends, text, True),
                "tokenize": partial(trie.tokenize, text, True),
            }
            speeds = {name: len(text.split()) / median(timeit.repeat(way, number=1)) for name, way in ways.items()}
            yield "LinguisTrie", {"kind": "syllables", "speeds": speeds}
    kind, path = texts[0]
    if "growth" in args.parts and args.growth:
        # Caches and vocabularies make speed depend on the size of the text.
        encoding, training = {}, {}
        for size in [f"{float(size):g}" for size in args.growth.split(",")]:
            docs = _read_documents(path, float(size))
            columns = _measure_encoding(encoders, docs, kind, _pattern_of(kind, args), ["batch"], args, 1)
            encoding[f"{size} MB"] = columns["batch, 1"]
            rows = [row for row in trainers if row != "sentencepiece"]
            training[f"{size} MB"] = _measure_training(rows, docs, kind, args)
        yield f"Encoding {kind}, first pass, 1 thread, MB/s", {"kind": "growth", "columns": encoding}
        yield f"Training on {kind}, {args.threads} threads, MB/s", {"kind": "growth", "columns": training}
    if "processes" in args.parts:
        docs, pattern = _read_documents(path, args.processes_megabytes), _pattern_of(kind, args)
        results = _measure_processes([row for row in trainers if _package_of(row) in PROCESSES], docs, pattern, args)
        title = f"Training on {kind}, {_label(pattern)}, {_megabytes(docs):.0f} MB, {args.threads} threads"
        title += ": time of the whole process, including imports and reading the text"
        yield title, {"kind": "processes", "rows": results}


@contextmanager
def _workers(rows: Sequence[str], args: argparse.Namespace, threads: int, **job: Any) -> Iterator[list[Worker]]:
    """Start a process for each row, and end the processes after the block."""
    job |= {"threads": threads, "core": args.core if threads == 1 else None}
    with ExitStack() as stack:
        workers = (Worker(row, args.python.get(row, sys.executable), name=_package_of(row), **job) for row in rows)
        yield [stack.enter_context(closing(worker)) for worker in workers]


def _compare(workers: Sequence[Worker], measure: str, docs: Docs, args: argparse.Namespace, reference: str) -> Results:
    """Measure all workers in turns, and compare their results with those of ``reference``. Return the measurements of each
    worker, keyed by its row. Peak memory is valid only for the first measure that a process runs.
    """
    ways = {worker.row: partial(worker.turn, measure) for worker in workers}
    is_long = lambda turn: any(seconds > args.long for seconds, _ in turn.values())  # noqa: E731
    taken = take_turns(ways, args.repeats, warm_up=False, enough=is_long)
    results: Results = {}
    outputs: dict[str, list[bytes]] = {}
    for worker in workers:
        peak = {"peak": worker.ask("peak", measure)} if measure in ("batch", "train") else {}
        output = worker.ask("check", measure)
        if measure in worker.failures:
            results[worker.row] = {"failure": worker.failures[measure]}
            continue
        turns: Results = {clock: {"cold": [], "warm": []} for clock in ("seconds", "cpu seconds")}
        for turn in taken[worker.row]:
            for how, (seconds, cpu) in turn.items():
                turns["seconds"][how].append(seconds)
                turns["cpu seconds"][how].append(cpu)
        counted = turns["cpu seconds" if args.cpu_time and worker.threads == 1 else "seconds"]
        speeds = {how: _megabytes(docs) / median(times) for how, times in counted.items() if times}
        results[worker.row] = {**speeds, **turns, **peak}
        if output:
            outputs[worker.row] = output
    _mark_differences(results, outputs, reference)
    return results


def _mark_differences(results: Results, outputs: dict[str, list[bytes]], reference: str) -> None:
    expected = outputs.get(reference) or outputs.get(OURS) or []
    for row, output in outputs.items():
        differing = sum(a != b for a, b in zip(output, expected, strict=False)) + abs(len(output) - len(expected))
        results[row]["differs"] = differing / max(len(expected), 1)


def _measure_encoding(
    rows: Sequence[str], docs: Docs, kind: str, recipe: str, measures: Sequence[str], args: argparse.Namespace, most: int
) -> dict[str, Results]:
    """Measure encoding by one recipe. Return the results of each column of the table: a measure, with one thread or with
    ``most`` threads.
    """
    columns: dict[str, Results] = {}
    with tempfile.TemporaryDirectory() as folder:
        if _is_folder(recipe):
            shutil.copytree(recipe, folder, dirs_exist_ok=True)
        else:
            _save_trained(docs, Path(folder), kind, recipe, args.vocab_size)
        for threads in sorted({1, most}):
            with _workers(rows, args, threads, texts=docs, folder=folder) as workers:
                for measure in measures:
                    if threads == 1 or measure not in ONE_THREAD_ONLY:
                        columns[f"{measure}, {threads}"] = _compare(workers, measure, docs, args, "tokenizers")
    return dict(sorted(columns.items(), key=lambda column: measures.index(column[0].split(",")[0])))


def _measure_training(rows: Sequence[str], docs: Docs, kind: str, args: argparse.Namespace) -> Results:
    job = {"pattern": resolve_pattern(_pattern_of(kind, args)), "size": args.vocab_size}
    with _workers(rows, args, args.threads, texts=docs, **job) as workers:
        return _compare(workers, "train", docs, args, "rustbpe")


def _measure_processes(rows: Sequence[str], docs: Docs, pattern: str, args: argparse.Namespace) -> Results:
    """Measure how many seconds whole training processes take, from their start to their answer."""

    def train(row: str) -> dict[str, Any]:
        job = {"texts": file, "pattern": resolve_pattern(pattern), "size": args.vocab_size}
        started = time.perf_counter()
        with _workers([row], args, args.threads, **job) as (worker,):
            worker.ask("cold", "train")
            seconds = time.perf_counter() - started
            result = {"seconds": seconds, "peak": worker.ask("peak", "train"), "output": worker.ask("check", "train")}
        return {"failure": worker.failures["train"]} if worker.failures else result

    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "corpus.txt"
        write_text(file, "".join(docs))
        taken = take_turns({row: partial(train, row) for row in rows}, args.repeats, enough=lambda one: "failure" in one)
    results: Results = {}
    outputs: dict[str, list[bytes]] = {}
    for row, turns in taken.items():
        if failures := [turn["failure"] for turn in turns if "failure" in turn]:
            results[row] = {"failure": failures[0]}
        else:
            seconds = [turn["seconds"] for turn in turns]
            results[row] = {"cold": median(seconds), "seconds": seconds, "peak": max(turn["peak"] for turn in turns)}
            outputs[row] = turns[0]["output"]
    _mark_differences(results, outputs, "rustbpe")
    return results


# ---------------------------------------------------------------- texts, tokenizers and packages


def _megabytes(docs: Docs) -> float:
    return sum(len(doc.encode()) for doc in docs) / 1e6


def _read_documents(paths: str, megabytes: float) -> Docs:
    """Return the first ``megabytes`` of a corpus, as documents of a few thousand characters. If ``paths`` has several
    corpora, separated by commas, use the same amount of each, and alternate between their documents.
    """
    names = paths.split(",")
    mixed: list[Docs] = []
    for name in names:
        texts = (text for file in find_files([name]) for text in read_texts(file))
        mixed.append(list(beginning(chain.from_iterable(map(_pieces, texts)), megabytes / len(names))))
    return [docs[n] for n in range(max(map(len, mixed))) for docs in mixed if n < len(docs)]


def _pieces(text: str, characters: int = 4000) -> Iterator[str]:
    start = 0
    while start < len(text):
        cut = text.find("\n", start + characters) + 1 or len(text)
        yield text[start:cut]
        start = cut


def _save_trained(docs: Docs, folder: Path, kind: str, recipe: str, vocab_size: int) -> None:
    """Train a tokenizer. Save it, and also as tiktoken.json, with the pattern and ranks that tiktoken needs."""
    # There are no special tokens, because some of the code contains them, and not all packages recognise them in text.
    hybrid = {"recipe": "hybrid", "scripts": SCRIPTS.get(kind, ("all",)), "pattern": "o200k"}
    options: dict[str, Any] = hybrid if recipe == "hybrid" else {"recipe": "bpe", "pattern": recipe}
    trainer = TokenizerTrainer(TrainingConfig(vocab_size, special_tokens=(), **options), progress=False)
    tokenizer = trainer.learn(trainer.count(iterator=docs))
    tokenizer.save(folder)
    ranks = {base64.b64encode(token).decode(): rank for token, rank in tokenizer.get_mergeable_ranks()}
    write_text(folder / "tiktoken.json", json.dumps({"pattern": one_pattern(tokenizer.splitting), "ranks": ranks}))


def _recipes(kind: str, args: argparse.Namespace) -> Sequence[str]:
    return args.recipe or RECIPES.get(kind, ("gpt2",))


def _pattern_of(kind: str, args: argparse.Namespace) -> str:
    """Return the split pattern for training all packages on a text: the first pattern among its recipes, or gpt2."""
    return next((recipe for recipe in _recipes(kind, args) if recipe != "hybrid" and not _is_folder(recipe)), "gpt2")


def _is_folder(recipe: str) -> bool:
    """Return whether a recipe is a folder with a tokenizer, not a pattern."""
    return "/" in recipe and Path(recipe, "tokenizer.json").is_file()


def _label(recipe: str) -> str:
    """Return a short name of a recipe, pattern or folder for titles."""
    if _is_folder(recipe):
        return Path(recipe).name
    return recipe if re.fullmatch(r"[\w-]+", recipe) else "one regex"


def _package_of(row: str) -> str:
    return row.partition("@")[0]


def _installed(names: Sequence[str], args: argparse.Namespace) -> dict[str, str]:
    """Return the versions of the installed packages, without those in --skip, and report missing ones on stderr."""
    rows = []
    for name in names:
        rows += [name, *(row for row in args.python if "@" in row and _package_of(row) == name)]
    skipped, found = args.skip.split(","), {}
    for row in rows:
        if row in skipped or _package_of(row) in skipped:
            continue
        python = args.python.get(row, sys.executable)
        if version := version_there(_package_of(row), python):
            found[row] = version
        else:
            print(f"{row} is not installed in {python}", file=sys.stderr)
    return found


# ---------------------------------------------------------------- tables


def report(results: dict[str, Any], out: Path) -> None:
    columns = chain.from_iterable(result["columns"] for result in results.values() if result["kind"] == "encoding")
    measured = {column.split(", ")[0] for column in columns}
    sections = [_section(title, result) for title, result in results.items() if result["kind"] != "setting"]
    introduction = [result["text"] for result in results.values() if result["kind"] == "setting"]
    if measured:
        meanings = [f"- *{_measure_label(name)}*: {meaning}." for name, meaning in _LEGEND.items() if name in measured]
        introduction.append("\n".join((_CELLS, "", *meanings, "", _FORMS)))
    write_text(out / "speed.md", "\n\n".join(introduction) + "\n\n" + "\n".join(sections))


def _section(title: str, result: dict[str, Any]) -> str:
    match result["kind"]:
        case "encoding":
            text = _encoding_table(result["columns"])
        case "growth":
            text = _growth_table(result["columns"])
        case "syllables":
            speeds = result["speeds"].items()
            text = "\n".join(f"{name}: {speed / 1e6:.2f} million words per second" for name, speed in speeds)
        case kind:
            text = _training_table(result["rows"], "seconds" if kind == "processes" else "MB/s")
    return f"### {title}\n\n{text}\n"


def _encoding_table(columns: dict[str, Results]) -> str:
    """Format the results of encoding as a Markdown table. Each cell has the speeds of the first and second pass and, for
    other packages, how many times as fast hf_sgpe is in each pass.
    """
    rows, notes = [], []
    for row in dict.fromkeys(chain.from_iterable(columns.values())):
        results = {column: columns[column][row] for column in columns}
        failures = {column: result["failure"] for column, result in results.items() if "failure" in result}
        cells = [_cell(row, results[column], columns[column].get(OURS, {})) for column in columns]
        peaks = [result["peak"] for column, result in results.items() if column.startswith("batch") and "peak" in result]
        peak = f"{peaks[0] / 1e6:.0f} MB" if peaks else "–"
        rows.append((row, *cells, peak, "–" if len(failures) == len(columns) else _sameness(*results.values())))
        for reason in dict.fromkeys(failures.values()):
            where = [column for column, failure in failures.items() if failure == reason]
            measures = dict.fromkeys(_measure_label(column.split(", ")[0]) for column in where)
            affected = "" if len(where) == len(columns) else f", {', '.join(measures)}"
            shown = textwrap.shorten(reason.replace("|", "¦"), 160, placeholder=" …")
            brackets = shown.replace("[", r"\[")  # Markdown may read this as a link
            notes.append(f"- {row}{affected}: {brackets}")
    titles = []
    for column in columns:
        measure, threads = column.split(", ")
        title = _measure_label(measure)
        titles.append(title if measure in ONE_THREAD_ONLY else f"{title}, {threads} thread{'s' * (threads != '1')}")
    heading = ("package", *titles, "peak memory", "same result")
    text = table(heading, rows, f"l{'r' * (len(columns) + 1)}l")
    return "\n".join([text, "", *notes]) if notes else text


def _measure_label(measure: str) -> str:
    return f"{int(measure):,} characters" if measure.isdigit() else {"tok": "tok(list)"}.get(measure, measure)


def _cell(row: str, result: dict[str, Any], ours: dict[str, Any]) -> str:
    ways = [how for how in ("cold", "warm") if how in result]
    speeds = " / ".join(_number(result[how]) for how in ways)
    if row == OURS or "cold" not in ours or not ways:
        return speeds or "–"
    # A package without a second pass has one speed. Compare both speeds of hf_sgpe with this speed.
    compared = ("cold", "warm") if "warm" in ours and ways == ["cold"] else ways
    ratios = [_times(ours[how] / result.get(how, result["cold"])) for how in compared if how in ours]
    return f"{speeds}<br>{' / '.join(ratios)}"


def _number(speed: float) -> str:
    return f"{speed:.1f}" if speed < 100 else f"{speed:.0f}"


def _times(ratio: float) -> str:
    return f"{ratio:.2g}×" if ratio < 10 else f"{ratio:.0f}×"


def _sameness(*results: dict[str, Any]) -> str:
    shares = [result["differs"] for result in results if "differs" in result]
    if not shares:
        return "not comparable"
    worst = max(shares)
    if not worst:
        return "yes"
    return f"**no**: {worst:.{'2%' if worst >= 0.0001 else '1e'}} differ"


def _training_table(results: Results, unit: str) -> str:
    ours = results.get(OURS, {}).get("cold", 0)
    rows = []
    for row, result in results.items():
        if "failure" in result:
            rows.append((row, "–", "–", "–", textwrap.shorten(result["failure"].replace("|", "¦"), 80)))
            continue
        ratio = ours / result["cold"] if unit == "MB/s" else result["cold"] / max(ours, 1e-9)
        speed = f"{result['cold']:.2f}" if unit == "seconds" else _number(result["cold"])
        shown = "" if row == OURS or not ours else _times(ratio)
        rows.append((row, speed, shown, f"{result['peak'] / 1e6:.0f} MB", _sameness(result)))
    return table(("package", unit, "speed-up of hf_sgpe", "peak memory", "same result"), rows, "lrrrl")


def _growth_table(columns: dict[str, Results]) -> str:
    rows = []
    for name in dict.fromkeys(chain.from_iterable(columns.values())):
        speeds = (results.get(name, {}).get("cold") for results in columns.values())
        rows.append((name, *("–" if speed is None else f"{speed:.1f}" for speed in speeds)))
    return table(("package", *columns), rows)


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("out", type=Path, help="folder for the tables and their records")
        named = f"text to measure on (repeatable); these names have their own recipes: {', '.join(RECIPES)}"
        option("--text", action="append", required=True, metavar="NAME=FILE[,FILE…]", help=named)
        option("--megabytes", default=64.0, help="megabytes of each text to use")
        option("--vocab-size", default=32_000, help="number of tokens of each trained tokenizer")
        option("--repeats", default=5, help="number of turns of each package")
        option("--growth", default="1,4,16", help="text sizes, in megabytes, for the growth tables")
        option("--threads", type=int, help="number of threads for runs with several threads (default: one for each core)")
        option("--skip", default="", help="packages to leave out, separated by commas")
        option("--only", action="append", choices=PARTS, help="part of the benchmark to run (repeatable; default: all)")
        option(
            "--recipe",
            action="append",
            help='recipe to measure on all texts: "hybrid", a split pattern, or a folder with tokenizer.json '
            "(repeatable; default: recipes for each text)",
        )
        builds = "interpreter in which to run the package NAME, or another build of NAME (repeatable)"
        option("--python", action="append", default=[], metavar="NAME[@BUILD]=FILE", help=builds)
        option(
            "--cpu-time",
            action="store_true",
            help="for runs with one thread, measure CPU time instead of wall-clock time (if the machine has other work)",
        )
        option("--long", default=3.0, help="longest turn in seconds; after a longer turn, a package gets no more turns")
        option("--pin", action="store_true", help="pin measurements with one thread to one core (Linux)")
        option(
            "--processes-megabytes",
            default=60.0,
            help="megabytes of text for the whole-process table, whose times include process startup",
        )
