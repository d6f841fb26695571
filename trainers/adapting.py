"""Adaptation of a base model to a language. The tokenizer is extended, the model gets new rows and is trained, and a report
is written.

Each step writes to its own folder, and finished steps are not repeated. Therefore, an interrupted run continues where it
stopped. If the training diverged, only the training is repeated, with the learning rates that are then given.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.held_out import read_held_out
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import write_text
from hf_sgpe.files.json_files import read_json, write_json
from hf_sgpe.files.resuming import BASE_FILE, PROGRESS_FILE, SETTINGS_FILE, alone_in, check_settings, keep_settings
from hf_sgpe.formats.folder_of_any_kind import read_folder
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.adaptation import Adaptation
from hf_sgpe.learning.extension.extension_config import parse_new_tokens
from hf_sgpe.learning.finetuning_options import TextOptions, TrainingRun
from hf_sgpe.weights.model_loading import (
    auto_class,
    check_predicts,
    load_predicting_model,
    load_tokenizer,
    load_translating_tokenizer,
)
from trainers.language_models.objectives import Objective, objective_of
from trainers.language_models.pair_objective import PairObjective, chrf
from trainers.language_models.scoring import beginning_of, score_model
from trainers.language_models.training_rows import TrainingRows, check_corpus, read_rows
from trainers.language_models.training_runs import (
    RATES,
    check_length,
    check_report_to,
    check_resumable,
    is_finished,
    require_pytorch,
    train,
)
from trainers.model_rows.distillation import Distillation, distilled_rows
from trainers.model_rows.row_starts import by_position
from trainers.model_rows.token_tables import extended_ids, parameter_groups
from trainers.model_rows.transplanting import transplant
from trainers.rate_sweep import with_best_rates
from trainers.tokenizer_extension import extend

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOKENIZER, START, MODEL, REPORT, PICTURE = "tokenizer", "start", "model", "report.md", "progress.svg"
"""Names in the folder of an adaptation: the extended tokenizer, the model before training, the model after training, the
report, and the picture of the report.
"""

_DISTILLATION = "distillation.pt"
# Bytes for each weight, and additional bytes for each trained weight (gradient and two moments), all in 32 bits.
_WEIGHT, _TRAINED = 4, 12
# Bytes for each logit: the logit, its copy in 32 bits and its gradient.
_LOGIT = 12
_TIMED_STEPS = 2
# Settings of which only the last step depends, so that they may differ until it begins.
_OF_TRAINING = (*RATES, "batch_size", "length", "parts")


def _text_options(given: Adaptation) -> TextOptions:
    """Return the options for the training text. Without held-out text, a hundredth of the corpus is held out."""
    names = ("corpus", "text_field", "lines", "length", "keep", "keep_share")
    return TextOptions(**{name: getattr(given, name) for name in names}, validation_share=None if given.evaluate else 0.01)


def _load_tokenizer(given: Adaptation, path_or_repo: str) -> PreTrainedTokenizerBase:
    if given.target_language is None:
        return load_tokenizer(path_or_repo)
    return load_translating_tokenizer(path_or_repo, str(given.source_language), given.target_language)


def adapt(given: Adaptation, *, show: Callable[[str], None] = print) -> dict[str, dict[str, float]]:
    """Adapt a model to a language. ``show`` is called with one line about each step.

    Returns:
        The bits per byte of three models, keyed by held-out text: of the base model (``before``), of the extended model
        before training (``started``), and of the trained model (``trained``).
    """
    require_pytorch()
    given.check()
    check_report_to(given.report_to)
    config = check_predicts(given.base)
    objective = objective_of(config, auto_class(config))
    if isinstance(objective, PairObjective):
        if given.init == "distil":
            raise SGPEError(f"--init distil is not for encoder–decoders, and {given.base} is one: give --init mean")
        given = replace(given, init="mean", lines=True)  # a line may be a pair
    text = _text_options(given)
    text.check_text()
    check_corpus(text)
    out = Path(given.out)
    settings = {
        name: value for name, value in asdict(given).items() if name not in ("out", "resume", "report_to", *_OF_TRAINING)
    }
    _check_out(given, out)
    check_settings(out, settings)
    # A sweep chooses the rates.
    of_training = [name for name in _OF_TRAINING if not (given.sweep and name in RATES)]
    check_resumable(out / MODEL, {name: getattr(given, name) for name in of_training})
    held_out = {name: one.texts() for name, one in read_held_out(given.evaluate, text_field=given.text_field).items()}
    folder = read_folder(given.base)
    tokenizer = _load_tokenizer(given, given.base)
    if "src_lang" in folder.settings and not given.target_language:
        raise SGPEError(
            f"{given.base} has language codes: name those of the text with --source-language and --target-language"
        )
    check_length(config, given.length, given.base)
    out.mkdir(parents=True, exist_ok=True)
    try:
        with alone_in(out):
            keep_settings(out, settings)
            return _run(given, objective, folder, tokenizer, held_out, out, show)
    except SGPEError:
        # Unless a long step is done, remove the files of this run, so that the next run can have other options.
        if not (out / START).exists() and not (out / _DISTILLATION).exists():
            shutil.rmtree(out / TOKENIZER, ignore_errors=True)
            (out / SETTINGS_FILE).unlink(missing_ok=True)
            with suppress(OSError):  # the folder has other files
                out.rmdir()
        raise


def _check_out(given: Adaptation, out: Path) -> None:
    """Check that the output folder is new or empty or, with ``resume``, that it has an adaptation to continue."""
    if out.exists() and not out.is_dir():
        raise SGPEError(f"{out} is a file: give a folder to write to")
    is_begun = (out / SETTINGS_FILE).exists()
    if given.resume and not is_begun:
        raise SGPEError(f"{out}: there is no run to resume: leave out --resume")
    if not given.resume and out.exists() and any(not file.name.startswith(".") for file in out.iterdir()):
        raise SGPEError(f"{out} has files: " + ("continue with --resume, or " * is_begun) + "give a new folder")


def _run(
    given: Adaptation,
    objective: Objective,
    base: TokenizerFolder | PieceFolder,
    old: PreTrainedTokenizerBase,
    held_out: dict[str, Any],
    out: Path,
    show: Callable[[str], None],
) -> dict[str, dict[str, float]]:
    show(_extend(given, base, out))
    new = _load_tokenizer(given, str(out / TOKENIZER))
    # The rows are read before distillation, because the text may be too short.
    rows = read_rows(_text_options(given), new, str(out / TOKENIZER), objective=objective)
    if rows.validation:
        held_out["validation"] = rows.validation
    if not (given.keep or given.target_language):
        show("Without --keep, the model may forget the languages that it knows")
    show(_start(given, old, new, out))
    model = load_predicting_model(str(out / START))
    before, held_out = _before(given, old, held_out, out, show)
    if not is_finished(out / MODEL):
        show(_forecast(given, objective, model, new, rows))
        times = 1 + -(-given.steps // max(given.steps // 10, 1))
        show(f"The model is measured {times} times meanwhile")
    if given.sweep:

        def train_shortly(short: Adaptation, folder: Path) -> list[dict[str, Any]]:
            fresh = load_predicting_model(str(out / START))
            return _train(short, objective, fresh, new, rows, held_out, folder, every=short.steps, show=None)

        given = with_best_rates(given, out, train_shortly, show)
    points = _train(given, objective, model, new, rows, held_out, out / MODEL, show=show)
    if has_picture := find_spec("matplotlib") is not None:
        from trainers.language_models.language_progress import draw_progress

        draw_progress(points, out / PICTURE)
    result = {
        name: {
            "before": before[name],
            "started": points[0]["languages"][name]["bits_per_byte"],
            "trained": points[-1]["languages"][name]["bits_per_byte"],
        }
        for name in held_out
    }
    lines = _report(given, rows, result, len(extended_ids(new)))
    if isinstance(objective, PairObjective):
        lines += _translation_lines({given.base: old, str(out / MODEL): new}, held_out, show)
    lines += ["", f"![Bits per byte over the training]({PICTURE})"] if has_picture else []
    write_text(out / REPORT, "\n".join(lines) + "\n")
    return result


def conclusions(result: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return sentences about a result of `adapt`: whether the adapted model is better than the base model for each held-out
    text, and what to change if it is worse.

    >>> conclusions({"si.txt": {"before": 2.0, "started": 2.5, "trained": 1.0}})
    ['si.txt: the adapted model is better: 50.0 % fewer bits per byte than the base model.']
    """
    lines = []
    for name, values in result.items():
        change = 100 * (values["trained"] / values["before"] - 1)
        better, more = ("better", "fewer") if change < 0 else ("worse", "more")
        lines.append(f"{name}: the adapted model is {better}: {abs(change):.1f} % {more} bits per byte than the base model.")
    if any(values["trained"] >= values["before"] for values in result.values()):
        lines.append(
            "If it is worse in the new language, train longer (--budget), on more text, or with fewer --new-tokens. If it "
            "is worse in a language that the base model knew, give text in that language with --keep."
        )
    return lines


