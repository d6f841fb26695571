"""Measure how time, memory and the number of distinct words grow with the text, and extrapolate to larger corpora.

The script counts the words of real text. After 1, 4, 16 … megabytes, it records the number of distinct words, the time and
the memory, and trains a tokenizer on the counts up to this point. The script also makes up text: it draws words by Zipf's
law and spells them in letters. It writes the counts of these words to a file, within a memory limit, and trains a tokenizer
on the counts. Times are CPU times, to exclude other work on the machine. Only --cores, which compares one thread with
several threads, measures wall-clock time. The results are written to growth.jsonl and growth.svg.

    python benchmarks/growth.py corpora/si.txt.xz corpora/en.txt.xz --synthetic 4096 --out docs
    python benchmarks/growth.py corpora/si.txt.xz --cores 2
"""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
from harness import Records, apart, command, compare, forget_peak, measured, peak_bytes, take_turns, timed
from reporting import table
from tqdm import tqdm

from hf_sgpe import SGPEError, WordCounts
from hf_sgpe.counts.counters import make_word_counter
from hf_sgpe.errors import check_matplotlib
from hf_sgpe.files.charts import chart
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.terminal.progress import somebody_watches
from trainers import TrainingConfig, add_files, count_to_file, find_files, read_texts, train_from_counts

MEGABYTE = 1_000_000
MADE_UP, ADDING = "made up", "adding up"
_BLOCK_CHARACTERS = 1 << 18
_TASK_BYTES = 10_000 * MEGABYTE
"""The size of the text for one counting task on a cluster."""
_CORES = 16
_ROUNDS = 9
_LEAST = (2, 10, 100)
"""Values of --min-count to report."""
_ENOUGH_BYTES = 50 * MEGABYTE
"""The smallest text from which to extrapolate."""


