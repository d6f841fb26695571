"""What fine-tuning does before training: checks of the run, and the model with rows for the tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import why_no_model
from hf_sgpe.files.hub import check_name
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.files.resuming import check_settings
from hf_sgpe.learning.finetuning_options import Finetuning, PairFinetuning, RunArguments
from hf_sgpe.weights.model_loading import load_model, load_tokenizer
from trainers.language_models.training_runs import check_length, check_report_to, checkpoint_to_resume, is_finished
from trainers.model_rows.token_tables import extended_ids, fit_embeddings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def check_run(args: RunArguments) -> None:
    """Check the repository, and that the output folder is new or has a run that can be resumed."""
    if args.push:
        check_name(args.push)
    check_report_to(args.report_to)
    if not checkpoint_to_resume(args.out, resume=args.resume) and not (args.resume and is_finished(args.out)):
        check_new_folder(args.out, overwrite=args.overwrite)
    else:
        check_settings(args.out, {name: getattr(args, name) for name in ("steps", "batch_size", "seed")} | args.made_from())


def load_tokenizers(args: RunArguments) -> tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase | None]:
    """Return the tokenizer for training, and the tokenizer of ``--model`` (None for a new model)."""
    if not args.model:
        return load_tokenizer(args.tokenizer or ""), None
    try:
        own = load_tokenizer(args.model_tokenizer or args.model)
    except SGPEError as error:
        if args.model_tokenizer or not Path(args.model).is_dir() or why_no_model(Path(args.model)):
            raise
        raise SGPEError(f"{error}: give the tokenizer that the model was trained with, as --model-tokenizer") from None
    return load_tokenizer(args.tokenizer) if args.tokenizer else own, own


def fitted_model(
    args: Finetuning | PairFinetuning,
    kind: Any,
    make_new: Callable[[], PreTrainedModel],
    tokenizer: PreTrainedTokenizerBase,
    own: PreTrainedTokenizerBase | None,
    tell: Callable[[str], None],
) -> tuple[PreTrainedModel, list[int]]:
    """Return the model to train, with rows for the tokenizer, and the ids of new tokens. The model is that of ``--model``,
    which the Auto class ``kind`` loads and whose tokenizer is ``own``, or else a new one.
    """
    if not (own and args.model):
        model = make_new()
        fit_embeddings(model, tokenizer, tokenizer)
        return model, []
    model = load_model(kind, args.model)
    check_length(model.config, args.length, args.model)
    try:
        row_map = fit_embeddings(model, tokenizer, own)
    except SGPEError as error:
        own_name = args.model_tokenizer or args.model
        raise SGPEError(f"--model {args.model} with --model-tokenizer {own_name}: {error}") from None
    tell(f"{args.model}: {row_map}")
    return model, row_map.new or extended_ids(tokenizer)
