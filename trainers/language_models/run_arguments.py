"""What fine-tuning does before training: checks of the run, and the model with rows for the tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import why_no_model
from hf_sgpe.files.hub import check_name
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.files.resuming import check_settings
from hf_sgpe.learning.finetuning_options import RunArguments
from hf_sgpe.weights.model_loading import load_tokenizer
from trainers.language_models.training_runs import check_report_to, checkpoint_to_resume, is_finished
from trainers.model_rows.token_tables import fit_embeddings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from trainers.model_rows.embedding_rows import RowMap


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


def fit_to_tokenizer(
    args: RunArguments, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, own: PreTrainedTokenizerBase
) -> RowMap:
    """Change the embeddings of ``--model`` so that the model works with the tokenizer for training."""
    try:
        return fit_embeddings(model, tokenizer, own)
    except SGPEError as error:
        own_name = args.model_tokenizer or args.model
        raise SGPEError(f"--model {args.model} with --model-tokenizer {own_name}: {error}") from None