def _run(args: Any) -> None:
    files = [str(file) for file in find_files(args.corpus)] if args.corpus else []
    if not files and not args.synthetic:
        raise SGPEError("nothing to measure: name files, or use --synthetic")
    if args.cores:
        _compare_threads(files, args.cores)
        return
    check_matplotlib()
    records = Records(args.out / "growth.jsonl")
    with (
        tempfile.TemporaryDirectory() as folder,
        tqdm(desc="Measuring", unit=" runs", disable=not somebody_watches(), leave=False) as bar,
    ):

        def alone(measurement: Callable[..., Any], *args: Any) -> Any:
            result = apart(measurement, *args, folder)
            bar.update()
            return result

        def trained(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [point | alone(_training, point.pop("counts"), args.vocab_size) for point in points]

        for group in [[file] for file in files] + ([files] if len(files) > 1 else []):
            points = alone(_real, group)
            counts = [point["counts"] for point in points]
            records.add(Path(group[0]).name.partition(".")[0] if len(group) == 1 else "mixed", trained(points))
        if len(files) > 1:
            # These files have most words in common, like the files of tasks on a cluster.
            records.add(ADDING, alone(_adding, counts))
        made_up: list[dict[str, Any]] = []
        while 4 ** len(made_up) <= args.synthetic:
            made_up += trained([alone(_made_up, 4 ** len(made_up), args.exponent, args.memory)])
            records.add(MADE_UP, made_up)
    report(records.results, args.out)


def _compare_threads(files: list[str], cores: int) -> None:
    """Count the same texts in turns with one thread, with ``cores`` threads, and with ``cores`` processes. Print the speeds.

    Each process counts all texts independently, so the total speed of the processes is the highest that the machine allows
    with this number of cores.
    """
    texts = list(_blocks(files))
    context = multiprocessing.get_context("fork")  # a forked process inherits the texts
    with tempfile.TemporaryDirectory() as folder:

        def count(workers: int, number: int = 0) -> None:
            count_to_file(texts, Path(folder) / str(number), Splitting(scripts=("all",)), workers=workers)

        def by_processes() -> None:
            processes = [context.Process(target=count, args=(1, number)) for number in range(cores)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()

        threads, processes = f"{cores} threads", f"{cores} processes, each all texts"
        ways = {"1 thread": lambda: count(1), threads: lambda: count(cores), processes: by_processes}
        compared = compare(take_turns({name: timed(way) for name, way in ways.items()}, _ROUNDS))
    megabytes = sum(len(text.encode()) for text in texts) / MEGABYTE
    for name, one in compared.items():
        times = cores if name == processes else 1
        least, ratio, greatest = (times * number for number in (one.least, one.ratio, one.greatest))
        speed = times * megabytes / one.seconds
        print(f"{name}: {speed:.1f} MB/s, {ratio:.2f} times one thread ({least:.2f} to {greatest:.2f})")


# ---------------------------------------------------------------- measurements, each in its own process


def _real(files: list[str], folder: str) -> list[dict[str, Any]]:
    config = Splitting(scripts=("all",))
    counter = make_word_counter(config)
    points: list[dict[str, Any]] = []
    read, spent, mark = 0, 0.0, MEGABYTE

    def note() -> None:
        path = Path(folder) / f"{Path(files[0]).name}-{len(files)}-{read}"
        table_bytes = counter.peak(0)
        counts = WordCounts.of_counter(counter, config)
        info = counts.save(path)
        frequencies = np.asarray(counts.values())
        points.append(
            {
                "bytes": read,
                "words": info.total,
                "distinct": info.distinct,
                **{f"at_least_{least}": int((frequencies >= least).sum()) for least in _LEAST},
                "file_bytes": path.stat().st_size,
                "seconds": round(spent, 3),
                "table_bytes": table_bytes,
                "counts": str(path),
            }
        )

    for text in _blocks(files):
        spent += measured(partial(counter.add, [text]))[1].cpu
        read += len(text.encode())
        if read >= mark:
            note()
            mark *= 4
    if not points or read > 1.2 * points[-1]["bytes"]:
        note()
    return points


def _blocks(files: list[str]) -> Iterator[str]:
    """Yield the text in parts of similar size. If there are several files, their parts are shuffled together."""
    parts = (
        text[start : start + _BLOCK_CHARACTERS]
        for file in files
        for text in read_texts(file)
        for start in range(0, len(text), _BLOCK_CHARACTERS)
    )
    if len(files) == 1:
        yield from parts
        return
    mixed = list(parts)
    random.Random(7).shuffle(mixed)
    yield from mixed


def _training(counts: str, vocab_size: int, folder: str) -> dict[str, Any]:
    before = forget_peak()
    words, loading = measured(partial(WordCounts.load, counts))
    settings = words.splitting.to_dict()
    config = TrainingConfig(
        vocab_size, **{name: settings[name] for name in ("recipe", "scripts", "pattern", "special_tokens")}
    )
    _, training = measured(partial(train_from_counts, words, config))
    return {
        "loading_seconds": round(loading.cpu, 3),
        "training_seconds": round(training.cpu, 3),
        "training_bytes": peak_bytes() - before,
    }


def _made_up(megabytes: int, exponent: float, memory: int, folder: str) -> dict[str, Any]:
    drawing = [0.0]

    def texts() -> Iterator[str]:
        """Yield texts, always the same, whose words are drawn by Zipf's law from an infinite vocabulary."""
        generator, size = np.random.default_rng(7), megabytes * MEGABYTE
        while size > 0:
            text, taken = measured(lambda: _spelled(generator.zipf(exponent, 50_000)), time.thread_time)
            drawing[0] += taken.cpu
            size -= len(text)
            yield text

    path, config = Path(folder) / f"made-up-{megabytes}", Splitting("bpe", pattern="gpt2", special_tokens=())
    count = partial(count_to_file, texts(), path, config, memory_limit=memory * MEGABYTE, workers=1)
    info, taken = measured(count)
    return {
        "bytes": megabytes * MEGABYTE,
        "words": info.total,
        "distinct": info.distinct,
        "seconds": round(taken.cpu - drawing[0], 3),
        "file_bytes": path.stat().st_size,
        "peak_bytes": peak_bytes(),
        "counts": str(path),
    }


def _adding(counts: list[str], folder: str) -> dict[str, Any]:
    rows = sum(len(WordCounts.load(file)) for file in counts)
    info, taken = measured(partial(add_files, counts, Path(folder) / "sum"))
    return {"rows": rows, "distinct": info.distinct, "seconds": round(taken.cpu, 3)}


def _spelled(numbers: Any) -> str:
    """Return a text in which each number (1 or more) is spelled as a made-up word. Small numbers get short words, because
    the frequent words of a language are short.
    """
    letters = np.frombuffer(b"etaoinsrhldcumfpgwybvkxjqz", np.uint8)
    places = [np.full(len(numbers), ord(" "), np.uint8)]
    while numbers.any():
        places.append(np.where(numbers > 0, letters[(numbers - 1) % 26], 0))
        numbers = np.where(numbers > 0, (numbers - 1) // 26, 0)
    spelled = np.stack(places[::-1], axis=1)
    return str(spelled[spelled != 0].tobytes(), "ascii")


# ---------------------------------------------------------------- fits, tables and the chart


def _heaps(points: list[dict[str, Any]]) -> dict[str, float]:
    """Fit Heaps' law, distinct = k · words^beta, by least squares on the logarithms.

    Returns:
        A dict with ``k``, ``beta`` and ``beta_error`` (the standard error of ``beta``), and with the values from which `_at`
        computes the error of predictions. If there are fewer than three points, the dict is empty.
    """
    x, y = (np.log([point[name] for point in points]) for name in ("words", "distinct"))
    if len(x) < 3:
        return {}
    beta, start = np.polyfit(x, y, 1)
    spread = (float(((y - (beta * x + start)) ** 2).sum()) / (len(x) - 2)) ** 0.5
    width = float(((x - x.mean()) ** 2).sum())
    error = spread / width**0.5
    fit = {"k": exp(start), "beta": beta, "beta_error": error, "spread": spread, "mean": x.mean(), "width": width}
    return {**{name: float(value) for name, value in fit.items()}, "points": len(x)}


def _at(fit: dict[str, float], words: float) -> tuple[float, float]:
    """Return the predicted number of distinct words in a text with the given number of words, and the prediction's error
    (two standard errors) as a factor.
    """
    distance = log(words) - fit["mean"]
    error = fit["spread"] * (1 + 1 / fit["points"] + distance**2 / fit["width"]) ** 0.5
    return fit["k"] * words ** fit["beta"], exp(2 * error)


def _shown(fit: dict[str, float]) -> str:
    return f"{fit['beta']:.3f} ± {fit['beta_error']:.3f}" if fit else ""


def report(results: dict[str, Any], out: Path) -> None:
    """Print Markdown tables of the measurements and of the estimates for 1 and 10 TB, and draw the measurements."""
    adding = results.get(ADDING)
    series = {name: result for name, result in results.items() if name != ADDING}
    fits = {name: _heaps(points) for name, points in series.items()}
    rows = []
    for name, points in series.items():
        for one in points:
            speed = one["bytes"] / 1e6 / max(one["seconds"], 1e-3)
            sizes = (one["bytes"] / 1e6, one["words"] / 1e6, one["distinct"] / 1e3, speed)
            memory = (one.get("table_bytes", one.get("peak_bytes", 0)) / 1e6, one["training_bytes"] / 1e6)
            cells = (f"{number:,.{digits}f}" for number, digits in zip(sizes, (0, 2, 0, 0), strict=True))
            spent = one["loading_seconds"] + one["training_seconds"]
            rows.append((name, *cells, f"{memory[0]:,.0f}", f"{spent:,.1f}", f"{memory[1]:,.0f}"))
    heading = ("text", "MB", "words, millions", "distinct, thousands", "counting, MB/s", "table, MB")
    print(table((*heading, "training, s", "training, MB"), rows))
    real = {name: points for name, points in series.items() if name != MADE_UP}
    lasts: list[Sequence[str]] = []
    for name, points in real.items():
        last = points[-1]
        shares = (f"{last[f'at_least_{least}'] / last['distinct']:.1%}" for least in _LEAST)
        lasts.append((name, f"{last['bytes'] / 1e6:,.0f}", _shown(fits[name]), *shares))
    first, *further = (f"at least {least} times" for least in _LEAST)
    print(f"\n{table(('text', 'MB', 'β', f'of the distinct words, {first}', *further), lasts)}")
    if fits.get(MADE_UP):
        print(f"\nMade up: β = {_shown(fits[MADE_UP])}")
    if adding:
        print(f"\nAdding up: {adding['rows'] / adding['seconds'] / 1e6:.2f} million rows per second on one core")
    for name, points in real.items():
        if points[-1]["bytes"] >= _ENOUGH_BYTES:
            print(f"\n{_plan(name, points, fits[name], adding['rows'] / adding['seconds'] if adding else 1e6)}")
    _draw(series, fits, out / "growth.svg")


def _plan(name: str, points: list[dict[str, Any]], fit: dict[str, float], adding: float) -> str:
    """Return a Markdown table of the estimated cost of counting 1 TB and 10 TB of similar text. ``adding`` is the number of
    rows of counts that one core adds up per second.
    """
    first, last = points[0], points[-1]
    words_per_byte, rate = last["words"] / last["bytes"], last["bytes"] / last["seconds"]
    row, more = last["file_bytes"] / last["distinct"], last["distinct"] - first["distinct"]
    memory = (last["training_bytes"] - first["training_bytes"]) / more
    seconds = sum(last[key] - first[key] for key in ("loading_seconds", "training_seconds")) / more

    def column(size: float) -> dict[str, str]:
        distinct, off = _at(fit, size * words_per_byte)
        tasks = size / _TASK_BYTES
        shuffled = tasks * _at(fit, _TASK_BYTES * words_per_byte)[0]
        spread = f"{distinct / off / 1e6:,.0f} to {distinct * off / 1e6:,.0f}"
        cells = {"distinct words, millions": f"{distinct / 1e6:,.0f} ({spread})"}
        cells["counting, core hours"] = f"{size / rate / 3600:,.0f}"
        for machines in (1, 16, 256):
            # A task cannot be divided.
            hours = max(size / rate / 3600 / (machines * _CORES), _TASK_BYTES / rate / 3600)
            hours += shuffled / adding / 3600 / min(machines * _CORES, 1024) + distinct / adding / 3600
            cells[f"counting and adding up, hours on {machines} × {_CORES} cores"] = f"{hours:,.2f}"
        cells["data shuffled, GB"] = f"{shuffled * row / 1e9:,.0f}"
        cells["file of counts, GB"] = f"{distinct * row / 1e9:,.1f}"
        for least in (1, *_LEAST):
            words = distinct * (last[f"at_least_{least}"] / last["distinct"] if least > 1 else 1)
            title = f", --min-count {least}" if least > 1 else ""
            cells[f"memory of training, GB{title}"] = f"{words * memory / 1e9:,.1f}"
            cells[f"training, hours{title}"] = f"{words * seconds / 3600:,.2f}"
        return cells

    one, ten = column(1e12), column(1e13)
    return table((name, "1 TB", "10 TB"), [(title, one[title], ten[title]) for title in one])


def _draw(series: dict[str, list[dict[str, Any]]], fits: dict[str, dict[str, float]], path: Path) -> None:
    """Draw distinct words against running words (extrapolated to 10 TB), and the memory of training."""
    extrapolated = [name for name, points in series.items() if points[-1]["bytes"] >= _ENOUGH_BYTES and fits[name]]
    with chart(path, (11, 4.8)) as (_, ((left, right),)):
        less = iter(["less text"])
        for name, points in series.items():
            words, distinct, memory = ([point[key] for point in points] for key in ("words", "distinct", "training_bytes"))
            if name not in extrapolated:
                label = next(less, None)
                left.plot(words, distinct, "o", ms=3, color="lightgray", label=label, zorder=1)
                right.plot(distinct, memory, "o", ms=3, color="lightgray", label=label, zorder=1)
                continue
            colour = f"C{extrapolated.index(name)}"
            left.plot(words, distinct, "o", ms=4, color=colour)
            right.plot(distinct, memory, "o-", ms=4, lw=1, color=colour, label=name)
            far = np.geomspace(words[0], 1e13 * words[-1] / points[-1]["bytes"], 50)
            middle, off = (np.array(column) for column in zip(*(_at(fits[name], count) for count in far), strict=True))
            left.plot(far, middle, lw=1, color=colour, label=f"{name}, β = {_shown(fits[name])}")
            left.fill_between(far, middle / off, middle * off, color=colour, alpha=0.12, lw=0)
        left.set(xscale="log", yscale="log", xlabel="running words", ylabel="distinct words")
        right.set(xscale="log", yscale="log", xlabel="distinct words", ylabel="bytes", title="Memory of training")
        left.set_title("Heaps' law, extrapolated to 10 TB")
        for axis in (left, right):
            axis.legend(fontsize=8, loc="upper left")


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option(
            "corpus",
            nargs="*",
            help="files of real text, one for each language; if there are several, a mix of them is measured, too",
        )
        option("--vocab-size", default=32_000, help="number of tokens of each trained tokenizer")
        option("--synthetic", default=0, help="size of the largest made-up text, in megabytes")
        option("--exponent", default=1.35, help="exponent of Zipf's law")
        option("--memory", default=400, help="memory limit for counting made-up text, in megabytes")
        option("--cores", type=int, help="measure only how much faster counting is with this many threads than with one")
        option("--out", default=Path("growth"), help="folder to write to")
