"""Measure how distinct words, time and memory grow with the text, and estimate what a larger corpus would take.

Real text: words are counted, and at 1, 4, 16 … megabytes the number of distinct words, the time and the memory are recorded,
and a tokenizer is trained on the counts so far. Made-up text: words are drawn by Zipf's law, spelled in letters, counted
into a file within a memory limit, and a tokenizer is trained on them. Times are CPU times, so other work on the machine does
not count; only --cores, which compares one thread with several, measures real time. Writes growth.json and growth.svg.

    python scripts/measure_growth.py corpora/si.txt.xz corpora/en.txt.xz --synthetic 4096 --out docs
    python scripts/measure_growth.py corpora/si.txt.xz --cores 2
"""

from __future__ import annotations

import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from tqdm import tqdm

from hf_sgpe import WordCounts
from hf_sgpe.counts.counters import make_word_counter
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from hf_sgpe.terminal.progress import somebody_watches
from trainers import TrainingConfig, add_files, count_to_file, find_files, read_texts, train_from_counts

MEGABYTE = 1_000_000
_BLOCK_CHARACTERS = 1 << 18
# The text of one counting task on a cluster.
_TASK_BYTES = 10_000 * MEGABYTE
_CORES = 16
_ROUNDS = 9
# Values of --min-count to report, and the smallest text from which to extrapolate.
_LEAST = (2, 10, 100)
_ENOUGH_BYTES = 50 * MEGABYTE


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument(
        "corpus", nargs="*", help="files of real text, one for each language; several are also measured as a mix"
    )
    parser.add_argument("--vocab-size", type=int, default=32_000, help="number of tokens (default: %(default)s)")
    parser.add_argument("--synthetic", type=int, default=0, help="largest made-up text in megabytes (default: none)")
    parser.add_argument("--exponent", type=float, default=1.35, help="exponent of Zipf's law (default: %(default)s)")
    parser.add_argument(
        "--memory", type=int, default=400, help="memory limit for made-up text in megabytes (default: %(default)s)"
    )
    parser.add_argument("--cores", type=int, help="only compare one counting thread with this many")
    parser.add_argument("--out", type=Path, default=Path("growth"), help="folder to write to (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: measure(args))


def measure(args: Any) -> None:
    """Runs all measurements, each in its own process, whose peak of memory is its own."""
    files = [str(file) for file in find_files(args.corpus)] if args.corpus else []
    if not files and not args.synthetic:
        raise SGPEError("nothing to measure: give files, or --synthetic")
    if args.cores:
        compare_threads(files, args.cores)
        return
    results: dict[str, Any] = {"real": [], "made_up": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        tqdm(desc="Measuring", unit=" runs", disable=not somebody_watches(), leave=False) as bar,
    ):

        def measured(measurement: Callable[..., Any], *args: Any) -> Any:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                try:
                    result = pool.submit(measurement, *args, folder).result()
                except BrokenProcessPool:
                    raise SGPEError("a measurement was killed, maybe for lack of memory") from None
            bar.update()
            return result

        for group in [[file] for file in files] + ([files] if len(files) > 1 else []):
            points = measured(_real, group)
            for point in points:
                point |= measured(_training, point["counts"], args.vocab_size)
            name = Path(group[0]).name.partition(".")[0] if len(group) == 1 else "mixed"
            results["real"].append({"name": name, "points": points, "heaps": heaps(points)})
        if len(files) > 1:
            # Like the files of tasks on a cluster, these have mostly the same words.
            results["adding"] = measured(_adding, [point["counts"] for point in points])
        size = 1
        while size <= args.synthetic:
            point = measured(_made_up, size, args.exponent, args.memory)
            results["made_up"].append(point | measured(_training, point["counts"], args.vocab_size))
            size *= 4
    for series in [*(result["points"] for result in results["real"]), results["made_up"]]:
        for point in series:
            del point["counts"]
    if results["made_up"]:
        results["made_up_heaps"] = heaps(results["made_up"])
    with atomic_file(args.out / "growth.json") as file:
        file.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline="\n")
    report(results)
    draw(results, args.out / "growth.svg")


