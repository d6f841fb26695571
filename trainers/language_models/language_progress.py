"""A callback for transformers' ``Trainer``. It shows how well a model predicts each language during training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from hf_sgpe.corpora.held_out import read_held_out
from hf_sgpe.errors import SGPEError, check_matplotlib, not_installed

try:
    from transformers import TrainerCallback
except ModuleNotFoundError:
    raise not_installed("LanguageProgress needs transformers", "transformers", extra="transformers") from None

from hf_sgpe.files.atomic import write_text
from hf_sgpe.files.charts import chart
from hf_sgpe.files.resuming import PROGRESS_FILE
from trainers.language_models.scoring import Score, encode_held_out, score_encoded, undisturbed
from trainers.model_rows.token_tables import extended_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Trainer

MEASURES = {
    "bits_per_byte": "{:.4f} bits per byte",
    "bytes_per_token": "{:.2f} bytes per token",
    "loss": "loss {:.3f}",
    "loss_old": "{:.3f} on old tokens",
    "loss_new": "{:.3f} on new tokens",
    "new_probability": "{:.1%} of the probability on new tokens",
    "new_tokens": "{:.1%} of the tokens are new",
}
"""Formats for printing the measures of a language, keyed by measure."""


class LanguageProgress(TrainerCallback):
    """A callback that measures a model on held-out text in several languages while a ``Trainer`` trains this model.

    Add the callback with ``trainer.add_callback(LanguageProgress(trainer, …))``. The callback measures before the first
    step, after the last step and, in between, at each evaluation of the trainer or after every ``every`` steps. It logs the
    measures with ``trainer.log``, so they appear in ``trainer.state.log_history`` and in each program of ``report_to``. For
    a text with the name ``si``, the measures are:

    - ``eval_si_bits_per_byte``, which is comparable between tokenizers (`trainers.language_models.scoring.score_texts`);
    - ``eval_si_bytes_per_token``;
    - ``eval_si_loss``, the mean loss per token in nats;
    - ``eval_si_loss_old`` and ``eval_si_loss_new``, the mean losses of old tokens and of new tokens;
    - ``eval_si_new_probability``, the mean total probability that the model assigns to new tokens;
    - ``eval_si_new_tokens``, the share of new tokens in the text. After enough training, it is about equal to
      ``eval_si_new_probability``.

    New tokens are those in ``new_ids``. If there are none, the measures of old and new tokens are left out. If the callback
    measures at evaluations, any measure can be the ``metric_for_best_model``. The trained weights are the same as without
    the callback. If training uses several processes, they share the work, and the first process prints and writes.

    Args:
        trainer: The trainer to watch.
        held_out: Texts, keyed by name, or a list of files in the form ``FILE`` or ``NAME=FILE``.
        every: Number of steps between measurements. If None, the callback measures at each evaluation of the trainer. If the
            trainer does not evaluate, the callback measures after each tenth of the steps.
        tokenizer: The model's tokenizer; None for the ``processing_class`` of the trainer.
        new_ids: Ids of the new tokens; None for the tokens that the last extension of the tokenizer added.
        length: As in `trainers.language_models.scoring.score_texts`.
        file: File for the measurements, one JSON object per line; None for ``language_progress.jsonl`` in the trainer's
            ``output_dir``.
        picture: SVG or PNG file for a chart of the measurements. The chart is drawn after training, with matplotlib.
        show: Function that is called with each line to print; None prints nothing.
    """

    def __init__(
        self,
        trainer: Trainer,
        held_out: Mapping[str, Sequence[str]] | Iterable[str],
        *,
        every: int | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        new_ids: Sequence[int] | None = None,
        length: int | None = None,
        file: str | Path | None = None,
        picture: str | Path | None = None,
        show: Callable[[str], None] | None = tqdm.write,
    ) -> None:
        if every is not None and every < 1:
            raise SGPEError(f"every must be at least 1 step, not {every}")
        if picture is not None:
            check_matplotlib()
            if Path(picture).suffix not in (".svg", ".png"):
                raise SGPEError(f"{picture}: the name of a picture must end in .svg or .png")
        if isinstance(held_out, str):
            held_out = [held_out]
        if not isinstance(held_out, Mapping):
            held_out = {name: one.texts() for name, one in read_held_out(held_out).items()}
        if not held_out:
            raise SGPEError("held_out is empty: give held-out text, such as {'si': ['a text']} or ['si=held-out.txt']")
        tokenizer = trainer.processing_class if tokenizer is None else tokenizer
        if tokenizer is None:
            raise SGPEError(
                "the trainer has no tokenizer: give processing_class=tokenizer to the Trainer, or tokenizer=tokenizer to "
                "LanguageProgress"
            )
        self.trainer = trainer
        self.new_ids = extended_ids(tokenizer) if new_ids is None else list(new_ids)
        self.file = Path(trainer.args.output_dir) / PROGRESS_FILE if file is None else Path(file)
        self.picture = None if picture is None else Path(picture)
        self._every = every
        self._show = show
        self._texts = {
            name: encode_held_out(trainer.model, tokenizer, texts, length=length) for name, texts in held_out.items()
        }
        self._last: tuple[int, dict[str, float]] | None = None
        self._is_training = False

    @property
    def points(self) -> list[dict[str, Any]]:
        """The measurements so far, including those before a checkpoint: dicts with the keys ``step``, ``epoch`` and
        ``languages``, which are the measures of each text, keyed by its name.
        """
        points = []
        for row in self.trainer.state.log_history:
            languages = {name: _measures(row, name) for name in self._texts}
            if any(languages.values()):
                points.append({"step": row["step"], "epoch": row.get("epoch"), "languages": languages})
        return points

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._is_training = True
        self._interval = self._every
        if self._every is None and args.eval_strategy == "no":
            self._interval = max(state.max_steps // 10, 1)
        self._last = None
        if state.is_world_process_zero:
            self._forget_after(state.global_step)
        if not self.points:  # otherwise a run is resumed
            self._measure(state, control)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        is_time = self._interval is not None and state.global_step % self._interval == 0
        if is_time or (control.should_training_stop and not control.should_evaluate):
            self._measure(state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float] | None = None, **_: Any) -> None:
        if self._is_training and self._interval is None:
            self._measure(state, control)
        if metrics is not None and self._last is not None and self._last[0] == state.global_step:
            metrics.update(self._last[1])  # for metric_for_best_model

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._is_training = False
        if self.picture is not None and state.is_world_process_zero:
            draw_progress(self.points, self.picture)

    def _measure(self, state: Any, control: Any) -> None:
        step = state.global_step
        if self._last is not None and self._last[0] == step:
            return  # the trainer evaluates each of its datasets separately
        began = time.perf_counter()
        model = self.trainer.model
        scores = {
            name: score_encoded(model, text, watched=self.new_ids, with_cache=False, shared=True)
            for name, text in self._texts.items()
        }
        languages = {name: _values(score, with_new=bool(self.new_ids)) for name, score in scores.items()}
        seconds = time.perf_counter() - began
        logs = {_key(name, measure): value for name, row in languages.items() for measure, value in row.items()}
        self._last = step, dict(logs)
        should_log = control.should_log
        with undisturbed(model):
            # TRL's trainers decide by the model's mode whether numbers are from training or evaluation. In training mode,
            # they would log their own training numbers too early.
            model.eval()
            self.trainer.log(dict(logs))
        control.should_log = should_log  # logging resets it, and the trainer would not log the loss of this step
        if state.is_world_process_zero:
            record = {"step": step, "epoch": state.epoch, "languages": languages, "seconds": round(seconds, 3)}
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            if self._show is not None:
                for line in _lines(self.points):
                    self._show(line)

    def _forget_after(self, step: int) -> None:
        """Remove from the file the measurements that an interrupted run made after its last checkpoint, at ``step``."""
        if not self.file.exists():
            return
        kept = []
        if step:
            for line in self.file.read_text(encoding="utf-8").splitlines():
                try:
                    if json.loads(line)["step"] <= step:
                        kept.append(line + "\n")
                except (ValueError, KeyError, TypeError):  # the process was killed while it wrote this line
                    continue
        write_text(self.file, "".join(kept))


def _key(name: str, measure: str) -> str:
    # TensorBoard and Weights & Biases show all keys with eval_ as a group.
    return f"eval_{name}_{measure}"


def _measures(row: Mapping[str, Any], name: str) -> dict[str, float]:
    """Return the measures of one language in a row of the trainer's log."""
    return {measure: row[_key(name, measure)] for measure in MEASURES if _key(name, measure) in row}


