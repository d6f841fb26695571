"""Train a model in a new language from several initializations, and measure bits per byte during training.

One initialization is the unchanged model with its own tokenizer. The others use an extended tokenizer, and differ in the
embedding rows of the new tokens. These rows can be random, the mean of the rows of the token's pieces, a mean with more
weight on later pieces, distilled, or, with a donor model, computed by matching pursuit (omp). All runs train on the same
number of tokens, and on the same text in the same order. Text in a language that the model knows is mixed in. Results are
shown against the number of tokens, which determines the compute, and against bytes of text. Finished runs are kept in --out
and not repeated.

Example: python benchmarks/model_starts.py smollm2 smollm2-si si.txt.xz --keep en.txt.xz --eval si=si.txt en=en.txt
"""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from math import ceil
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import model_runs
import numpy as np
from harness import command, held_out_lines, lines_of
from model_runs import add_options, batches_of, by_name, check, places_of, run_all, training_lines
from reporting import table

from hf_sgpe import SGPEError
from hf_sgpe.files.atomic import write_text
from hf_sgpe.files.charts import chart
from hf_sgpe.learning.adaptation import PARTS
from hf_sgpe.weights.model_loading import load_model, load_tokenizer
from trainers.language_models.training_loop import adamw
from trainers.language_models.training_runs import digest, digest_of
from trainers.model_rows.token_tables import fit_embeddings, parameter_groups, tables_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from trainers.model_rows.embedding_rows import RowMap

AS_IT_IS = "as it is"
STARTS = (AS_IT_IS, "random", "mean", "weighted", "distilled", "omp")
POINTS = 8
"""Number of measurements during a run; they are more frequent at the beginning."""


@dataclass
class _Texts:
    """Texts in the new language, in known (old) languages, and held-out ones. ``old_share`` is a share of the bytes read."""

    new: list[str]
    old: list[str]
    held_out: dict[str, list[str]]
    old_share: float

    def documents(self, seed: int) -> Iterator[str]:
        """Yield training texts in the new and the old languages, in random order and without end: after its last text, a
        language group is shuffled and repeated.
        """
        order = random.Random(seed)
        sources = [list(self.new), list(self.old)]
        done, places = [0, 0], [0, 0]
        while True:
            which = int(bool(self.old) and done[1] < self.old_share * sum(done))
            if places[which] % len(sources[which]) == 0:
                order.shuffle(sources[which])
            text = sources[which][places[which] % len(sources[which])]
            places[which] += 1
            done[which] += len(text.encode())
            yield text


def _run(args: Namespace) -> None:
    check(args)
    args.starts = args.starts or [start for start in STARTS if start != "omp" or args.donor]
    if ("omp" in args.starts) != bool(args.donor):
        raise SGPEError("--starts omp needs --donor; for other starts, leave out --donor")
    held_out = held_out_lines(args.eval, args.lines)
    texts = _Texts(training_lines(args.corpus, held_out), lines_of(args.keep, held_out), held_out, args.keep_share)
    new, old = load_tokenizer(args.tokenizer), load_tokenizer(args.model)
    others = ("model", "tokenizer", "corpus", "keep", "eval", "starts", "donor", "seeds", "out")
    settings = {name: value for name, value in vars(args).items() if name not in others} | {
        "tokenizers": [digest(new), digest(old)],
        "text": digest_of([*texts.new, *texts.old]),
    }
    starts = _Starts(args, texts, new, old)
    report(run_all("model_starts", args.starts, starts.train, settings, args), args.out)


@dataclass(eq=False)
class _Starts:
    """The training runs, one from each initialization. ``new`` is the extended tokenizer, and ``old`` is the model's own
    tokenizer.
    """

    args: Namespace
    texts: _Texts
    new: PreTrainedTokenizerBase
    old: PreTrainedTokenizerBase

    @cache  # noqa: B019
    def batches(self, as_it_is: bool, seed: int) -> tuple[torch.Tensor, list[int]]:
        """Encode the training text, with the model's own tokenizer if ``as_it_is``. Return the batches, and the number of
        bytes of text up to the end of each step.
        """
        tokenizer = self.old if as_it_is else self.new
        batches = batches_of(self.texts.documents(seed), tokenizer, self.args)
        vocabulary, added = tokenizer.get_vocab(), tokenizer.get_added_vocab()
        sizes = np.zeros(max(vocabulary.values()) + 1, int)
        for token, id in vocabulary.items():
            sizes[id] = 0 if token in added else len(token)  # each character of the token is one byte
        return batches, sizes[batches.numpy()].sum((1, 2)).cumsum().tolist()

    def train(self, start: str, seed: int) -> dict[str, Any]:
        import torch
        from transformers import AutoModelForCausalLM

        args, tokenizer = self.args, self.old if start == AS_IT_IS else self.new
        batches, read = self.batches(start == AS_IT_IS, seed)
        torch.manual_seed(seed)
        torch.set_float32_matmul_precision("high")
        model = load_model(AutoModelForCausalLM, args.model).to("cuda" if torch.cuda.is_available() else "cpu")
        ids = [] if start == AS_IT_IS else self.begin(start, model, seed)
        rates = {"learning_rate": args.learning_rate, "rows_learning_rate": args.rows_learning_rate if ids else None}
        groups, rows = parameter_groups(model, args.parts, ids, **rates)
        optimizer = adamw(groups, learning_rate=args.learning_rate)
        if rows is not None:
            rows.attach(optimizer)
        ends = {0, *(ceil(args.steps * (point / POINTS) ** 2) for point in range(1, POINTS + 1))}
        how = {"mixed": args.bfloat16 or None, "length": args.length, "watched": ids}
        title = f"{start}, seed {seed}"
        points = model_runs.train(model, tokenizer, batches, optimizer, self.texts.held_out, ends, title, **how)
        return {"points": [point | {"bytes": read[point["step"] - 1] if point["step"] else 0} for point in points]}

    def begin(self, start: str, model: PreTrainedModel, seed: int) -> list[int]:
        """Give the model rows for the new tokens, initialized by the method ``start``. Return the ids of these rows."""
        import torch

        from trainers.model_rows.distillation import Distillation, choose_snippets, distil
        from trainers.model_rows.row_starts import by_position, by_pursuit
        from trainers.model_rows.transplanting import embedding_of

        args, new, old = self.args, self.new, self.old
        how: Callable[[RowMap], RowMap] | None = by_position if start in ("weighted", "distilled") else None
        if start == "omp":
            donor = {"donor": load_tokenizer(args.donor), "donor_rows": embedding_of(args.donor)}
            how = partial(by_pursuit, tokenizer=new, **donor)
        row_map = fit_embeddings(model, new, old, start=how)
        with torch.no_grad():
            for rows in tables_of(model) if start == "random" else ():
                rows[row_map.new] = torch.randn_like(rows[row_map.new]) * getattr(model.config, "initializer_range", 0.02)
        if start == "distilled":
            settings = Distillation(per_token=args.distil_snippets, seed=seed)
            snippets = choose_snippets(new, old, row_map.new, self.texts.new, settings)
            distil(model, row_map.new, snippets, settings)
        return row_map.new