def _extend(given: Adaptation, base: TokenizerFolder | PieceFolder, out: Path) -> str:
    target = out / TOKENIZER
    if (target / "tokenizer.json").exists():
        return f"{target}: the extended tokenizer is already there"
    corpus = Corpus.of(given.corpus, text_field=given.text_field)
    new_tokens = parse_new_tokens(given.new_tokens)
    extended = extend(base, corpus, target, script=given.script, runs_in=given.runs_in, new_tokens=new_tokens)
    return f"{target}: {extended.extension.new_tokens:,} tokens more than {given.base}"


def _start(given: Adaptation, old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase, out: Path) -> str:
    target = out / START
    if (target / "config.json").exists():
        return f"{target}: the model with rows for new tokens is already there"
    how: dict[str, Any] = {}
    if given.start == "distil":
        state = out / _DISTILLATION
        texts = Corpus.of(given.corpus, text_field=given.text_field).read_lines()
        tokenizers = {"tokenizer": new, "old": old}
        settings = Distillation(seed=given.seed)
        how["start"] = by_position
        how["learn"] = partial(distilled_rows, model=given.base, **tokenizers, texts=texts, settings=settings, state=state)
    done = transplant(given.base, out / TOKENIZER, target, **how)
    (out / _DISTILLATION).unlink(missing_ok=True)
    return f"{target}: {done.row_map}"


