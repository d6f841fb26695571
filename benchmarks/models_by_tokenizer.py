"""Train the same small Llama with each of several tokenizers, and compare the bits per byte.

All runs use the same compute: the models have the same size, and train for the same number of steps on the same number of
tokens. If a tokenizer needs fewer tokens for a text, its model sees more text. The script reports this advantage. Text is
normalized to NFC, and each line is one text. The seed determines the initial weights and the order of the lines. Both are
the same for all tokenizers. Lines that also occur in a held-out file are not used for training.

The script writes the trained tokenizers, a record of each run, and the chart bits-per-byte.png. Finished runs are not
repeated.

Example: python benchmarks/models_by_tokenizer.py si.txt.xz --recipe hybrid --recipe bpe --eval news.txt ntrex.txt
"""

from __future__ import annotations

import random
from argparse import Namespace
from math import ceil
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import model_runs
from harness import command, held_out_lines
from model_runs import add_options, batches_of, by_name, check, places_of, run_all, training_lines
from reporting import table

from hf_sgpe import SGPEError
from hf_sgpe.files.charts import chart
from hf_sgpe.files.resuming import SETTINGS_FILE
from hf_sgpe.splitting.splitting import RECIPES
from hf_sgpe.weights.model_loading import load_tokenizer
from trainers import TokenizerTrainer, TrainingConfig
from trainers.language_models.language_model import small_llama
from trainers.language_models.training_loop import adamw
from trainers.language_models.training_runs import digest, digest_of
from trainers.model_rows.token_tables import embedding_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

POINTS = 7
"""Number of measurements during a run; the last measurement is at the end."""
SHAPE = ("layers", "width", "heads", "length")


def _run(args: Namespace) -> None:
    check(args)
    names = [*args.recipe, *(Path(folder).name for folder in args.tokenizer)]
    if len(names) < 2:
        raise SGPEError("nothing to compare: name at least two tokenizers with --recipe and --tokenizer")
    if len(set(names)) < len(names):
        raise SGPEError(f"two tokenizers have the same name: {', '.join(names)}")
    small_llama(1, **_shape(args))
    held_out = held_out_lines(args.eval)
    lines = training_lines(args.corpus, held_out)
    existing = {Path(folder).name: load_tokenizer(folder) for folder in args.tokenizer}
    settings = {name: getattr(args, name) for name in ("recipe", "vocab_size", "script", "steps", "batch", "learning_rate")}
    settings |= _shape(args) | {
        "tokenizer": {name: digest(tokenizer) for name, tokenizer in existing.items()},
        "text": digest_of(lines),
        "held_out": {name: digest_of(texts) for name, texts in held_out.items()},
    }
    has_started = (args.out / SETTINGS_FILE).exists()
    tokenizers: dict[str, Any] = {}

    def train(name: str, seed: int) -> dict[str, Any]:
        if not tokenizers:
            tokenizers.update({recipe: _trained(recipe, args, lines, again=not has_started) for recipe in args.recipe})
            tokenizers.update(existing)
        rows = max(map(embedding_rows, tokenizers.values()))
        return _train_and_measure(tokenizers[name], lines, held_out, rows, seed, args, f"{name}, seed {seed}")

    report(run_all("models_by_tokenizer", names, train, settings, args), args.out)
    print(f"\nWritten to {args.out}: models_by_tokenizer.jsonl, bits-per-byte.png")


def _shape(args: Namespace) -> dict[str, int]:
    return {name: getattr(args, name) for name in SHAPE}


def _trained(recipe: str, args: Namespace, lines: list[str], *, again: bool) -> PreTrainedTokenizerBase:
    """Load the tokenizer that an earlier run trained by the recipe. If there is none, or with ``again``, train it."""
    folder = args.out / recipe
    if again or not (folder / "tokenizer.json").exists():
        scripts = tuple(args.script or ("all",))
        config = TrainingConfig(args.vocab_size, recipe, scripts=scripts, special_tokens=("<|endoftext|>",))
        TokenizerTrainer(config).train(iterator=lines).save_pretrained(folder)
    return load_tokenizer(str(folder))


def _train_and_measure(
    tokenizer: PreTrainedTokenizerBase,
    lines: list[str],
    held_out: dict[str, list[str]],
    embedding: int,
    seed: int,
    args: Namespace,
    title: str,
) -> dict[str, Any]:
    """Train a new model with ``embedding`` embedding rows on the lines, shuffled by ``seed``, and measure it."""
    import torch
    from transformers import LlamaForCausalLM

    order = list(lines)
    random.Random(seed).shuffle(order)
    batches = batches_of(order, tokenizer, args)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(small_llama(embedding, **_shape(args))).to("cuda" if torch.cuda.is_available() else "cpu")
    ends = {ceil(args.steps * point / POINTS) for point in range(1, POINTS + 1)}
    optimizer = adamw(model.parameters(), learning_rate=args.learning_rate)
    points = model_runs.train(model, tokenizer, batches, optimizer, held_out, ends, title)
    return {
        "points": points,
        "tokens_seen": batches.numel(),
        "bytes_seen": len(tokenizer.decode(batches.flatten().tolist(), skip_special_tokens=True).encode()),
        "held_out_bytes": {name: len("".join(texts).encode()) for name, texts in held_out.items()},
        "parameters": model.num_parameters(),
    }