def report(results: dict[str, Any], out: Path) -> None:
    """Write a table (transplant.md) and a chart (transplant.svg) of the bits per byte from each initialization.

    For equal text, the runs are compared at the largest number of bytes that all of them have read. The last columns have
    the share of probability that the model gives to new tokens before and after training.
    """
    runs = by_name(results)
    places, last = places_of(runs), [run["points"][-1] for run in results.values()]
    least = min(point["bytes"] for point in last)
    times = ("nothing trained", f"{last[0]['tokens']:,} tokens", f"{least / 1e6:.1f} MB of text")
    heading = ["bits per byte", *(f"{place}, {time}" for place in places for time in times)]
    rows = []
    for start, ones in runs.items():
        row = [start]
        for place in places:
            for size in (0, None, least):
                numbers = [_at(one["points"], size, place) for one in ones]
                spread = f" ± {stdev(numbers):.4f}" if len(numbers) > 1 and size != 0 else ""
                row.append(f"{fmean(numbers):.4f}{spread}")
        first, end = (ones[0]["points"][point]["on_new_tokens"] for point in (0, -1))
        rows.append([*row, *(f"{first[place]:.3%} → {end[place]:.3%}" for place in places)])
    text = table([*heading, *(f"{place}, on new tokens" for place in places)], rows) + "\n"
    write_text(out / "transplant.md", text)
    _draw(runs, out / "transplant.svg")
    print(f"\n{text}")


def _at(points: list[dict[str, Any]], size: int | None, place: str) -> float:
    """Return the bits per byte on the text ``place`` after ``size`` bytes of training (None: at the end), interpolated."""
    sizes = [point["bytes"] for point in points]
    return float(np.interp(sizes[-1] if size is None else size, sizes, [point["bits_per_byte"][place] for point in points]))


def _draw(runs: dict[str, list[dict[str, Any]]], path: Path) -> None:
    places = places_of(runs)
    with chart(path, (11, 0.8 + 3.4 * len(places)), len(places), sharey="row") as (_, grid):
        for axes, place in zip(grid, places, strict=True):
            for axis, (measure, unit) in zip(axes, (("tokens", "tokens"), ("bytes", "bytes of text")), strict=True):
                for number, (start, ones) in enumerate(runs.items()):
                    for seed, one in enumerate(ones):
                        across = [point[measure] / 1e6 for point in one["points"]]
                        up = [point["bits_per_byte"][place] for point in one["points"]]
                        style = {"color": f"C{number}", "lw": 1.5, "ms": 3, "alpha": 0.8}
                        axis.plot(across, up, "o-", label=None if seed else start, **style)
                axis.set_xlabel(f"million {unit} of training")
            axes[0].set_ylabel(f"bits per byte, {place}")
            axes[0].legend()


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("model", help="folder of a model with its tokenizer")
        option("tokenizer", help="folder of the extended tokenizer")
        option("corpus", nargs="+", help="text in the new language: files, folders or globs")
        option("--keep", nargs="+", default=[], metavar="FILE", help="text in languages that the model knows")
        option("--keep-share", default=0.2, help="share of the training text (in bytes) to take from --keep")
        option("--eval", nargs="+", required=True, metavar="NAME=FILE", help="held-out files with one text per line")
        option(
            "--starts", nargs="+", choices=STARTS, help="initializations to train from (default: all; omp only with --donor)"
        )
        option("--donor", metavar="MODEL", help="folder of a model that knows the new language, for --starts omp")
        option("--parts", choices=PARTS, default="all", help="parts of the model to train")
        option("--rows-learning-rate", type=float, help="learning rate of new rows (default: --learning-rate)")
        option("--distil-snippets", default=8, help="for --starts distilled: number of text snippets for each new token")
        option("--bfloat16", action="store_true", help="multiply in bfloat16 on CPUs, too; this is faster on CPUs with AMX")
        option("--lines", type=int, help="lines of each held-out text to use (default: all)")
        add_options(option, "transplant", seeds=1, steps=1200, batch=16384, length=512, learning_rate=3e-4)