def _before(
    given: Adaptation,
    old: PreTrainedTokenizerBase,
    held_out: Mapping[str, Any],
    out: Path,
    show: Callable[[str], None],
) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Return the base model's bits per byte, and the part of each held-out text that it read. The result is saved in a file,
    so that the model is measured only once.
    """
    file = out / BASE_FILE
    if not file.exists():
        scores = score_model(given.base, old, held_out, minutes=given.eval_minutes, tell=show)
        write_json(file, {name: [score.bits_per_byte, score.characters] for name, score in scores.items()})
    found = read_json(file)
    texts = {name: beginning_of(some, found[name][1]) for name, some in held_out.items()}
    return {name: bits for name, (bits, _) in found.items()}, texts


def _translation_lines(
    models: Mapping[str, PreTrainedTokenizerBase], held_out: Mapping[str, list[str]], show: Callable[[str], None]
) -> list[str]:
    """Return a line about the translations of each held-out text that has pairs, and show the lines. ``models`` are the
    tokenizers of the base model and of the trained model, keyed by the model's folder.
    """
    if not any("\t" in text for texts in held_out.values() for text in texts):
        return []
    if find_spec("sacrebleu") is None:
        show("chrF++ of the translations was not measured, because sacrebleu is not installed: pip install sacrebleu")
        return []
    scores = []
    for name, tokenizer in models.items():
        model = load_predicting_model(name)
        scores.append({text: chrf(model, tokenizer, some) for text, some in held_out.items()})
    before, after = scores
    lines = [
        f"{name}: chrF++ of translations: {before[name]:.1f} → {one:.1f}" for name, one in after.items() if one is not None
    ]
    for line in lines:
        show(line)
    return [f"- {line}" for line in lines]


def _forecast(
    given: Adaptation,
    objective: Objective,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: TrainingRows,
) -> str:
    """Return a line about the cost of training: steps, tokens, memory and time, which is measured on the first rows."""
    import torch

    rates = {"learning_rate": given.learning_rate, "rows_learning_rate": given.rows_learning_rate}
    parameter_groups(model, given.parts, extended_ids(tokenizer), **rates)
    every = model.num_parameters()
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    logits = given.batch_size * given.length * len(model.get_input_embeddings().weight)
    needed = _WEIGHT * every + _TRAINED * trained + _LOGIT * logits
    on_gpu = torch.cuda.is_available()
    if on_gpu:  # free what the earlier steps used
        gc.collect()
        torch.cuda.empty_cache()
    device = torch.device("cuda" if on_gpu else "cpu")
    memory = torch.cuda.mem_get_info()[0] if on_gpu else _main_memory()
    need = f"{needed / 1e9:.1f} GB for {every:,} parameters, {trained:,} of them trained"
    remedy = "give a smaller --batch-size or --length, or --parts new-rows, and --resume"
    if needed > memory:
        raise SGPEError(f"training needs about {need}, but there are only {memory / 1e9:.1f} GB: {remedy}")
    model.to(device)
    collate = objective.collator(model, tokenizer)
    batch = collate([rows.rows[place] for place in range(min(given.batch_size, len(rows.rows)))])
    ids = {name: tensor.to(device) for name, tensor in batch.items()}
    began = time.perf_counter()
    try:
        for number in range(1 + _TIMED_STEPS):
            if number == 1:  # the first pass is slower
                began = time.perf_counter()
            with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
                model(**ids, **objective.options).loss.backward()
            model.zero_grad()
            if on_gpu:
                torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError:
        raise SGPEError(f"a step of training does not fit into the {memory / 1e9:.1f} GB of the GPU: {remedy}") from None
    minutes = (time.perf_counter() - began) / _TIMED_STEPS * given.steps / 60
    duration = f"{minutes / 60:.1f} hours" if minutes >= 90 else f"{minutes:.0f} minutes"
    duration = "a minute" if minutes < 1.5 else duration
    passes = given.steps * given.batch_size / len(rows.rows)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return (
        f"Training: {given.steps:,} steps of {given.batch_size * given.length:,} tokens, {passes:.1f} passes over "
        f"{len(rows.rows):,} rows; about {need}; about {duration} on {device.type}, without measurements"
    )


def _main_memory() -> float:
    """Return the machine's memory in bytes, or infinity if the system does not report it."""
    if not hasattr(os, "sysconf"):
        return inf
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _train(
    given: Adaptation,
    objective: Objective,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: TrainingRows,
    held_out: Mapping[str, Any],
    target: Path,
    *,
    every: int | None = None,
    show: Callable[[str], None] | None,
) -> list[dict[str, Any]]:
    from transformers import set_seed

    set_seed(given.seed)
    run = TrainingRun(
        out=target,
        steps=given.steps,
        batch_size=given.batch_size,
        learning_rate=given.learning_rate,
        seed=given.seed,
        resume=target.exists(),
        report_to=given.report_to,
    )
    train(
        model,
        tokenizer,
        rows.rows,
        objective.collator(model, tokenizer),
        run,
        settings={"text": rows.digest, "length": given.length},
        parts=given.parts,
        new_rows=extended_ids(tokenizer),
        rows_learning_rate=given.rows_learning_rate,
        held_out=held_out,
        every=every,
        show=show,
    )
    # If the training was already finished, its measurements are only in this file.
    return [json.loads(line) for line in (target / PROGRESS_FILE).read_text(encoding="utf-8").splitlines()]


def _report(given: Adaptation, rows: TrainingRows, result: Mapping[str, Mapping[str, float]], new_tokens: int) -> list[str]:
    lines = [
        f"# {Path(given.base).name}, adapted",
        "",
        "| bits per byte | before | with new tokens, not trained | trained | change |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, values in result.items():
        change = values["trained"] / values["before"] - 1
        numbers = " | ".join(f"{values[when]:.4f}" for when in ("before", "started", "trained"))
        lines.append(f"| {name} | {numbers} | {change:+.1%} |")
    kept = rows.kept / len(rows.rows)
    lines += [
        "",
        *conclusions(result),
        "",
        f"- Text: {', '.join(given.corpus)}" + (f"; {kept:.1%} of the rows from {', '.join(given.keep)}" if kept else ""),
        f"- Measured on: {', '.join(given.evaluate) or 'a hundredth of the text, which the training left out'}",
        f"- New tokens: {new_tokens:,}; their rows started from: {given.start}",
        f"- Training: {given.steps:,} steps of {given.batch_size} rows of {given.length} tokens; parts: {given.parts}; "
        f"learning rate {given.learning_rate:g}, of new rows {given.rows_learning_rate:g}; seed {given.seed}",
    ]
    return lines
