"""Compare tokenizers by the models they give: trains the same small Llama with each and measures bits per byte.

Every run has the same compute: a model of the same size and the same number of steps and tokens. With a tokenizer that needs
fewer tokens for a text, the model sees more text, which is its advantage and is reported. All text is converted to NFC, and
each line is one text. A seed decides the first weights of the model and the order of the lines, the same for all tokenizers.
Lines that are also in a held-out file are not used for training.

Writes the tokenizers it trains, compare.json and a chart, compare.png. Finished runs stay in runs/ and are not repeated.

Example: python scripts/compare_tokenizers.py si.txt.xz --recipe hybrid --recipe bpe --eval news.txt ntrex.txt
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from itertools import islice
from math import ceil
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from hf_sgpe import SGPEError
from hf_sgpe.corpora.held_out import read_held_out
from hf_sgpe.corpora.measured_text import normalized
from hf_sgpe.errors import check_matplotlib
from hf_sgpe.files.atomic import atomic_directory, atomic_file
from hf_sgpe.splitting.splitting import RECIPES
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.weights.model_loading import load_tokenizer
from trainers import CorpusFile, TokenizerTrainer, TrainingConfig, find_files, read_lines
from trainers.language_models.language_model import pack, small_llama
from trainers.language_models.scoring import bits_per_byte
from trainers.language_models.training_loop import adamw, train_on
from trainers.language_models.training_runs import (
    SETTINGS_FILE,
    check_settings,
    digest,
    digest_of,
    keep_settings,
    require_pytorch,
)
from trainers.model_rows.token_tables import embedding_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

COMPARE_FILE = "compare.json"
POINTS = 7
"""How many times a run is measured, the last time at its end."""


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("corpus", nargs="+", help="files, folders or globs to train on")
    parser.add_argument("--recipe", action="append", default=[], choices=RECIPES, help="tokenizer to train (repeatable)")
    parser.add_argument("--tokenizer", action="append", default=[], metavar="FOLDER", help="existing tokenizer (repeatable)")
    parser.add_argument("--eval", nargs="+", required=True, metavar="FILE", help="held-out text, FILE or NAME=FILE")
    parser.add_argument("--vocab-size", type=int, default=16_000, help="number of tokens of a recipe (default: %(default)s)")
    parser.add_argument("--script", action="append", help="script whose syllables stay whole (repeatable; default: all)")
    parser.add_argument("--seeds", type=int, default=3, help="runs for each tokenizer (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=700, help="steps of training (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=1024, help="tokens in a step (default: %(default)s)")
    parser.add_argument("--length", type=int, default=128, help="tokens in a row of a batch (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="layers of the model (default: %(default)s)")
    parser.add_argument("--width", type=int, default=192, help="hidden size of the model (default: %(default)s)")
    parser.add_argument("--heads", type=int, default=6, help="attention heads of the model (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="peak learning rate (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("compare"), help="folder to write to (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    check(args)
    held_out = {name: list(one) for name, one in read_held_out(args.eval).items()}
    for name, lines in held_out.items():
        if not lines:
            raise SGPEError(f"{name}: holds no text to measure")
    held_out_lines = {line for lines in held_out.values() for line in lines}
    lines = [line for line in lines_of(find_files(args.corpus)) if line not in held_out_lines]
    if not lines:
        raise SGPEError("nothing to train on: all lines of the corpus are also in the held-out files")
    existing = {Path(folder).name: load_tokenizer(folder) for folder in args.tokenizer}
    settings = settings_of(args, lines, held_out, existing)
    check_settings(args.out, settings)
    has_started = (args.out / SETTINGS_FILE).exists()
    tokenizers = {recipe: trained(recipe, args, lines, anew=not has_started) for recipe in args.recipe} | existing
    rows = max(map(embedding_rows, tokenizers.values()))

    results: dict[str, list[dict[str, Any]]] = {name: [] for name in tokenizers}
    for seed in range(1, args.seeds + 1):
        for name, tokenizer in tokenizers.items():
            file = args.out / "runs" / f"{name}-{seed}.json"
            if not file.exists():
                started = time.perf_counter()
                result = train_and_measure(tokenizer, lines, held_out, rows, seed, args, f"{name}, seed {seed}")
                keep_settings(args.out, settings)
                with atomic_file(file) as temporary:
                    temporary.write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8", newline="\n")
                values = ", ".join(f"{value:.4f} on {where}" for where, value in result["bits_per_byte"].items())
                print(f"{name}, seed {seed}: {values} ({time.perf_counter() - started:.0f} s)", flush=True)
            results[name].append(json.loads(file.read_text(encoding="utf-8")))
    summary = summarize(results, held_out, args)
    with atomic_directory(args.out) as folder:
        (folder / COMPARE_FILE).write_text(json.dumps(summary, indent=1, ensure_ascii=False), encoding="utf-8", newline="\n")
        draw(summary, folder / "compare.png")
    show(summary)
    print(f"\nWritten to {args.out}: {COMPARE_FILE}, compare.png")


def check(args: argparse.Namespace) -> None:
    """Checks the arguments before anything takes time."""
    require_pytorch()
    check_matplotlib()
    names = [*args.recipe, *(Path(folder).name for folder in args.tokenizer)]
    if len(names) < 2:
        raise SGPEError("nothing to compare: give at least two tokenizers with --recipe and --tokenizer")
    if len(set(names)) < len(names):
        raise SGPEError(f"two tokenizers have the same name: {', '.join(names)}")
    for name in ("seeds", "steps", "batch", "length"):
        if getattr(args, name) < 1:
            raise SGPEError(f"--{name} must be at least 1, not {getattr(args, name)}")
    if args.batch % args.length:
        raise SGPEError(f"--batch must be a multiple of --length {args.length}, not {args.batch}")
    small_llama(1, layers=args.layers, width=args.width, heads=args.heads, length=args.length)


def settings_of(
    args: argparse.Namespace,
    lines: list[str],
    held_out: dict[str, list[str]],
    existing: dict[str, PreTrainedTokenizerBase],
) -> dict[str, Any]:
    """Everything that the results depend on, except the number of seeds, which may grow."""
    names = ("recipe", "vocab_size", "script", "steps", "batch", "length", "layers", "width", "heads", "learning_rate")
    return {name: getattr(args, name) for name in names} | {
        "tokenizer": {name: digest(tokenizer) for name, tokenizer in existing.items()},
        "text": digest_of(lines),
        "held_out": {name: digest_of(texts) for name, texts in held_out.items()},
    }


def lines_of(files: list[CorpusFile]) -> list[str]:
    """The non-blank lines of files, in NFC."""
    return [normalized(line) for file in files for line in read_lines(file) if line.strip()]


def size_of(lines: Sequence[str]) -> int:
    return sum(len(line.encode()) for line in lines)


def trained(recipe: str, args: argparse.Namespace, lines: list[str], *, anew: bool) -> PreTrainedTokenizerBase:
    """The tokenizer of a recipe, trained now or by an earlier run."""
    folder = args.out / recipe
    if anew or not (folder / "tokenizer.json").exists():
        scripts = tuple(args.script or ("all",))
        config = TrainingConfig(args.vocab_size, recipe, scripts, special_tokens=("<|endoftext|>",))
        TokenizerTrainer(config).train(iterator=lines).save_pretrained(folder)
    return load_tokenizer(str(folder))


def train_and_measure(
    tokenizer: PreTrainedTokenizerBase,
    lines: list[str],
    held_out: dict[str, list[str]],
    embedding: int,
    seed: int,
    args: argparse.Namespace,
    title: str,
) -> dict[str, Any]:
    """Trains a new model with ``embedding`` rows of embeddings on the lines, in the order of the seed.

    Returns:
        Final bits per byte for each held-out file, their curve over tokens of training, and the number of bytes and tokens.
    """
    import torch
    from transformers import LlamaForCausalLM

    order = list(lines)
    random.Random(seed).shuffle(order)
    rows = list(islice(pack(order, tokenizer, args.length), args.steps * args.batch // args.length))
    if len(rows) * args.length < args.steps * args.batch:
        raise SGPEError(
            f"the corpus gives only {len(rows) * args.length:,} tokens for {args.steps} steps of {args.batch}: "
            "give more text, or fewer --steps"
        )
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = small_llama(embedding, layers=args.layers, width=args.width, heads=args.heads, length=args.length)
    model = LlamaForCausalLM(config).to(device)
    curve: list[dict[str, Any]] = []

    def measure(step: int) -> None:
        if step in points:
            values = {name: bits_per_byte(model, tokenizer, texts) for name, texts in held_out.items()}
            curve.append({"tokens": step * args.batch, "bits_per_byte": values})

    points = {ceil(args.steps * point / POINTS) for point in range(1, POINTS + 1)}
    batches = torch.tensor(rows).reshape(args.steps, -1, args.length)
    train_on(
        model,
        tqdm(batches, desc=title, unit=" steps", disable=not somebody_watches(), leave=False),
        adamw(model.parameters(), learning_rate=args.learning_rate),
        steps=args.steps,
        after_step=measure,
    )
    seen = len(tokenizer.decode([id for row in rows for id in row], skip_special_tokens=True).encode())
    return {
        "bits_per_byte": curve[-1]["bits_per_byte"],
        "curve": curve,
        "tokens_seen": len(rows) * args.length,
        "bytes_seen": seen,
        "parameters": model.num_parameters(),
    }


def summarize(
    results: dict[str, list[dict[str, Any]]], held_out: dict[str, list[str]], args: argparse.Namespace
) -> dict[str, Any]:
    """Adds to the runs of each tokenizer the mean and spread (standard deviation over seeds) for each held-out file."""
    tokenizers: dict[str, Any] = {}
    for name, runs in results.items():
        values = {where: [run["bits_per_byte"][where] for run in runs] for where in held_out}
        tokenizers[name] = {
            "mean": {where: fmean(of_seeds) for where, of_seeds in values.items()},
            "spread": {where: stdev(of_seeds) if len(of_seeds) > 1 else None for where, of_seeds in values.items()},
            "bytes_seen": round(fmean(run["bytes_seen"] for run in runs)),
            "tokens_per_byte": sum(run["tokens_seen"] for run in runs) / sum(run["bytes_seen"] for run in runs),
            "runs": runs,
        }
    first = next(iter(results.values()))[0]
    names = ("layers", "width", "heads", "length", "steps", "batch", "learning_rate", "seeds")
    return {
        "settings": {name: getattr(args, name) for name in names},
        "parameters": first["parameters"],
        "tokens_seen": first["tokens_seen"],
        "held_out_bytes": {where: size_of(lines) for where, lines in held_out.items()},
        "tokenizers": tokenizers,
    }


def show(summary: dict[str, Any]) -> None:
    tokenizers = summary["tokenizers"]
    width = max(map(len, tokenizers))
    print(
        f"\nEach model has {summary['parameters']:,} parameters and is trained on {summary['tokens_seen']:,} tokens; "
        "with fewer tokens per byte it sees more text:"
    )
    for name, result in tokenizers.items():
        print(f"  {name:<{width}}  {result['bytes_seen']:,} bytes seen, {result['tokens_per_byte']:.4f} tokens per byte")
    best = {where: min(result["mean"][where] for result in tokenizers.values()) for where in summary["held_out_bytes"]}
    for where, size in summary["held_out_bytes"].items():
        print(f"\nBits per byte on {where} ({size:,} bytes)")
        seeds = "".join(f"{f'seed {seed + 1}':>9}" for seed in range(summary["settings"]["seeds"]))
        print(f"  {'':<{width}}{seeds}     mean   spread")
        for name, result in tokenizers.items():
            values = "".join(f"{run['bits_per_byte'][where]:>9.4f}" for run in result["runs"])
            mean, spread = result["mean"][where], result["spread"][where]
            mark = "  ← best" if mean == best[where] else f"  +{mean / best[where] - 1:.2%}"
            print(f"  {name:<{width}}{values}{mean:>9.4f}{'        –' if spread is None else f'{spread:>9.4f}'}{mark}")


def draw(summary: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    places = list(summary["held_out_bytes"])
    figure, grid = pyplot.subplots(
        len(places), 2, figsize=(11, 0.8 + 3.6 * len(places)), width_ratios=(3, 2), layout="constrained", squeeze=False
    )
    for (curves, finals), where in zip(grid, places, strict=True):
        for number, (name, result) in enumerate(summary["tokenizers"].items()):
            color = f"C{number}"
            tokens = [point["tokens"] / 1000 for point in result["runs"][0]["curve"]]
            lines = [[point["bits_per_byte"][where] for point in run["curve"]] for run in result["runs"]]
            for line in lines:
                curves.plot(tokens, line, color=color, lw=0.8, alpha=0.5)
            curves.plot(tokens, list(map(fmean, zip(*lines, strict=True))), color=color, lw=2.5, label=name)
            values = [line[-1] for line in lines]
            finals.plot(values, [number] * len(values), "o", color=color, alpha=0.6)
            mean = result["mean"][where]
            finals.plot([mean, mean], [number - 0.25, number + 0.25], color=color, lw=2.5)
            finals.annotate(f"{mean:.4f}", (mean, number - 0.3), ha="center", va="bottom", fontsize=9)
        curves.set_title(f"{where}: while training")
        curves.set_xlabel("thousand tokens of training")
        curves.set_ylabel("bits per byte")
        curves.legend()
        curves.grid(alpha=0.3)
        finals.set_title(f"{where}: at the end")
        finals.set_xlabel("bits per byte (points: seeds, bar: mean)")
        finals.set_yticks(range(len(summary["tokenizers"])), list(summary["tokenizers"]))
        finals.set_ylim(len(summary["tokenizers"]) - 0.4, -0.6)
        finals.margins(x=0.2)
        finals.grid(alpha=0.3, axis="x")
    parameters, tokens = summary["parameters"] / 1e6, summary["tokens_seen"]
    figure.suptitle(f"The same model of {parameters:.1f} M parameters, the same {tokens:,} tokens: lower is better")
    figure.savefig(path, dpi=130, format="png")
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
