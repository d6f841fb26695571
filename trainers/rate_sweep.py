"""A sweep of learning rates: short trainings with several rates, before the training of an adaptation."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import read_json, write_json
from hf_sgpe.learning.adaptation import Adaptation
from trainers.language_models.training_runs import DivergedError

SWEEP = "sweep.json"
"""The file with the results of a sweep, keyed by rates: the bits per byte after a short training, relative to those before;
null if the training diverged.
"""

# A short training has this share of the steps. Its rates are those of the adaptation, multiplied by a factor.
_SHARE = 0.05
_LEAST_STEPS = 10
_FACTORS = (1 / 3, 1.0, 3.0)

Train = Callable[[Adaptation, Path], Sequence[Mapping[str, Any]]]


def with_best_rates(given: Adaptation, out: Path, train: Train, show: Callable[[str], None]) -> Adaptation:
    """Return the settings with the learning rates that leave the fewest bits per byte, on average over the held-out texts.
    Finished short trainings are not repeated.

    Args:
        out: Folder of the adaptation.
        train: Function that trains with some settings into a folder, and returns the measurements.
    """
    results: dict[str, float | None] = read_json(out / SWEEP) if (out / SWEEP).exists() else {}
    steps = max(round(_SHARE * given.steps), min(_LEAST_STEPS, given.steps))
    candidates = {_rates(one): one for one in (_scaled(given, factor) for factor in _FACTORS)}
    for rates, candidate in candidates.items():
        if rates in results:
            continue
        folder = out / f"sweep-{candidate.learning_rate:.4g}-{candidate.rows_learning_rate:.4g}"
        short = replace(candidate, budget=str(steps * given.batch_size * given.length), report_to=[])
        try:
            result = results[rates] = _remaining(train(short, folder))
            show(f"{rates}: after {steps:,} steps {result:.2%} of the bits per byte before them")
        except DivergedError:
            results[rates] = None
            show(f"{rates}: the training diverged")
        write_json(out / SWEEP, results)
        shutil.rmtree(folder, ignore_errors=True)
    remaining = {rates: results[rates] or inf for rates in candidates}
    best = min(remaining, key=remaining.__getitem__)
    if remaining[best] >= 1:
        raise SGPEError(
            "no training of the sweep made the model better: run the same command with --resume, and with a lower "
            "--learning-rate and --rows-learning-rate"
        )
    show(f"{best}: best of the sweep")
    return candidates[best]


def _scaled(given: Adaptation, factor: float) -> Adaptation:
    rates = {"learning_rate": factor * given.learning_rate, "rows_learning_rate": factor * given.rows_learning_rate}
    return replace(given, **rates)  # type: ignore[arg-type]


def _remaining(points: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean of the bits per byte at the last measurement, relative to those at the first measurement."""
    before, after = points[0]["languages"], points[-1]["languages"]
    return fmean(after[name]["bits_per_byte"] / before[name]["bits_per_byte"] for name in before)


def _rates(given: Adaptation) -> str:
    return f"Learning rate {given.learning_rate:.4g}, of new rows {given.rows_learning_rate:.4g}"
