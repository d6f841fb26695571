"""Measure how many more tokens a text needs if its syllables stay whole.

The script trains one plain BPE tokenizer, and one tokenizer for each of several cut costs. It measures all of them on
held-out text. The cut cost (`TrainingConfig.cut_cost`) is the penalty, in tokens, for cutting a letter or a syllable. Plain
BPE is trained on the same text, and splits all text by the same pattern. The other tokenizers split words of the scripts
differently.

The script writes cut_cost.jsonl, with the measures of every file, and cut-cost.png, a chart of cut syllables against tokens.

Example: python benchmarks/cut_cost.py si.txt.xz en.txt.xz --eval ntrex_si.txt ntrex_en.txt
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from harness import Records, command, held_out_lines
from tqdm import tqdm

from hf_sgpe.cli.application import named_numbers
from hf_sgpe.errors import check_matplotlib
from hf_sgpe.evaluation.metrics import evaluate
from hf_sgpe.files.charts import chart
from hf_sgpe.learning.unit_choice import CUT_COST
from hf_sgpe.terminal.progress import somebody_watches
from trainers import TokenizerTrainer, TrainingConfig

COSTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SHARES = {"cut_syllable_share": "cut syllables", "cut_letter_share": "cut letters"}
PLAIN = "plain BPE"


def _run(args: argparse.Namespace) -> None:
    check_matplotlib()
    lines = held_out_lines(args.eval)
    weights = named_numbers(args.weight, "--weight", "NAME-OR-GLOB=NUMBER", float)
    hybrid = TrainingConfig(vocab_size=args.vocab_size, scripts=tuple(args.script or ("all",)), weights=weights)
    plain = TrainingConfig(args.vocab_size, "bpe", normalization="nfc", weights=weights)
    records = Records(args.out / "cut_cost.jsonl")
    with tqdm(total=1 + len(args.costs), desc="Sweeping", disable=not somebody_watches()) as bar:
        for configs in ([plain], [replace(hybrid, cut_cost=cost) for cost in args.costs]):
            counts = TokenizerTrainer(configs[0], progress=False).count(files=args.corpus)
            for config in configs:
                tokenizer = TokenizerTrainer(config, progress=False).learn(counts)
                result: dict[str, Any] = {"cut_cost": config.cut_cost, "vocab_size": args.vocab_size, "files": {}}
                for name, text in lines.items():
                    measures = evaluate(tokenizer, text).to_dict()
                    result["files"][name] = {key: measures[key] for key in ("tokens", "tokens_per_word", *SHARES)}
                records.add(PLAIN if config.cut_cost is None else f"{config.cut_cost:g}", result)
                bar.update()
    report(records.results, args.out)
    print(f"\nWritten to {args.out}: cut_cost.jsonl, cut-cost.png")


def report(results: dict[str, Any], out: Path) -> None:
    """Print a table and draw a chart of the tokens and the cut syllables and letters of each cut cost."""
    shown = {name: _summary(result["files"], results[PLAIN]["files"]) for name, result in results.items()}
    print("cut cost    tokens  against plain BPE (worst file)       cut syllables (worst)  cut letters (worst)")
    for name, one in shown.items():
        shares = "".join(f"     {fmean(one[share]):7.3%} ({max(one[share]):7.3%})" for share in SHARES)
        print(f"{name:<10} {one['tokens']:>9,}  {one['more']:+7.2%} ({one['most']:+7.2%})   {shares}")
    plain = shown.pop(PLAIN)
    with chart(out / "cut-cost.png", (11, 4.6)) as (figure, ((*axes,),)):
        for axis, (share, title) in zip(axes, SHARES.items(), strict=True):
            across = [100 * one["more"] for one in shown.values()]
            for color, statistic, label in (("C0", fmean, "mean of the languages"), ("C1", max, "worst language")):
                up = [100 * statistic(one[share]) for one in shown.values()]
                axis.plot(across, up, "o-", ms=4, color=color, label=label)
                axis.plot(0, 100 * statistic(plain[share]), "s", color=color, label=f"plain BPE, {label}")
            for x, (name, one) in zip(across, shown.items(), strict=True):
                is_usual = float(name) == CUT_COST
                text = f" cut cost {name}, the default" if is_usual else f" {name}"
                style = {"fontsize": 8, "fontweight": "bold" if is_usual else "normal", "textcoords": "offset points"}
                axis.annotate(text, (x, 100 * fmean(one[share])), (2, 5), **style)
            axis.axvline(0, ls=":", color="gray")
            axis.set(yscale="log", xlabel="tokens against plain BPE, %", ylabel=f"{title}, % (logarithmic)")
        axes[0].legend(fontsize=8)
        figure.suptitle(f"What whole syllables cost, {results[PLAIN]['vocab_size']:,} tokens")


def _summary(files: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    """Return the total number of ``tokens``, the relative increase of this total over plain BPE (``more``), the largest
    increase in a single file (``most``), and a list of the shares in the files for each name in `SHARES`.
    """
    tokens = sum(measures["tokens"] for measures in files.values())
    more = tokens / sum(measures["tokens"] for measures in plain.values()) - 1
    most = max(measures["tokens"] / plain[name]["tokens"] - 1 for name, measures in files.items())
    shares = {share: [one[share] for one in files.values() if one[share] is not None] or [0.0] for share in SHARES}
    return {"tokens": tokens, "more": more, "most": most, **shares}


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("corpus", nargs="+", help="files, folders or globs to train on")
        option(
            "--eval",
            nargs="+",
            required=True,
            metavar="FILE",
            help="held-out text, a file for each language: FILE or NAME=FILE",
        )
        option("--vocab-size", default=32_000, help="number of tokens of each trained tokenizer")
        option("--script", action="append", help="script whose syllables stay whole (repeatable; default: all)")
        option(
            "--weight",
            action="append",
            default=[],
            metavar="NAME=NUMBER",
            help="weight of the words in a file, as in hf-sgpe train (repeatable)",
        )
        option("--costs", type=float, nargs="+", default=COSTS, help="cut costs to measure")
        option("--out", default=Path("sweep"), help="folder to write to")
