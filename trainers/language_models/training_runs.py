"""Training of language models with transformers' ``Trainer``: settings, checkpoints, and the result, also on the Hub."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.hub import PUBLISHED_MODEL_FILES, hub_errors, split_name
from hf_sgpe.files.json_files import read_json
from hf_sgpe.files.resuming import PROGRESS_FILE, SETTINGS_FILE, check_settings, differing, keep_settings
from hf_sgpe.learning.finetuning_options import RATE, TrainingRun
from hf_sgpe.terminal.progress import bars_on_terminals_only, somebody_watches
from trainers.language_models.scoring import NotFiniteError
from trainers.language_models.training_loop import adamw, warm_up_and_cosine
from trainers.model_rows.token_tables import parameter_groups

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, Trainer, TrainerCallback


# The keys in the settings of a finished training, and of a training that diverged.
_FINISHED, _DIVERGED = "finished", "diverged"


class DivergedError(SGPEError):
    """A training diverged: weights or predictions became infinite or NaN."""


RATES = ("learning_rate", "rows_learning_rate")
"""The settings that may change when a training that diverged is resumed."""


def train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Any,
    collator: Callable[[list[Any]], Any],
    run: TrainingRun,
    *,
    settings: Mapping[str, Any] | None = None,
    parts: str = "all",
    new_rows: Sequence[int] = (),
    rows_learning_rate: float | None = None,
    held_out: Mapping[str, Sequence[str]] | None = None,
    every: int | None = None,
    show: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Train a model with transformers' ``Trainer``. Save the model and the tokenizer for the Auto classes.

    Training uses bfloat16 if a CUDA GPU supports it. During training, ``run.out`` contains the last two checkpoints.
    Resuming from a checkpoint produces the same weights as training without interruption. If a finished run is resumed, its
    result is loaded into ``model``. If a run that diverged is resumed with other learning rates, training starts again.

    Args:
        rows: A sequence of examples. It is shuffled again for each pass.
        collator: Function that makes a batch from examples.
        settings: Settings of the model and the rows. A run with different settings cannot be resumed.
        parts: The part of the model to train, one of `hf_sgpe.learning.adaptation.PARTS`.
        new_rows: Ids of the new tokens, for ``parts`` ``new-rows`` or with ``rows_learning_rate``.
        rows_learning_rate: Learning rate of the new rows; None for the learning rate of all other parameters.
        held_out: Texts on which the model is measured meanwhile. This argument, ``every`` and ``show`` are those of
            `trainers.language_models.language_progress.LanguageProgress`.

    Returns:
        The measurements, as `LanguageProgress.points`; none if the training was finished before.
    """
    import torch
    from accelerate import PartialState
    from transformers import Trainer, TrainingArguments

    out, steps, learning_rate = run.out, run.steps, run.learning_rate or RATE
    numbers = {"steps": steps, "batch_size": run.batch_size, "learning_rate": learning_rate, "seed": run.seed}
    trained = {"parts": parts, "rows_learning_rate": rows_learning_rate}
    made_with = {"tokenizer": digest(tokenizer), **numbers, **trained, **(settings or {})}
    checkpoint = checkpoint_to_resume(out, resume=run.resume)
    starts_again = checkpoint is not None and _has_new_rates(out, made_with)
    checkpoint = None if starts_again else checkpoint
    finished = checkpoint is None and run.resume and is_finished(out)
    PartialState().wait_for_everyone()  # before the first process changes the folder
    push = None
    optimizer = None
    if parts != "all" or rows_learning_rate is not None:
        groups, rows_apart = parameter_groups(
            model, parts, new_rows, learning_rate=learning_rate, rows_learning_rate=rows_learning_rate
        )
        optimizer = adamw(groups, learning_rate=learning_rate)
        if rows_apart is not None:
            rows_apart.attach(optimizer)
    if PartialState().is_main_process:
        if starts_again:
            _remove_checkpoints(out)
        if checkpoint is None and not finished:
            (out / SETTINGS_FILE).unlink(missing_ok=True)
        check_settings(out, made_with)
        if run.push:
            push = _make_repository(run.push, private=run.private)
        if not finished:
            keep_settings(out, made_with)
    on_gpu = torch.cuda.is_available()
    use_cache = getattr(model.config, "use_cache", None)  # the configuration of a model with images has none
    arguments = TrainingArguments(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=run.batch_size,
        learning_rate=learning_rate,
        weight_decay=0.1,
        seed=run.seed,
        bf16=on_gpu and torch.cuda.is_bf16_supported(),
        save_steps=run.save_every or max(steps // 10, 1),
        save_total_limit=2,
        logging_steps=max(steps // 10, 1),
        disable_tqdm=not somebody_watches(),
        report_to=run.report_to or "none",
        remove_unused_columns=False,
        dataloader_pin_memory=on_gpu,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=collator,
        processing_class=tokenizer,
        optimizers=(optimizer, None),
    )

    def create_scheduler(num_training_steps: int, optimizer: Any = None) -> Any:
        trainer.lr_scheduler = trainer.lr_scheduler or warm_up_and_cosine(optimizer or trainer.optimizer, num_training_steps)
        return trainer.lr_scheduler

    # In transformers' own schedule, the first step has a learning rate of zero.
    trainer.create_scheduler = create_scheduler
    trainer.add_callback(_weights_checked())  # before the measurements, and before a checkpoint is saved
    progress = None
    if held_out:
        from trainers.language_models.language_progress import LanguageProgress

        _print_without_measures(trainer)
        progress = LanguageProgress(trainer, held_out, every=every, tokenizer=tokenizer, new_ids=new_rows, show=show)
        trainer.add_callback(progress)
    with _nothing_left(out, finished), bars_on_terminals_only():
        if finished or (checkpoint and _step_of(checkpoint) >= steps):
            # Without this check, the Trainer would train one step more.
            result = type(model).from_pretrained(checkpoint or out, dtype=model.dtype)
            model.load_state_dict(result.state_dict())
            # The Trainer fitted both to the tokenizer.
            model.config, model.generation_config = result.config, result.generation_config
        else:
            with _divergence_named(trainer, learning_rate, rows_learning_rate):
                trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
        if use_cache is None:
            model.config.__dict__.pop("use_cache", None)
        else:
            model.config.use_cache = use_cache  # the Trainer sets it to False
        if trainer.is_world_process_zero():
            with atomic_directory(out) as folder:
                model.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
            if push:
                _push(out, push, base=(settings or {}).get("model"), pairs=model.config.is_encoder_decoder)
            keep_settings(out, {**made_with, _FINISHED: True})
            if not run.keep_checkpoints:
                _remove_checkpoints(out)
    return progress.points if progress else []


def _weights_checked() -> TrainerCallback:
    """Return a callback that raises `NotFiniteError` after a step that makes a weight infinite or NaN."""
    import torch
    from transformers import TrainerCallback

    def on_step_end(self: Any, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        trained = [weights.detach() for weights in model.parameters() if weights.requires_grad]
        # Weights that are spread over processes: each process checks its own part.
        local = [weights.to_local() if hasattr(weights, "to_local") else weights for weights in trained]
        # A sum shows a weight that is not finite. One comparison for all weights: a GPU is waited for only once.
        sums = [weights.sum(dtype=torch.float32) for weights in local]
        if sums and not torch.stack([one.to(sums[0].device) for one in sums]).isfinite().all():
            raise NotFiniteError("weights are not finite numbers")

    check: TrainerCallback = type("WeightsChecked", (TrainerCallback,), {"on_step_end": on_step_end})()
    return check


@contextmanager
def _divergence_named(trainer: Trainer, learning_rate: float, rows_learning_rate: float | None) -> Iterator[None]:
    """If the training inside the ``with`` block diverges, record it in the settings, and name the step and the rates."""
    try:
        yield
    except NotFiniteError:
        step = trainer.state.global_step
        if not step:  # the model that was to be trained is damaged
            raise
        if trainer.is_world_process_zero():
            out = Path(trainer.args.output_dir)
            keep_settings(out, {**read_json(out / SETTINGS_FILE), _DIVERGED: True})
        rates = f"--learning-rate (now {learning_rate:g})"
        rates += "" if rows_learning_rate is None else f" or --rows-learning-rate (now {rows_learning_rate:g})"
        raise DivergedError(
            f"the training diverged at step {step:,}: weights or predictions are not finite numbers. No model was written. "
            f"To train again, run the same command with --resume and a lower {rates}"
        ) from None


def _print_without_measures(trainer: Trainer) -> None:
    """Keep the trainer from printing the measures of `LanguageProgress`, because this callback prints them itself."""
    from transformers import PrinterCallback, ProgressCallback

    def on_log(self: Any, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if not any(name.startswith("eval_") for name in logs or ()):
            super(type(self), self).on_log(args, state, control, logs=logs, **more)

    for kind in (PrinterCallback, ProgressCallback):
        if trainer.pop_callback(kind) is not None:
            trainer.add_callback(type(kind.__name__, (kind,), {"on_log": on_log})())


def is_finished(out: Path) -> bool:
    """Return whether the run in a folder is finished."""
    return bool(_recorded(out).get(_FINISHED))


def check_resumable(out: Path, settings: Mapping[str, Any]) -> None:
    """Check that the run in a folder can be resumed with ``settings``. If the run diverged, its learning rates may differ.
    If it has neither a checkpoint nor a result, all settings may differ.
    """
    if is_finished(out) or checkpoint_to_resume(out, resume=True) is not None:
        diverged = _recorded(out).get(_DIVERGED)
        check_settings(out, {name: value for name, value in settings.items() if not (diverged and name in RATES)})


def _has_new_rates(out: Path, made_with: Mapping[str, Any]) -> bool:
    """Return whether the run in a folder diverged, and ``made_with`` differs from its settings only in learning rates."""
    recorded = _recorded(out)
    different = differing(made_with, recorded)
    return bool(recorded.get(_DIVERGED) and different) and set(different) <= set(RATES)


def _recorded(out: Path) -> dict[str, Any]:
    """Return the settings of the run in a folder; an empty dict if there are none, or if they are damaged."""
    try:
        return read_json(out / SETTINGS_FILE)
    except (SGPEError, OSError):
        return {}


@contextmanager
def _nothing_left(out: Path, finished: bool) -> Iterator[None]:
    """If the ``with`` block fails before there is a checkpoint or a result, remove the files of the run from ``out``."""
    try:
        yield
    except BaseException:
        if not finished and not any(out.glob("checkpoint-*")):
            for name in (SETTINGS_FILE, PROGRESS_FILE):
                (out / name).unlink(missing_ok=True)
            with suppress(OSError):  # the folder has other files
                out.rmdir()
        raise


def check_length(config: PretrainedConfig, length: int, where: str) -> None:
    """Check that a model can read rows of ``length`` tokens, according to its configuration."""
    most = getattr(config, "max_position_embeddings", None)
    if most is not None and length > most:
        raise SGPEError(f"{where} has room for {most} tokens: give a --length of at most {most}, not {length}")


_PUBLISHED = (
    *PUBLISHED_MODEL_FILES,
    *("token*.json", "special_tokens_map.json", "tokenization_*.py"),
    *("chat_template.jinja", "additional_chat_templates/*.jinja"),
)

_CARD = """\
# {name}

Trained with the scripts of `hf_sgpe`. The Auto classes load it:

```python
from transformers import {kind}, AutoTokenizer

model = {kind}.from_pretrained("{repo}")
tokenizer = AutoTokenizer.from_pretrained("{repo}")
```
"""


def _make_repository(name: str, *, private: bool) -> str:
    """Create a repository on the Hub if it does not exist yet, and return its full name, ``user/name``."""
    from huggingface_hub import HfApi

    with hub_errors(f"{name}:"):
        return HfApi().create_repo(name, private=private or None, exist_ok=True).repo_id


def _push(folder: Path, repo: str, *, base: str | None, pairs: bool) -> None:
    """Upload the files in ``folder`` in one commit. Keep a model card that the repository already has. ``base`` is the model
    before training.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, ModelCardData

    kind, task = ("AutoModelForSeq2SeqLM", None) if pairs else ("AutoModelForCausalLM", "text-generation")
    of_base: dict[str, Any] = {}
    if base and not Path(base).exists():
        of_base = {"base_model": split_name(base)[0], "base_model_relation": "finetune"}
    metadata = ModelCardData(library_name="transformers", pipeline_tag=task, tags=["hf_sgpe"], **of_base)
    card = f"---\n{metadata.to_yaml().strip()}\n---\n" + _CARD.format(name=repo.rpartition("/")[2], repo=repo, kind=kind)
    files = sorted(set(chain.from_iterable(map(folder.glob, _PUBLISHED))))
    api = HfApi()
    with hub_errors(f"{repo}:"), bars_on_terminals_only():
        added = [CommitOperationAdd(file.relative_to(folder).as_posix(), file) for file in files]
        if api.file_exists(repo, "README.md"):
            logging.warning(f"{repo} already has a README.md, which is kept")
        else:
            added.append(CommitOperationAdd("README.md", card.encode()))
        api.create_commit(repo, added, commit_message="Upload model and tokenizer")


def check_report_to(names: Sequence[str]) -> None:
    """Check that transformers can report to the given programs."""
    from transformers.integrations import get_reporting_integration_callbacks

    for name in names:
        try:
            for callback in get_reporting_integration_callbacks([name]):
                callback()
        except (ValueError, RuntimeError, AssertionError, ImportError) as error:
            raise SGPEError(f"--report-to {name}: {str(error).splitlines()[0]}") from None


def checkpoint_to_resume(out: Path, *, resume: bool) -> Path | None:
    """Return the last complete checkpoint in a folder, or None if there is none."""
    checkpoints = _checkpoints(out)
    if checkpoints and not resume:
        raise SGPEError(f"{out} has checkpoints: continue from them with --resume, or give another folder")
    return next(filter(_is_whole, reversed(checkpoints)), None)


def _checkpoints(out: Path) -> list[Path]:
    return sorted((folder for folder in out.glob("checkpoint-*") if folder.is_dir()), key=_step_of)


def _remove_checkpoints(out: Path) -> None:
    for folder in _checkpoints(out):
        shutil.rmtree(folder)


def _step_of(checkpoint: Path) -> int:
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _is_whole(checkpoint: Path) -> bool:
    """Return whether all files of a checkpoint are complete. It is not enough that the file that is written last
    (``trainer_state.json``) exists, because the disk may have been full.
    """
    from safetensors import SafetensorError, safe_open

    weights = list(checkpoint.glob("model*.safetensors"))
    try:
        for file in weights:
            with safe_open(file, framework="np"):
                pass
    except (SafetensorError, OSError):
        return False
    pickled = [checkpoint / name for name in ("optimizer.pt", "scheduler.pt")]
    return bool(weights) and (checkpoint / "trainer_state.json").is_file() and all(map(is_zipfile, pickled))


def require_pytorch(*, to_train: bool = True) -> None:
    """Check that the packages for language models are installed. transformers' Trainer (``to_train``) needs accelerate."""
    if find_spec("transformers") is None:
        raise not_installed("language models need transformers", "transformers", extra="transformers")
    if find_spec("torch") is None:
        raise not_installed("language models need torch", *("torch", "accelerate")[: 1 + to_train], extra="train")
    if to_train and find_spec("accelerate") is None:
        raise not_installed("training language models needs accelerate", "torch", "accelerate", extra="train")


def digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the SHA-256 hash of a tokenizer's tokens and their ids."""
    return digest_of([sorted(tokenizer.get_vocab().items())])


def digest_of(values: Iterable[Any]) -> str:
    """Return the SHA-256 hash of an iterable of JSON values. Only one value is in memory at a time."""
    hashed = hashlib.sha256()
    for value in values:
        hashed.update(json.dumps(value).encode() + b"\n")
    return hashed.hexdigest()
