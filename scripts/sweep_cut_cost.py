"""Show what whole syllables cost: trains with several cut costs, and plain BPE, and measures both on held-out text.

A cut cost says how many tokens a cut letter or syllable counts as (`TrainingConfig.cut_cost`). Plain BPE is trained on the
same text with the same pattern, without the words of the scripts.

Writes sweep.json with the measures of every file, and sweep.png: cut syllables against tokens, beside plain BPE.

Example: python scripts/sweep_cut_cost.py si.txt.xz en.txt.xz --eval ntrex_si.txt ntrex_en.txt
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.cli.application import named_numbers
from hf_sgpe.corpora.held_out import read_held_out
from hf_sgpe.errors import check_matplotlib
from hf_sgpe.evaluation.metrics import evaluate
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.learning.unit_choice import CUT_COST
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from hf_sgpe.terminal.progress import somebody_watches
from trainers import TokenizerTrainer, TrainingConfig

COSTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SHARES = {"cut_syllable_share": "cut syllables", "cut_letter_share": "cut letters"}


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("corpus", nargs="+", help="files, folders or globs to train on")
    parser.add_argument(
        "--eval", nargs="+", required=True, metavar="FILE", help="held-out text, FILE or NAME=FILE, one for each language"
    )
    parser.add_argument("--vocab-size", type=int, default=32_000, help="number of tokens (default: %(default)s)")
    parser.add_argument("--script", action="append", help="script whose syllables are kept whole (repeatable; default: all)")
    parser.add_argument("--weight", action="append", default=[], metavar="NAME=NUMBER", help="as for hf-sgpe train")
    parser.add_argument("--costs", type=float, nargs="+", default=COSTS, help="cut costs to try")
    parser.add_argument("--out", type=Path, default=Path("sweep"), help="folder to write to (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    check_matplotlib()
    lines = {name: list(one) for name, one in read_held_out(args.eval).items()}
    for name, text in lines.items():
        if not text:
            raise SGPEError(f"{name}: holds no text to measure")
    hybrid = TrainingConfig(
        vocab_size=args.vocab_size,
        scripts=tuple(args.script or ("all",)),
        weights=named_numbers(args.weight, "--weight", "NAME-OR-GLOB=NUMBER", float),
    )
    plain = TrainingConfig(args.vocab_size, "bpe", normalization="nfc", weights=hybrid.weights)
    results: list[dict[str, Any]] = []
    with tqdm(total=1 + len(args.costs), desc="Sweeping", disable=not somebody_watches()) as bar:
        for configs in ([plain], [replace(hybrid, cut_cost=cost) for cost in args.costs]):
            counts = TokenizerTrainer(configs[0], progress=False).count(files=args.corpus)
            for config in configs:
                tokenizer = TokenizerTrainer(config, progress=False).learn(counts)
                results.append(
                    {"cut_cost": config.cut_cost, "files": {name: measure(tokenizer, text) for name, text in lines.items()}}
                )
                bar.update()
    summarize(results)
    with atomic_directory(args.out) as folder:
        (folder / "sweep.json").write_text(json.dumps(results, indent=1), encoding="utf-8", newline="\n")
        draw(results, args.vocab_size, folder / "sweep.png")
    print("cut cost    tokens  beside plain BPE (most in one file)  cut syllables (worst)  cut letters (worst)")
    for result in results:
        name = "plain BPE" if result["cut_cost"] is None else f"{result['cut_cost']:g}"
        print(
            f"{name:<10} {result['tokens']:>9,}  {result['beside_plain']:+7.2%} ({result['most_beside_plain']:+7.2%})   "
            + "".join(f"     {fmean(result[share].values()):7.3%} ({max(result[share].values()):7.3%})" for share in SHARES)
        )
    print(f"\nWritten to {args.out}: sweep.json, sweep.png")


def measure(tokenizer: BPETokenizer, lines: list[str]) -> dict[str, Any]:
    measures = evaluate(tokenizer, lines).to_dict()
    return {name: measures[name] for name in ("tokens", "tokens_per_word", *SHARES)}


def summarize(results: list[dict[str, Any]]) -> None:
    """Adds to each result its tokens, beside those of the first, which is plain BPE, and its shares by file."""
    plain = results[0]["files"]
    for result in results:
        files = result["files"]
        result["tokens"] = sum(measures["tokens"] for measures in files.values())
        result["beside_plain"] = result["tokens"] / sum(measures["tokens"] for measures in plain.values()) - 1
        result["most_beside_plain"] = max(measures["tokens"] / plain[name]["tokens"] - 1 for name, measures in files.items())
        for share in SHARES:
            shares = {name: measures[share] for name, measures in files.items() if measures[share] is not None}
            result[share] = shares or {"": 0.0}


def draw(results: list[dict[str, Any]], vocab_size: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    plain, swept = results[0], results[1:]
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for axis, (share, title) in zip(axes, SHARES.items(), strict=True):
        xs = [100 * result["beside_plain"] for result in swept]
        for color, statistic, label in (("C0", fmean, "mean of the languages"), ("C1", max, "worst language")):
            axis.plot(
                xs, [100 * statistic(result[share].values()) for result in swept], "o-", ms=4, color=color, label=label
            )
            axis.plot(0, 100 * statistic(plain[share].values()), "s", color=color, label=f"plain BPE, {label}")
        for x, result in zip(xs, swept, strict=True):
            is_usual = result["cut_cost"] == CUT_COST
            text = f" cut cost {result['cut_cost']:g}, the default" if is_usual else f" {result['cut_cost']:g}"
            place = (x, 100 * fmean(result[share].values()))
            weight = "bold" if is_usual else "normal"
            axis.annotate(text, place, (2, 5), textcoords="offset points", fontsize=8, fontweight=weight)
        axis.axvline(0, ls=":", color="gray")
        axis.set_yscale("log")
        axis.set_xlabel("tokens beside plain BPE, %")
        axis.set_ylabel(f"{title}, % (logarithmic)")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.suptitle(f"What whole syllables cost, {vocab_size:,} tokens")
    figure.savefig(path, dpi=130, format="png")
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
