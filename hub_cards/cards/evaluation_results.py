"""Results of evaluations for the card of a model: for the card's model index, and for the Hub's benchmarks.

The Hub shows ``.eval_results/*.yaml`` on the page of the model and on the leaderboard of the benchmark. These files are only
for the Hub's benchmarks, which are data sets with an ``eval.yaml``. All other results are only in the model index. See
https://huggingface.co/docs/hub/eval-results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.hub import check_name
from hf_sgpe.files.json_files import json_object, optional_json
from hf_sgpe.files.resuming import BASE_FILE, PROGRESS_FILE
from hf_sgpe.files.unreadable import read_data

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

BENCHMARK_FOLDER = ".eval_results"
"""The folder in which the Hub looks for results of benchmarks."""

_HARNESS, _HARNESS_URL = "lm-evaluation-harness", "https://github.com/EleutherAI/lm-evaluation-harness"
# Metrics of the harness from 0 to 1. Leaderboards have them in per cent.
_SHARES = ("acc", "acc_norm", "exact_match", "f1")


@dataclass(frozen=True)
class TaskResult:
    """The value of a metric in a task.

    Attributes:
        task: Name of the task, or of the text.
        dataset: Hub name of the data set; empty for a text.
        config: Part of the data set.
        setting: How the harness evaluated; empty for a measurement of this package.
        date: Day of the evaluation, in ISO 8601.
        is_whole: Whether all examples of the task were evaluated.
    """

    task: str
    metric: str
    value: float
    dataset: str = ""
    config: str | None = None
    setting: str = ""
    date: str | None = None
    is_whole: bool = True

    def for_model_index(self) -> EvalResult:
        from huggingface_hub import EvalResult

        return EvalResult(
            task_type="text-generation",
            dataset_type=self.dataset or "held-out-text",
            dataset_name=self.task,
            dataset_config=self.config,
            metric_type=self.metric,
            metric_name=f"{self.metric}, {self.setting}" if self.setting else self.metric.replace("_", " "),
            metric_value=round(self.value, 6),
            source_name=_HARNESS if self.setting else None,
            source_url=_HARNESS_URL if self.setting else None,
        )


def read_results(file: str, folder: Path, name: str | None) -> list[TaskResult]:
    """Return the results in a file: ``results_*.json`` of lm-evaluation-harness, or the output of ``hf-sgpe evaluate
    --json``, of which only the measurements of the model ``folder`` or ``name`` are taken.
    """

    def is_this(model: str | None) -> bool:
        return model is not None and (model == name or Path(model).resolve() == folder.resolve())

    try:
        text = read_data(Path(file)).decode()
        # The output of `evaluate` is a list.
        found = json_object(f'{{"rows": {text}}}' if text.lstrip().startswith("[") else text, file)
        results = list(_of_texts(found["rows"], is_this) if "rows" in found else _of_harness(found))
    except (UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SGPEError):
            raise
        results = []
    if not results:
        raise SGPEError(
            f"{file}: no results of this model: give results_*.json of lm_eval --output_path, or the output of hf-sgpe "
            f"evaluate --json with --model {folder}"
        )
    return results


def _of_texts(rows: Sequence[Mapping[str, Any]], is_this: Callable[[str | None], bool]) -> Iterator[TaskResult]:
    for row in rows:
        if is_this(row.get("model")):
            yield TaskResult(Path(row["file"]).name, "bits_per_byte", float(row["bits_per_byte"]))


def _of_harness(found: Mapping[str, Any]) -> Iterator[TaskResult]:
    day = datetime.fromtimestamp(found["date"], timezone.utc).date().isoformat()
    is_whole = found["config"].get("limit") is None
    harness = f"{_HARNESS} {found.get('lm_eval_version', '')}".strip()
    for task, values in found["results"].items():
        config = found["configs"].get(task, {})  # a group of tasks has none
        shots = found["n-shot"].get(task)
        dataset = str(config.get("dataset_path") or "")
        is_on_hub = "/" in dataset and not Path(dataset).exists()
        for key, value in values.items():
            metric, comma, chosen = key.partition(",")
            if not comma or metric.endswith("_stderr") or not isinstance(value, (int, float)):
                continue
            setting = []
            if chosen != "none":
                setting.append(chosen)
            if shots is not None:
                setting.append(f"{shots}-shot")
            if not is_whole:
                setting.append("on a part of the examples")
            setting.append(harness)
            yield TaskResult(
                task,
                metric,
                value,
                dataset=dataset if is_on_hub else "",
                config=config.get("dataset_name"),
                setting=", ".join(setting),
                date=day,
                is_whole=is_whole,
            )


def benchmark_files(benchmarks: Iterable[str], results: Sequence[TaskResult]) -> dict[str, str]:
    """Return files with results for the Hub's benchmarks, keyed by path.

    Args:
        benchmarks: The benchmark of each task, ``TASK=DATASET:ID``. ID is that of the task in the ``eval.yaml`` of DATASET.
            If a task has several metrics, the first is the result.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    from huggingface_hub.utils import yaml_dump  # type: ignore[attr-defined]

    firsts = {result.task: result for result in reversed(results) if result.setting}
    files = {}
    for text in benchmarks:
        parts = re.fullmatch("(.+?)=([^:]+):(.+)", text)
        if not parts:
            raise SGPEError(f"--benchmark {text!r}: write TASK=DATASET:ID, such as gsm8k=openai/gsm8k:gsm8k")
        task, dataset, id = parts.groups()
        check_name(dataset)
        if task not in firsts:
            raise SGPEError(
                f"--benchmark {text!r}: --results has no task {task!r} of lm_eval, but {', '.join(sorted(firsts)) or 'none'}"
            )
        result = firsts[task]
        if not result.is_whole:
            raise SGPEError(f"--benchmark {text!r}: only a part of {task} was evaluated: run lm_eval without --limit")
        entry = EvalResultEntry(
            dataset_id=dataset,
            task_id=id,
            value=round(result.value * (100 if result.metric in _SHARES else 1), 4),
            date=result.date,
            source_url=_HARNESS_URL,
            source_name=_HARNESS,
            notes=f"{result.metric}, {result.setting}",
        )
        files[f"{BENCHMARK_FOLDER}/{task.replace('/', '_')}.yaml"] = yaml_dump(eval_result_entries_to_yaml([entry]))
    return files


def training_results(folder: Path) -> list[tuple[str, float, float]]:
    """Return the bits per byte before and after the training of the model in a folder, with the name of each text; none if
    they were not measured. If the folder is part of an adaptation, the numbers before the training are those of the base.
    """
    if not (folder / PROGRESS_FILE).is_file():
        return []
    try:
        measured = (folder / PROGRESS_FILE).read_text(encoding="utf-8").splitlines()
        first, *_, last = (json.loads(line)["languages"] for line in measured)
        before = {name: one["bits_per_byte"] for name, one in first.items()}
        before |= {name: bits for name, (bits, _) in (optional_json(folder.parent / BASE_FILE) or {}).items()}
        return [(name, before[name], one["bits_per_byte"]) for name, one in last.items()]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SGPEError(f"{folder / PROGRESS_FILE} is damaged: delete it, or train again") from None