def report(results: dict[str, Any], out: Path) -> None:
    """Print and draw the bits per byte of the models with each tokenizer: for each seed, the mean and the standard
    deviation.
    """
    runs = by_name(results)
    first = next(iter(results.values()))
    print(
        f"\nEach model has {first['parameters']:,} parameters and is trained on {first['tokens_seen']:,} tokens; "
        "with fewer tokens per byte it sees more text:"
    )
    for name, ones in runs.items():
        seen = fmean(one["bytes_seen"] for one in ones)
        print(f"  {name}: {seen:,.0f} bytes seen, {fmean(one['tokens_seen'] for one in ones) / seen:.4f} tokens per byte")
    for where, size in first["held_out_bytes"].items():
        values = {name: [one["points"][-1]["bits_per_byte"][where] for one in ones] for name, ones in runs.items()}
        best = min(map(fmean, values.values()))
        rows = []
        for name, of_seeds in values.items():
            mean, spread = fmean(of_seeds), f"{stdev(of_seeds):.4f}" if len(of_seeds) > 1 else "–"
            mark = "← best" if mean == best else f"+{mean / best - 1:.2%}"
            rows.append((name, *(f"{value:.4f}" for value in of_seeds), f"{mean:.4f}", spread, mark))
        seeds = [f"seed {seed + 1}" for seed in range(len(rows[0]) - 4)]
        print(f"\nBits per byte on {where} ({size:,} bytes)\n\n{table(('', *seeds, 'mean', 'spread', ''), rows)}")
    _draw(runs, out / "bits-per-byte.png", first)


def _draw(runs: dict[str, list[dict[str, Any]]], path: Path, first: dict[str, Any]) -> None:
    places = places_of(runs)
    size = (11, 0.8 + 3.6 * len(places))
    with chart(path, size, len(places), width_ratios=(3, 2)) as (figure, grid):
        for (curves, finals), where in zip(grid, places, strict=True):
            for number, (name, ones) in enumerate(runs.items()):
                color = f"C{number}"
                tokens = [point["tokens"] / 1000 for point in ones[0]["points"]]
                lines = [[point["bits_per_byte"][where] for point in one["points"]] for one in ones]
                for line in lines:
                    curves.plot(tokens, line, color=color, lw=0.8, alpha=0.5)
                curves.plot(tokens, list(map(fmean, zip(*lines, strict=True))), color=color, lw=2.5, label=name)
                mean = fmean(line[-1] for line in lines)
                finals.plot([line[-1] for line in lines], [number] * len(lines), "o", color=color, alpha=0.6)
                finals.plot([mean, mean], [number - 0.25, number + 0.25], color=color, lw=2.5)
                finals.annotate(f"{mean:.4f}", (mean, number - 0.3), ha="center", va="bottom", fontsize=9)
            curves.set(title=f"{where}: while training", xlabel="thousand tokens of training", ylabel="bits per byte")
            curves.legend()
            finals.set(title=f"{where}: at the end", xlabel="bits per byte (points: seeds, bar: mean)")
            finals.set_yticks(range(len(runs)), list(runs))
            finals.set_ylim(len(runs) - 0.4, -0.6)
            finals.margins(x=0.2)
            finals.grid(axis="y", visible=False)
        parameters, tokens_seen = first["parameters"] / 1e6, first["tokens_seen"]
        figure.suptitle(f"The same model of {parameters:.1f} M parameters, the same {tokens_seen:,} tokens: lower is better")


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("corpus", nargs="+", help="files, folders or globs to train on")
        option("--recipe", action="append", default=[], choices=RECIPES, help="recipe of a tokenizer to train (repeatable)")
        option(
            "--tokenizer", action="append", default=[], metavar="FOLDER", help="folder of an existing tokenizer (repeatable)"
        )
        option("--eval", nargs="+", required=True, metavar="FILE", help="held-out text, FILE or NAME=FILE")
        option("--vocab-size", default=16_000, help="number of tokens of each trained tokenizer")
        option("--script", action="append", help="script whose syllables stay whole (repeatable; default: all)")
        option("--layers", default=4, help="layers of the model")
        option("--width", default=192, help="hidden size of the model")
        option("--heads", default=6, help="attention heads of the model")
        add_options(option, "compare", seeds=3, steps=700, batch=1024, length=128, learning_rate=2e-3)
