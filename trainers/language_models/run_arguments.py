"""Options that the training scripts have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import why_no_model
from hf_sgpe.files.hub import check_name
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.files.resuming import check_settings
from hf_sgpe.terminal.options import option
from hf_sgpe.weights.model_loading import load_tokenizer
from trainers.language_models.training_runs import TrainingRun, check_report_to, checkpoint_to_resume, is_finished
from trainers.model_rows.token_tables import fit_embeddings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from trainers.model_rows.embedding_rows import RowMap

NEW_MODEL = {"layers": 4, "width": 256, "heads": 4}
"""The default shape of a new model."""


@dataclass(frozen=True, kw_only=True)
class RunArguments(TrainingRun):
    """The options that all training scripts have: the tokenizer, the model, and the options of `TrainingRun`."""

    tokenizer: str | None = option(
        "Tokenizer: folder, tokenizer.json or Hub repository (default: the tokenizer of --model)."
    )
    model: str | None = option("Model to train further, a folder or Hub repository (default: a new model).")
    model_tokenizer: str | None = option("Tokenizer that --model was trained with, if it is not in the folder of --model.")
    layers: int | None = option(f"Number of layers of a new model (default: {NEW_MODEL['layers']}).")
    width: int | None = option(f"Width of a new model (default: {NEW_MODEL['width']}).")
    heads: int | None = option(f"Number of attention heads of a new model (default: {NEW_MODEL['heads']}).")
    overwrite: bool = option("Replace an existing model or tokenizer in --out.", False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", 5e-5 if self.model else 1e-3)

    def check(self) -> None:
        """Check the options before anything is read."""
        if not (self.tokenizer or self.model):
            raise SGPEError("there is no tokenizer: give --tokenizer, or give --model with a model that has a tokenizer")
        if self.model_tokenizer and not self.model:
            raise SGPEError("--model-tokenizer needs a model: name the model with --model")
        for name in NEW_MODEL:
            if self.model and getattr(self, name) is not None:
                raise SGPEError(
                    f"--{name} is for a new model, but --model {self.model} already has a shape: leave out --{name}"
                )
        if self.push:
            check_name(self.push)
        elif self.private:
            raise SGPEError("--private needs --push USER/NAME")
        if self.model and self.out.exists() and self.out.resolve() == Path(self.model).resolve():
            raise SGPEError(f"--out {self.out} is the model to train: give another folder")
        if self.out.exists() and not self.out.is_dir():
            raise SGPEError(f"--out {self.out} is a file: give a folder to write to")
        check_report_to(self.report_to)
        if not checkpoint_to_resume(self.out, resume=self.resume) and not (self.resume and is_finished(self.out)):
            check_new_folder(self.out, overwrite=self.overwrite)
        else:
            check_settings(
                self.out, {name: getattr(self, name) for name in ("steps", "batch_size", "seed")} | self.made_from()
            )

    def new_model(self) -> dict[str, int]:
        """Return the ``layers``, ``width`` and ``heads`` of a new model."""
        return {name: number if getattr(self, name) is None else getattr(self, name) for name, number in NEW_MODEL.items()}

    def made_from(self) -> dict[str, Any]:
        """Return where the model comes from, for the recorded settings: the model and its tokenizer, or the shape of a new
        model.
        """
        shape = dict.fromkeys(NEW_MODEL) if self.model else self.new_model()
        return {"model": self.model, "model_tokenizer": self.model_tokenizer, **shape}

    def written(self) -> str:
        """Return a sentence that says where the result was written."""
        return f"Written to {self.out}" + (f" and pushed to {self.push}" if self.push else "")


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
