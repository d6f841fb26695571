"""Goes on training a model in a new language from several starts, and measures bits per byte on the way.

The starts: the model as it is; with an extended tokenizer and random new rows; with rows at the mean of their pieces; with
later pieces weighing more; with rows distilled; and, given a donor, by matching pursuit (omp). All train the same number of
tokens on the same text in the same order, mixed with text in a language that the model knows. What it prints and draws is
measured against tokens, which cost compute, and against bytes of text. Finished runs stay in --out and are not repeated.

Example: python scripts/benchmark_transplant.py smollm2 smollm2-si si.txt.xz --keep en.txt.xz --eval si=si.txt en=en.txt
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
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
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.weights.model_loading import load_model, load_tokenizer
from trainers import find_files, read_lines
from trainers.language_models.language_model import pack
from trainers.language_models.scoring import score_texts
from trainers.language_models.training_loop import adamw, train_on
from trainers.language_models.training_runs import check_settings, digest, digest_of, keep_settings, require_pytorch
from trainers.model_rows.token_tables import PARTS, fit_embeddings, parameter_groups, tables_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from trainers.model_rows.embedding_rows import RowMap

STARTS = ("as it is", "random", "mean", "weighted", "distilled", "omp")
POINTS = 8
"""How many times a run is measured while it trains, more often in the beginning."""


@dataclass
class Texts:
    """What is trained on and measured on."""

    new: list[str]
    old: list[str]
    held_out: dict[str, list[str]]
    old_share: float

    def documents(self, seed: int) -> Iterator[str]:
        """Both kinds of text, shuffled, for ever; of the old languages the given share of the bytes."""
        order = random.Random(seed)
        sources = [list(self.new), list(self.old)]
        done = [0, 0]
        places = [0, 0]
        while True:
            which = int(bool(self.old) and done[1] < self.old_share * sum(done))
            if places[which] % len(sources[which]) == 0:
                order.shuffle(sources[which])
            text = sources[which][places[which] % len(sources[which])]
            places[which] += 1
            done[which] += len(text.encode())
            yield text


@dataclass
class Run:
    """One start with one seed: what was measured, beginning before the first step."""

    start: str
    seed: int
    points: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("model", help="folder of a model with its tokenizer")
    parser.add_argument("tokenizer", help="folder of the extended tokenizer")
    parser.add_argument("corpus", nargs="+", help="text in the new language: files, folders or globs")
    parser.add_argument("--keep", nargs="+", default=[], metavar="FILE", help="text in languages that the model knows")
    parser.add_argument("--keep-share", type=float, default=0.2, help="of the bytes (default: %(default)s)")
    parser.add_argument("--eval", nargs="+", required=True, metavar="NAME=FILE", help="held-out text, one text a line")
    parser.add_argument("--starts", nargs="+", choices=STARTS, help="(default: all; omp with --donor)")
    parser.add_argument("--donor", metavar="MODEL", help="folder of a model that knows the new language, for the start omp")
    parser.add_argument("--parts", choices=PARTS, default="all", help="what is trained (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=1, help="runs for each start (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1200, help="(default: %(default)s)")
    parser.add_argument("--batch", type=int, default=16384, help="tokens in a step (default: %(default)s)")
    parser.add_argument("--length", type=int, default=512, help="tokens in a row (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="at its peak (default: %(default)s)")
    parser.add_argument("--rows-learning-rate", type=float, help="of new rows (default: the same)")
    parser.add_argument("--distil-steps", type=int, default=300, help="before training (default: %(default)s)")
    parser.add_argument("--distil-batch", type=int, default=32, help="texts in each of them (default: %(default)s)")
    parser.add_argument("--bfloat16", action="store_true", help="multiply so on CPUs, too: faster where they have AMX")
    parser.add_argument("--lines", type=int, help="of each held-out text (default: all)")
    parser.add_argument("--out", type=Path, default=Path("transplant"), help="folder to write to (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    require_pytorch()
    check_matplotlib()
    if args.batch % args.length:
        raise SGPEError(f"--batch must be a multiple of --length {args.length}, not {args.batch}")
    args.starts = args.starts or [start for start in STARTS if start != "omp" or args.donor]
    if ("omp" in args.starts) != bool(args.donor):
        raise SGPEError("--starts omp needs --donor, and no other start does")
    texts = read_texts(args)
    tokenizer, old = load_tokenizer(args.tokenizer), load_tokenizer(args.model)
    others = ("model", "tokenizer", "corpus", "keep", "keep_share", "eval", "starts", "donor", "seeds", "out")
    settings = {name: value for name, value in vars(args).items() if name not in others} | {
        "tokenizers": [digest(tokenizer), digest(old)],
        "text": digest_of([*texts.new, *texts.old]),
        "keep_share": args.keep_share,
    }
    check_settings(args.out, settings)
    keep_settings(args.out, settings)

    @cache
    def batches_for(as_it_is: bool, seed: int) -> tuple[Any, list[int]]:
        return packed(texts, old if as_it_is else tokenizer, seed, args)

    runs = []
    for seed in range(1, args.seeds + 1):
        for start in args.starts:
            file = args.out / f"{start.replace(' ', '-')}-{seed}.json"
            if not file.exists():
                one = train(start, seed, texts, tokenizer, old, batches_for(start == "as it is", seed), args)
                with atomic_file(file) as temporary:
                    temporary.write_text(json.dumps(vars(one), indent=1), encoding="utf-8", newline="\n")
                last = ", ".join(f"{name} {value:.4f}" for name, value in one.points[-1]["bits_per_byte"].items())
                print(f"{start}, seed {seed}: {last} ({one.seconds:.0f} s)", flush=True)
            runs.append(Run(**json.loads(file.read_text(encoding="utf-8"))))
    with atomic_file(args.out / "transplant.md") as temporary:
        temporary.write_text(table(runs), encoding="utf-8", newline="\n")
    draw(runs, args.out / "transplant.svg")
    print(f"\n{table(runs)}")


def read_texts(args: argparse.Namespace) -> Texts:
    held_out = {name: list(one)[: args.lines] for name, one in read_held_out(args.eval).items()}
    measured = {line for lines in held_out.values() for line in lines}
    new, old = ([line for line in lines_of(paths) if line not in measured] for paths in (args.corpus, args.keep))
    if not new:
        raise SGPEError("there is no text to train on that is not held out")
    return Texts(new, old, held_out, args.keep_share)


def lines_of(paths: Sequence[str]) -> list[str]:
    return [normalized(line) for file in find_files(paths) for line in read_lines(file) if line.strip()]


def packed(texts: Texts, tokenizer: PreTrainedTokenizerBase, seed: int, args: argparse.Namespace) -> tuple[Any, list[int]]:
    """Batches of ids, steps by rows by tokens, and how many bytes of text have been read after each step."""
    import numpy
    import torch

    rows = list(islice(pack(texts.documents(seed), tokenizer, args.length), args.steps * args.batch // args.length))
    sizes = token_sizes(tokenizer)[numpy.array(rows)].reshape(args.steps, -1).sum(1).cumsum()
    return torch.tensor(rows).reshape(args.steps, -1, args.length), sizes.tolist()


def token_sizes(tokenizer: PreTrainedTokenizerBase) -> Any:
    """Bytes of each token by its id; special ones are none of the text."""
    import numpy

    sizes = numpy.zeros(max(tokenizer.get_vocab().values()) + 1, int)
    for token, id in tokenizer.get_vocab().items():
        sizes[id] = 0 if token in tokenizer.get_added_vocab() else len(token)  # a character of it is a byte
    return sizes


def train(
    start: str,
    seed: int,
    texts: Texts,
    tokenizer: PreTrainedTokenizerBase,
    old: PreTrainedTokenizerBase,
    batches: tuple[torch.Tensor, list[int]],
    args: argparse.Namespace,
) -> Run:
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(AutoModelForCausalLM, args.model).to(device)
    result = Run(start, seed)
    began = time.perf_counter()
    used = old if start == "as it is" else tokenizer
    ids = begin(start, model, tokenizer, old, texts, seed, args)
    ends = {0, *(ceil(args.steps * (point / POINTS) ** 2) for point in range(1, POINTS + 1))}

    def measure(step: int) -> None:
        if step in ends:
            scores = {
                name: score_texts(model, used, lines, length=args.length, watched=ids)
                for name, lines in texts.held_out.items()
            }
            read = batches[1][step - 1] if step else 0
            result.points.append(
                {
                    "tokens": step * args.batch,
                    "bytes": read,
                    "seconds": time.perf_counter() - began,
                    "bits_per_byte": {name: score.bits_per_byte for name, score in scores.items()},
                    "on_new_tokens": {name: score.watched for name, score in scores.items()},
                }
            )

    measure(0)
    groups, rows = parameter_groups(
        model,
        args.parts,
        ids,
        learning_rate=args.learning_rate,
        rows_learning_rate=args.rows_learning_rate if ids else None,
    )
    optimizer = adamw(groups, learning_rate=args.learning_rate)
    if rows is not None:
        rows.attach(optimizer)
    bar = tqdm(batches[0], desc=f"{start}, seed {seed}", unit=" steps", disable=not somebody_watches(), leave=False)
    train_on(model, bar, optimizer, steps=args.steps, after_step=measure, mixed=args.bfloat16 or None)
    result.seconds = time.perf_counter() - began
    return result


def begin(
    start: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    old: PreTrainedTokenizerBase,
    texts: Texts,
    seed: int,
    args: argparse.Namespace,
) -> list[int]:
    """Fits a model to the extended tokenizer, and returns the ids of the new rows."""
    import torch

    from trainers.model_rows.distillation import distil
    from trainers.model_rows.row_starts import by_position, by_pursuit
    from trainers.model_rows.transplanting import embedding_of

    if start == "as it is":
        return []
    how: Callable[[RowMap], RowMap] | None = by_position if start in ("weighted", "distilled") else None
    if start == "omp":
        how = partial(by_pursuit, tokenizer=tokenizer, donor=load_tokenizer(args.donor), donor_rows=embedding_of(args.donor))
    row_map = fit_embeddings(model, tokenizer, old, start=how)
    with torch.no_grad():
        for table in tables_of(model) if start == "random" else ():
            table[row_map.new] = torch.randn_like(table[row_map.new]) * getattr(model.config, "initializer_range", 0.02)
    if start == "distilled":
        sample = list(islice(texts.documents(seed), args.distil_steps * args.distil_batch))
        size = {"steps": args.distil_steps, "batch_size": args.distil_batch, "length": args.length}
        distil(model, tokenizer, old, row_map.new, sample, seed=seed, **size)
    return row_map.new


def table(runs: list[Run]) -> str:
    """Bits per byte as a table of Markdown: before training, after equal compute, and after equal text, which is what the
    run that read least has read. Behind them the share of the probability that new tokens take."""
    places = list(runs[0].points[0]["bits_per_byte"])
    least = min(run.points[-1]["bytes"] for run in runs)
    times = ("nothing trained", f"{runs[0].points[-1]['tokens']:,} tokens", f"{least / 1e6:.1f} MB of text")
    heading = ["bits per byte", *(f"{place}, {time}" for place in places for time in times)]
    heading += [f"{place}, on new tokens" for place in places]
    rows = [heading, ["---", *["---:"] * (len(heading) - 1)]]
    for start in dict.fromkeys(run.start for run in runs):
        ones = [run for run in runs if run.start == start]
        row = [start]
        for place in places:
            for size in (0, None, least):
                numbers = [at(run, run.points[-1]["bytes"] if size is None else size, place) for run in ones]
                spread = f" ± {stdev(numbers):.4f}" if len(numbers) > 1 and size != 0 else ""
                row.append(f"{fmean(numbers):.4f}{spread}")
        first, last = (ones[0].points[end]["on_new_tokens"] for end in (0, -1))
        rows.append([*row, *(f"{first[place]:.3%} → {last[place]:.3%}" for place in places)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def at(run: Run, size: int, place: str) -> float:
    """Bits per byte after so many bytes of text, between the points in a straight line."""
    import numpy

    sizes = [point["bytes"] for point in run.points]
    return float(numpy.interp(size, sizes, [point["bits_per_byte"][place] for point in run.points]))


def draw(runs: list[Run], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text, and not its outlines
    from matplotlib import pyplot

    places = list(runs[0].points[0]["bits_per_byte"])
    starts = list(dict.fromkeys(run.start for run in runs))
    figure, grid = pyplot.subplots(
        len(places), 2, figsize=(11, 0.8 + 3.4 * len(places)), layout="constrained", squeeze=False, sharey="row"
    )
    for axes, place in zip(grid, places, strict=True):
        for axis, (measure, unit) in zip(axes, (("tokens", "tokens"), ("bytes", "bytes of text")), strict=True):
            for run in runs:
                number = starts.index(run.start)
                label = run.start if run.seed == 1 else None
                across = [point[measure] / 1e6 for point in run.points]
                up = [point["bits_per_byte"][place] for point in run.points]
                axis.plot(across, up, "o-", color=f"C{number}", lw=1.5, ms=3, alpha=0.8, label=label)
            axis.set_xlabel(f"million {unit} of training")
            axis.grid(alpha=0.3)
        axes[0].set_ylabel(f"bits per byte, {place}")
        axes[0].legend()
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
