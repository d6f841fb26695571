"""Find the best letter_coverage and syllable_coverage: trains with each pair of values and measures on held-out text.

The best pair is the one with the fewest tokens that cuts at most 1 % of syllables and 0.1 % of letters in every file. A file
that no pair keeps within a limit, because the corpus lacks its letters, is ignored for this limit and reported. The corpus
is counted once; each pair takes one training and one measurement. Writes sweep.json and a chart, sweep.png.

Example: python scripts/sweep_coverage.py corpora/si.txt.xz corpora/en.txt.xz --eval si-held-out.txt --vocab-size 32000
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.atomic import atomic_directory
from hf_sgpe.cli.app import named_numbers
from hf_sgpe.command import ArgumentParser, exit_code
from hf_sgpe.quiet import somebody_watches
from hub_cards.metrics import evaluate
from hub_cards.plots import check_matplotlib
from trainers import TokenizerTrainer, TrainingConfig, find_files, read_lines

LETTERS = (0.999, 0.9995, 0.9999, 0.99999, 1.0)
SYLLABLES = (0.98, 0.99, 0.995, 0.998, 0.999, 0.9998, 1.0)
CUTS = {"cut_syllable_share": 0.01, "cut_letter_share": 0.001}
"""Measure → the limit that every file has to keep."""
TITLES = {"cut_syllable_share": "cut syllables", "cut_letter_share": "cut letters"}


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("corpus", nargs="*", help="files, folders or globs to train on")
    parser.add_argument("--counts", nargs="+", default=[], metavar="FILE", help="words counted before, instead of text")
    parser.add_argument("--eval", nargs="+", required=True, metavar="FILE", help="held-out text, one file for each language")
    parser.add_argument("--vocab-size", type=int, default=32_000, help="number of tokens (default: %(default)s)")
    parser.add_argument("--script", action="append", help="script whose syllables are kept whole (repeatable; default: all)")
    parser.add_argument("--weight", action="append", default=[], metavar="NAME=NUMBER", help="as for hf-sgpe train")
    parser.add_argument("--letters", type=float, nargs="+", default=LETTERS, help="letter coverages to try")
    parser.add_argument("--syllables", type=float, nargs="+", default=SYLLABLES, help="syllable coverages to try")
    parser.add_argument("--out", type=Path, default=Path("sweep"), help="folder to write to (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    check_matplotlib()  # a missing package should show now, not after an hour
    weights = named_numbers(args.weight, "--weight", "NAME-OR-GLOB=NUMBER", float)
    options: dict[str, Any] = {
        "vocab_size": args.vocab_size,
        "scripts": tuple(args.script or ("all",)),
        "weights": weights,
    }
    lines = {str(file): [line for line in read_lines(file) if line.strip()] for file in find_files(args.eval)}
    if not args.corpus and not args.counts:
        raise SGPEError("nothing to train on: give text, or words counted before with --counts")
    for name, text in lines.items():
        if not text:
            raise SGPEError(f"{name}: holds no text to measure")
    counts = TokenizerTrainer(TrainingConfig(**options)).count(files=args.corpus, counts=args.counts)
    results: list[dict[str, Any]] = []
    for letters, syllables in tqdm(
        list(product(args.letters, args.syllables)), desc="Sweeping", disable=not somebody_watches()
    ):
        config = TrainingConfig(**options, letter_coverage=letters, syllable_coverage=syllables)
        try:
            tokenizer = TokenizerTrainer(config, progress=False).learn(counts)
        except SGPEError as error:
            print(f"letters {letters}, syllables {syllables}: left out ({error})", file=sys.stderr)
            continue
        measures = {name: measure(tokenizer, text) for name, text in lines.items()}
        results.append({"letter_coverage": letters, "syllable_coverage": syllables, "files": measures})
    if not results:
        raise SGPEError("no pair of coverages could be trained: give a larger vocab_size")
    best, out_of_reach = summarize(results)
    with atomic_directory(args.out) as folder:
        (folder / "sweep.json").write_text(json.dumps(results, indent=1), encoding="utf-8", newline="\n")
        draw(results, best, args.vocab_size, folder / "sweep.png")
    print("letters  syllables  tokens/word  cut syllables (worst)  cut letters (worst)")
    for result in sorted(results, key=lambda result: result["tokens_per_word"]):
        mark = "  ← best" if result is best else ""
        print(
            f"{result['letter_coverage']:<8} {result['syllable_coverage']:<10} {result['tokens_per_word']:<12.4f}"
            f" {result['cut_syllable_share']:7.3%} ({result['worst']['cut_syllable_share']:7.3%})     "
            f" {result['cut_letter_share']:7.4%} ({result['worst']['cut_letter_share']:7.4%}){mark}"
        )
    for name, file in out_of_reach:
        print(f"{file}: ignored for the limit on {TITLES[name]}, which no pair of coverages keeps in this file")
    if best is None:
        print("No pair of coverages keeps the limits: try higher coverages or more text.")
    print(f"\nWritten to {args.out}: sweep.json, sweep.png")


def measure(tokenizer: BPETokenizer, lines: list[str]) -> dict[str, Any]:
    measures = evaluate(tokenizer, lines).to_dict()
    return {name: measures[name] for name in ("tokens_per_word", *CUTS)}


def summarize(results: list[dict[str, Any]]) -> tuple[dict[str, Any] | None, list[tuple[str, str]]]:
    """Adds the mean and the worst value over all files to each result.

    Returns:
        The best result, which is the one with the fewest tokens within the limits, or None; and each measure and file for
        which no result is within the limit. If these are all files of a measure, there is no best result.
    """
    least_cut = {
        (name, file): min(result["files"][file][name] for result in results)
        for name in CUTS
        for file, measures in results[0]["files"].items()
        if measures[name] is not None
    }
    out_of_reach = [key for key, share in least_cut.items() if share > CUTS[key[0]]]
    for result in results:
        files = result["files"]
        # The geometric mean, so that one per cent counts the same in every language.
        result["tokens_per_word"] = exp(fmean(log(measures["tokens_per_word"]) for measures in files.values()))
        result["worst"] = {}
        for name in CUTS:
            shares = {file: measures[name] for file, measures in files.items() if measures[name] is not None}
            result[name] = fmean(shares.values()) if shares else 0.0
            within = [share for file, share in shares.items() if (name, file) not in out_of_reach]
            result["worst"][name] = max(within or shares.values(), default=0.0)
    allowed = [result for result in results if all(result["worst"][name] <= limit for name, limit in CUTS.items())]
    return min(allowed, key=lambda result: result["tokens_per_word"], default=None), out_of_reach


def draw(results: list[dict[str, Any]], best: dict[str, Any] | None, vocab_size: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    cheapest = min(result["tokens_per_word"] for result in results)
    for axis, (name, limit) in zip(axes, CUTS.items(), strict=True):
        for letters in sorted({result["letter_coverage"] for result in results}):
            line = [result for result in results if result["letter_coverage"] == letters]
            line.sort(key=lambda result: result["syllable_coverage"])
            xs = [100 * (result["tokens_per_word"] / cheapest - 1) for result in line]
            ys = [100 * result["worst"][name] for result in line]
            axis.plot(xs, ys, "o-", ms=4, label=f"letter coverage {letters}")
            if name == "cut_syllable_share" and letters == (best or results[0])["letter_coverage"]:
                for x, result in zip(xs, line, strict=True):
                    place = (x, 100 * result["worst"][name])
                    axis.annotate(f" {result['syllable_coverage']}", place, fontsize=8, va="bottom")
        if best:
            x = 100 * (best["tokens_per_word"] / cheapest - 1)
            axis.plot(x, 100 * best["worst"][name], "o", ms=12, mfc="none", mec="black", label="best")
        axis.axhline(100 * limit, ls=":", color="gray", label="limit")
        axis.set_xlabel("tokens per word above the cheapest, %")
        axis.set_ylabel(f"{TITLES[name]}, worst file, %")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.suptitle(f"Coverage of letters and syllables, {vocab_size:,} tokens (points: syllable coverage)")
    figure.savefig(path, dpi=130, format="png")
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