def _values(score: Score, *, with_new: bool) -> dict[str, float]:
    losses = score.losses()
    values = {
        "bits_per_byte": score.bits_per_byte,
        "bytes_per_token": score.bytes / max(score.tokens, 1),
        "loss": losses.get("all"),
    }
    if with_new:
        values |= {
            "loss_old": losses.get("old"),
            "loss_new": losses.get("new"),
            "new_probability": score.watched,
            "new_tokens": score.watched_tokens / max(score.tokens, 1),
        }
    return {name: value for name, value in values.items() if value is not None}


def _lines(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line of text for each language, with its last measurement and the change in bits per byte since the first.

    >>> first, last = ({"step": step, "languages": {"si": {"bits_per_byte": bits}}} for step, bits in ((0, 1.5), (10, 1.25)))
    >>> _lines([first, last])
    ['step 10: si: 1.2500 bits per byte (-0.2500)']
    """
    first, last = points[0]["languages"], points[-1]
    lines = []
    for name, values in last["languages"].items():
        shown = [form.format(values[measure]) for measure, form in MEASURES.items() if measure in values]
        if len(points) > 1 and name in first and "bits_per_byte" in first[name]:
            shown[0] += f" ({values['bits_per_byte'] - first[name]['bits_per_byte']:+.4f})"
        lines.append(f"step {last['step']}: {name}: {', '.join(shown)}")
    return lines


def draw_progress(points: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw `LanguageProgress.points`: the bits per byte and, if there are new tokens, their probability and the losses."""
    last = points[-1]["languages"]
    names = [name for name, values in last.items() if values]
    new = [name for name in names if "loss_new" in last[name]]
    colours = {name: f"C{number % 10}" for number, name in enumerate(names)}

    def draw(axis: Any, name: str, measure: str, **how: Any) -> None:
        values = [(point["step"], point["languages"].get(name, {}).get(measure)) for point in points]
        found = [(step, value) for step, value in values if value is not None]
        axis.plot(*zip(*found, strict=True), color=colours[name], **how)

    columns = 3 if new else 1
    with chart(path, (4.6 * columns, 3.6), columns=columns) as (_, (axes,)):
        for name in names:
            draw(axes[0], name, "bits_per_byte", marker=".", label=name)
        titles = ["Bits per byte", "Loss of a token (nats)", "Share of the probability on new tokens"]
        for name in new:
            if "loss_old" in last[name]:
                draw(axes[1], name, "loss_old", linestyle="--", label=f"{name}, old tokens")
            draw(axes[1], name, "loss_new", marker=".", label=f"{name}, new tokens")
            draw(axes[2], name, "new_probability", marker=".", label=name)
            draw(axes[2], name, "new_tokens", linestyle=":", label=f"{name}, share of the tokens")
        for axis, title in zip(axes, titles, strict=False):
            axis.set(title=title, xlabel="step")
            axis.legend()