def compare_threads(files: list[str], cores: int) -> None:
    """Counts the same texts, already read, with one thread, with several, and in as many processes, in turns.

    The processes are independent of each other, so they show the most that the machine can gain from several cores.
    """
    texts = list(_blocks(files))
    size = sum(len(text.encode()) for text in texts)
    config = Splitting(scripts=("all",))
    context = multiprocessing.get_context("fork")  # a forked process has the texts already
    with tempfile.TemporaryDirectory() as folder:

        def count(workers: int, number: int = 0) -> None:
            count_to_file(texts, Path(folder) / str(number), config, workers=workers)

        def by_processes() -> None:
            processes = [context.Process(target=count, args=(1, number)) for number in range(cores)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()

        ways: dict[str, tuple[Callable[[], None], int]] = {
            "1 thread": (lambda: count(1), 1),
            f"{cores} threads": (lambda: count(cores), 1),
            f"{cores} processes, each all texts": (by_processes, cores),
        }
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(_ROUNDS):
            for name, (way, times) in ways.items():
                began = time.perf_counter()
                way()
                speeds[name].append(times * size / MEGABYTE / (time.perf_counter() - began))
    for name, rates in speeds.items():
        ratios = sorted(rate / single for rate, single in zip(rates, speeds["1 thread"], strict=True))
        print(
            f"{name}: {median(rates):.1f} MB/s, {median(ratios):.2f} times one thread ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


# ---------------------------------------------------------------- measurements, each in its own process


def _real(files: list[str], folder: str) -> list[dict[str, Any]]:
    config = Splitting(scripts=("all",))
    counter = make_word_counter(config)
    points: list[dict[str, Any]] = []
    read, spent, mark = 0, 0.0, MEGABYTE

    def note() -> None:
        path = Path(folder) / f"{Path(files[0]).name}-{len(files)}-{read}"
        table = counter.peak(0)
        counts = WordCounts.of_counter(counter, config)
        info = counts.save(path)
        point = {"words": info.total, "distinct": info.distinct, "file_bytes": path.stat().st_size}
        frequencies = np.asarray(counts.values())
        point |= {f"at_least_{least}": int((frequencies >= least).sum()) for least in _LEAST}
        points.append({"bytes": read, **point, "seconds": round(spent, 3), "table_bytes": table, "counts": str(path)})

    for text in _blocks(files):
        began = time.process_time()
        counter.add([text])
        spent += time.process_time() - began
        read += len(text.encode())
        if read >= mark:
            note()
            mark *= 4
    if not points or read > 1.2 * points[-1]["bytes"]:
        note()
    return points


def _blocks(files: list[str]) -> Iterator[str]:
    """The text in parts of similar size, so that marks are met closely; several files are shuffled together."""
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
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    words = WordCounts.load(counts)
    loading = time.process_time() - began
    settings = words.splitting.to_dict()
    config = TrainingConfig(
        vocab_size, **{name: settings[name] for name in ("recipe", "scripts", "pattern", "special_tokens")}
    )
    began = time.process_time()
    train_from_counts(words, config)
    return {
        "loading_seconds": round(loading, 3),
        "training_seconds": round(time.process_time() - began, 3),
        "training_bytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024,
    }


def _made_up(megabytes: int, exponent: float, memory: int, folder: str) -> dict[str, Any]:
    config = Splitting("bpe", pattern="gpt2", special_tokens=())
    texts, drawing = _zipf_texts(megabytes * MEGABYTE, exponent), [0.0]

    def timed() -> Iterator[str]:
        while True:
            began = time.thread_time()
            text = next(texts, None)
            drawing[0] += time.thread_time() - began
            if text is None:
                return
            yield text

    path = Path(folder) / f"made-up-{megabytes}"
    began = time.process_time()
    info = count_to_file(timed(), path, config, memory_limit=memory * MEGABYTE, workers=1)
    spent = time.process_time() - began - drawing[0]
    return {
        "bytes": megabytes * MEGABYTE,
        "words": info.total,
        "distinct": info.distinct,
        "seconds": round(spent, 3),
        "file_bytes": path.stat().st_size,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "counts": str(path),
    }


def _adding(counts: list[str], folder: str) -> dict[str, Any]:
    rows = sum(len(WordCounts.load(file)) for file in counts)
    began = time.process_time()
    info = add_files(counts, Path(folder) / "sum")
    return {"rows": rows, "distinct": info.distinct, "seconds": round(time.process_time() - began, 3)}


def _zipf_texts(size: int, exponent: float) -> Iterator[str]:
    """Texts of words drawn by Zipf's law from an infinite vocabulary, the same in every run."""
    generator = np.random.default_rng(7)
    while size > 0:
        text = _spelled(generator.zipf(exponent, 50_000))
        size -= len(text)
        yield text


def _spelled(numbers: Any) -> str:
    """Writes numbers from 1 as words in letters; small numbers give short words, as in a language."""
    letters = np.frombuffer(b"etaoinsrhldcumfpgwybvkxjqz", np.uint8)
    places = [np.full(len(numbers), ord(" "), np.uint8)]
    while numbers.any():
        places.append(np.where(numbers > 0, letters[(numbers - 1) % 26], 0))
        numbers = np.where(numbers > 0, (numbers - 1) // 26, 0)
    spelled = np.stack(places[::-1], axis=1)
    return str(spelled[spelled != 0].tobytes(), "ascii")


# ---------------------------------------------------------------- fits, tables and the chart


def heaps(points: list[dict[str, Any]]) -> dict[str, float]:
    """Heaps' law, distinct = k · words^beta, by least squares of logarithms.

    Returns:
        ``k`` and ``beta``; ``beta_error``, its standard error; and for the error of predictions: ``spread``, the standard
        deviation around the line, and ``mean`` and ``width``, the mean and the sum of squares of the logarithms.

    >>> fit = heaps([{"words": 10**n, "distinct": 3 * 10 ** (n / 2)} for n in range(2, 7)])
    >>> round(fit["k"], 6), round(fit["beta"], 6), round(fit["beta_error"], 6)
    (3.0, 0.5, 0.0)
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


def at(fit: dict[str, float], words: float) -> tuple[float, float]:
    """Predicts the distinct words of a text of ``words`` words; also returns the factor of two standard errors."""
    distance = log(words) - fit["mean"]
    error = fit["spread"] * (1 + 1 / fit["points"] + distance**2 / fit["width"]) ** 0.5
    return fit["k"] * words ** fit["beta"], exp(2 * error)


def report(results: dict[str, Any]) -> None:
    """Prints the measurements and the estimates for 1 and 10 TB as Markdown tables."""
    print("| text | MB | words, millions | distinct, thousands | counting, MB/s | table, MB | training, s | training, MB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for result in [*results["real"], {"name": "made up", "points": results["made_up"]}]:
        for point in result["points"]:
            print(
                f"| {result['name']} | {point['bytes'] / 1e6:,.0f} | {point['words'] / 1e6:,.2f} "
                f"| {point['distinct'] / 1e3:,.0f} | {point['bytes'] / 1e6 / max(point['seconds'], 1e-3):,.0f} "
                f"| {point.get('table_bytes', point.get('peak_bytes', 0)) / 1e6:,.0f} "
                f"| {point['loading_seconds'] + point['training_seconds']:,.1f} | {point['training_bytes'] / 1e6:,.0f} |"
            )
    least = " | ".join(f"at least {least} times" for least in _LEAST)
    print(f"\n| text | MB | β | of the distinct words, {least} |\n|---|---:|---:|{'---:|' * len(_LEAST)}")
    for result in results["real"]:
        last = result["points"][-1]
        shares = [f"{last[f'at_least_{least}'] / last['distinct']:.1%}" for least in _LEAST]
        fit = result["heaps"]
        beta = f"{fit['beta']:.3f} ± {fit['beta_error']:.3f}" if fit else ""
        print(f"| {result['name']} | {last['bytes'] / 1e6:,.0f} | {beta} | {' | '.join(shares)} |")
    if fit := results.get("made_up_heaps"):
        print(f"\nMade up: β = {fit['beta']:.3f} ± {fit['beta_error']:.3f}")
    if "adding" in results:
        added = results["adding"]
        print(f"\nAdding up: {added['rows'] / added['seconds'] / 1e6:.2f} million rows per second on one core")
    for result in results["real"]:
        if result["points"][-1]["bytes"] >= _ENOUGH_BYTES:
            _plan(result, results)


def _plan(result: dict[str, Any], results: dict[str, Any]) -> None:
    """Prints what 1 and 10 TB of such text would take, on machines with `_CORES` cores."""
    first, last = result["points"][0], result["points"][-1]
    words_per_byte = last["words"] / last["bytes"]
    rate = last["bytes"] / last["seconds"]
    row = last["file_bytes"] / last["distinct"]
    adding = results["adding"]["rows"] / results["adding"]["seconds"] if "adding" in results else 1e6
    more = last["distinct"] - first["distinct"]
    memory = (last["training_bytes"] - first["training_bytes"]) / more
    seconds = sum(last[name] - first[name] for name in ("loading_seconds", "training_seconds")) / more
    print(f"\n| {result['name']} | 1 TB | 10 TB |\n|---|---:|---:|")
    lines: dict[str, list[str]] = {}
    for size in (1e12, 1e13):
        distinct, off = at(result["heaps"], size * words_per_byte)
        tasks = size / _TASK_BYTES
        shuffled = tasks * at(result["heaps"], _TASK_BYTES * words_per_byte)[0]
        spread = f"{distinct / off / 1e6:,.0f} to {distinct * off / 1e6:,.0f}"
        lines.setdefault("distinct words, millions", []).append(f"{distinct / 1e6:,.0f} ({spread})")
        lines.setdefault("counting, core hours", []).append(f"{size / rate / 3600:,.0f}")
        for machines in (1, 16, 256):
            # A task cannot be divided.
            hours = max(size / rate / 3600 / (machines * _CORES), _TASK_BYTES / rate / 3600)
            hours += shuffled / adding / 3600 / min(machines * _CORES, 1024) + distinct / adding / 3600
            lines.setdefault(f"counting and adding up, hours on {machines} × {_CORES} cores", []).append(f"{hours:,.2f}")
        lines.setdefault("data shuffled, GB", []).append(f"{shuffled * row / 1e9:,.0f}")
        lines.setdefault("file of counts, GB", []).append(f"{distinct * row / 1e9:,.1f}")
        for least in (1, *_LEAST):
            words = distinct * (last[f"at_least_{least}"] / last["distinct"] if least > 1 else 1)
            title = f", --min-count {least}" if least > 1 else ""
            lines.setdefault(f"memory of training, GB{title}", []).append(f"{words * memory / 1e9:,.1f}")
            lines.setdefault(f"training, hours{title}", []).append(f"{words * seconds / 3600:,.2f}")
    for title, cells in lines.items():
        print(f"| {title} | {' | '.join(cells)} |")


def draw(results: dict[str, Any], path: Path) -> None:
    """Draws distinct words over running words, extrapolated to 10 TB if there is enough text, and the memory of training."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    made_up = {"name": "made up", "points": results["made_up"], "heaps": results.get("made_up_heaps")}
    series = [result for result in [*results["real"], made_up] if result["points"]]
    extrapolated = [result for result in series if result["points"][-1]["bytes"] >= _ENOUGH_BYTES and result["heaps"]]
    for result in series:
        points, fit = result["points"], result["heaps"]
        words, distinct, memory = ([point[name] for point in points] for name in ("words", "distinct", "training_bytes"))
        if result not in extrapolated:
            label = None if "less text" in left.get_legend_handles_labels()[1] else "less text"
            left.plot(words, distinct, "o", ms=3, color="lightgray", label=label, zorder=1)
            right.plot(distinct, memory, "o", ms=3, color="lightgray", label=label, zorder=1)
            continue
        colour = f"C{extrapolated.index(result)}"
        left.plot(words, distinct, "o", ms=4, color=colour)
        right.plot(distinct, memory, "o-", ms=4, lw=1, color=colour, label=result["name"])
        far = np.geomspace(words[0], 1e13 * words[-1] / points[-1]["bytes"], 50)
        middle, off = (np.array(column) for column in zip(*(at(fit, count) for count in far), strict=True))
        left.plot(
            far, middle, lw=1, color=colour, label=f"{result['name']}, β = {fit['beta']:.3f} ± {fit['beta_error']:.3f}"
        )
        left.fill_between(far, middle / off, middle * off, color=colour, alpha=0.12, lw=0)
    left.set(
        xscale="log",
        yscale="log",
        xlabel="running words",
        ylabel="distinct words",
        title="Heaps' law, extrapolated to 10 TB",
    )
    right.set(xscale="log", yscale="log", xlabel="distinct words", ylabel="bytes", title="Memory of training")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="upper left")
    with atomic_file(path) as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
