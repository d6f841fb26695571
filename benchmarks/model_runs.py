"""Train each model of a benchmark with several seeds. Finished runs are kept and not repeated."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Records, lines_of
from tqdm import tqdm

from hf_sgpe import SGPEError
from hf_sgpe.errors import check_matplotlib
from hf_sgpe.files.resuming import check_settings, keep_settings
from hf_sgpe.terminal.progress import somebody_watches
from trainers.language_models.language_model import pack
from trainers.language_models.scoring import score_texts
from trainers.language_models.training_loop import warm_up_and_cosine
from trainers.language_models.training_runs import require_pytorch

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

_SEED = ", seed "
_LEAST_RATE = 0.1  # the last learning rate relative to the peak, as is usual for small models


def add_options(option: Callable[..., Any], out: str, **defaults: float) -> None:
    """Declare the training options in ``defaults`` with these default values, and --out with the default ``out``."""
    about = {"seeds": "runs per model", "steps": "training steps", "batch": "tokens per step", "length": "tokens per row"}
    for name, default in defaults.items():
        option(f"--{name.replace('_', '-')}", default=default, help=about.get(name, "peak learning rate"))
    option("--out", default=Path(out), help="folder to write to")


def check(args: Namespace) -> None:
    """Check the libraries and options before the first run."""
    require_pytorch()
    check_matplotlib()
    for name in ("seeds", "steps", "batch", "length"):
        if getattr(args, name) < 1:
            raise SGPEError(f"--{name} must be at least 1, not {getattr(args, name)}")
    if args.batch % args.length:
        raise SGPEError(f"--batch must be a multiple of --length {args.length}, not {args.batch}")


def training_lines(corpus: Sequence[str], held_out: Mapping[str, Sequence[str]]) -> list[str]:
    lines = lines_of(corpus, held_out)
    if not lines:
        raise SGPEError(
            "nothing to train on, because all lines of the corpus are also in the held-out files: give other text to "
            "train on"
        )
    return lines


def batches_of(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, args: Namespace) -> torch.Tensor:
    """Encode texts to batches of ids (steps × rows × tokens)."""
    import torch

    rows = list(islice(pack(texts, tokenizer, args.length), args.steps * args.batch // args.length))
    if len(rows) * args.length < args.steps * args.batch:
        raise SGPEError(
            f"the corpus has only {len(rows) * args.length:,} tokens for {args.steps} steps of {args.batch} tokens: "
            "add text, or use fewer --steps"
        )
    return torch.tensor(rows).reshape(args.steps, -1, args.length)


def run_all(
    question: str,
    names: Collection[str],
    train: Callable[[str, int], dict[str, Any]],
    settings: Mapping[str, Any],
    args: Namespace,
) -> dict[str, Any]:
    """Train each model in ``names`` with each seed, unless this run has finished before. Return the result of each run.

    Args:
        train: Function that trains the model of a given name with a given seed. It returns a dict with a list ``points`` of
            measurements during training. Each measurement has a dict ``bits_per_byte``, keyed by the name of the held-out
            text.
        settings: All settings that affect the results, except the number of seeds. Later calls must have the same settings,
            but may have more seeds.
    """
    check_settings(args.out, settings)
    records = Records(args.out / f"{question}.jsonl", keep=True)
    wanted = {f"{name}{_SEED}{seed}": (name, seed) for seed in range(1, args.seeds + 1) for name in names}
    for about, (name, seed) in wanted.items():
        if about in records.results:
            continue
        began = time.perf_counter()
        records.add(about, train(name, seed))
        keep_settings(args.out, settings)
        last = records.results[about]["points"][-1]["bits_per_byte"]
        values = ", ".join(f"{value:.4f} on {where}" for where, value in last.items())
        print(f"{about}: {values} ({time.perf_counter() - began:.0f} s)", flush=True)
    return {about: records.results[about] for about in wanted}


def by_name(results: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the results of `run_all` keyed by the name of the model, in the order of the seeds."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for about, result in results.items():
        runs.setdefault(about.rpartition(_SEED)[0], []).append(result)
    return runs


def places_of(runs: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the names of the held-out texts."""
    return list(next(iter(runs.values()))[0]["points"][0]["bits_per_byte"])


def train(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    batches: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    held_out: Mapping[str, Sequence[str]],
    ends: Collection[int],
    title: str,
    mixed: bool | None = None,
    **scoring: Any,
) -> list[dict[str, Any]]:
    """Train a model on the result of `batches_of`, and return the measurements after the steps in ``ends``. The learning
    rate falls to a tenth of its peak.

    Args:
        mixed: Whether to use mixed precision with bfloat16. None uses it if the model is on a CUDA GPU that supports it.
        scoring: Arguments of `score_texts`.
    """
    import torch

    points: list[dict[str, Any]] = []
    began = time.perf_counter()

    def measure(step: int) -> None:
        if step in ends:
            scores = {name: score_texts(model, tokenizer, texts, **scoring) for name, texts in held_out.items()}
            values = {name: score.bits_per_byte for name, score in scores.items()}
            on_new = {name: score.watched for name, score in scores.items()}
            point = {"step": step, "tokens": step * batches[0].numel(), "seconds": time.perf_counter() - began}
            points.append(point | {"bits_per_byte": values, "on_new_tokens": on_new})

    measure(0)
    schedule = warm_up_and_cosine(optimizer, len(batches), least=_LEAST_RATE)
    if mixed is None:
        mixed = model.device.type == "cuda" and torch.cuda.is_bf16_supported()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.train()
    for step, batch in enumerate(tqdm(batches, desc=title, unit=" steps", disable=not somebody_watches(), leave=False), 1):
        ids = batch.to(model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=mixed):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
        model.zero_grad()
        measure(step)
    return points
