"""The options of ``hf-sgpe finetune`` and ``hf-sgpe finetune-seq2seq``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.validation_part import check_share
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.adaptation import PARTS, REPORT_TO_HELP
from hf_sgpe.terminal.options import SEVERAL, arguments, option, option_list

RATE = 5e-5
"""The default learning rate of an existing model."""

KEEP_SHARE = 0.2
"""The default share of the rows that come from ``--keep``."""

NEW_MODEL = {"layers": 4, "width": 256, "heads": 4}
"""The default shape of a new model."""


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """Options of a training run."""

    out: Path = option("Folder to write to.", Path("model"))
    steps: int = option("Total number of training steps.", 500)
    batch_size: int = option("Number of rows per step on each device.", 8)
    learning_rate: float | None = option(
        "Peak learning rate. The rate reaches its peak after 5 % of the steps, and then falls along a cosine (default: 1e-3 "
        "for a new model, 5e-5 with --model)."
    )
    seed: int = option("Seed for the weights, for the order of rows and for dropout.", 1)
    save_every: int | None = option("Number of steps between checkpoints (default: a tenth of all steps).")
    resume: bool = option("Continue from the last checkpoint in --out, if there is one.", False)
    keep_checkpoints: bool = option("Keep the last two checkpoints when the training is finished.", False)
    report_to: list[str] = option_list(REPORT_TO_HELP, metavar="NAME...")
    push: str | None = option(
        "Push the result and a model card to this Hub repository, USER/NAME. The Auto classes can load it."
    )
    private: bool = option("Make the repository of --push private.", False)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "save_every"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise SGPEError(f"{name} must be at least 1, not {number}")
        if not 0 <= self.seed < 2**32:
            raise SGPEError(f"seed must be from 0 to {2**32 - 1:,}, not {self.seed}")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise SGPEError(f"learning_rate must be above 0, not {self.learning_rate}")


@dataclass(frozen=True, kw_only=True)
class RunArguments(TrainingRun):
    """The options of a training run with its tokenizer and model."""

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
            object.__setattr__(self, "learning_rate", RATE if self.model else 1e-3)

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
        if self.private and not self.push:
            raise SGPEError("--private needs --push USER/NAME")
        if self.model and self.out.exists() and self.out.resolve() == Path(self.model).resolve():
            raise SGPEError(f"--out {self.out} is the model to train: give another folder")
        if self.out.exists() and not self.out.is_dir():
            raise SGPEError(f"--out {self.out} is a file: give a folder to write to")

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


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The options that select and divide the training text."""

    corpus: list[str] = arguments(
        "Text to train on: files, folders or globs of .txt, .jsonl or .parquet, or folders that hf-sgpe tokenize wrote."
    )
    text_field: str = option(
        "Field or column that contains the text, in .jsonl and .parquet files and in the dataset.",
        "text",
        "--text-field",
        "--text-column",
    )
    lines: bool = option("Treat each line of a text file as a separate text. Otherwise, the whole file is one text.", False)
    dataset: str | None = option("Dataset to train on instead of files: NAME or NAME:CONFIG on the Hub, or a folder.")
    split: str | None = option("Split of the dataset to read (default: train).")
    streaming: bool = option("Download only the part of the dataset that training needs.", False)
    validation_share: float | None = option(
        "Share of the texts, such as 0.01, to use only for measuring the model. The texts are chosen by a hash."
    )
    length: int = option("Number of tokens in a row. This is the context length in training.", 256)
    keep: list[str] = option_list(
        "Text in languages that --model knows. It is mixed into the training text, so that the model does not forget "
        "these languages.",
        metavar=SEVERAL,
    )
    keep_share: float | None = option(f"Share of the training rows that come from --keep (default: {KEEP_SHARE}).")

    def check_text(self) -> None:
        """Check the options before anything is read."""
        if not self.corpus and not self.dataset:
            raise SGPEError("there is no text to train on: give files, or a dataset with --dataset")
        if self.corpus and self.dataset:
            raise SGPEError("the text comes either from files or from --dataset: leave one of them out")
        for name, is_given in {"--streaming": self.streaming, "--split": self.split is not None}.items():
            if is_given and not self.dataset:
                raise SGPEError(f"{name} needs a dataset: give one with --dataset")
        if self.length < 2:
            raise SGPEError(f"--length must be at least 2 (a token and the next token), not {self.length}")
        if self.validation_share is not None:
            check_share(self.validation_share)
        if self.keep_share is not None and not self.keep:
            raise SGPEError("--keep-share needs --keep FILE")
        if not 0 < self.share_to_keep() < 1:
            raise SGPEError(f"--keep-share must be between 0 and 1, not {self.share_to_keep()}")

    def share_to_keep(self) -> float:
        """Return the share of the rows that come from ``--keep``."""
        return KEEP_SHARE if self.keep_share is None else self.keep_share


@dataclass(frozen=True, kw_only=True)
class Finetuning(RunArguments, TextOptions):
    """The options of ``hf-sgpe finetune``."""

    parts: str = option("Parts of --model to train: " + ", ".join(PARTS) + ".", "all", choices=PARTS)
    rows_learning_rate: float | None = option(
        "Learning rate for the embedding rows of new tokens (default: the same as for all other weights)."
    )
    eval: list[str] = option_list("Held-out text on which to measure bits per byte: FILE or NAME=FILE.", metavar=SEVERAL)
    eval_every: int | None = option(
        "Number of steps between measurements on --eval and on the validation part (default: a tenth of all steps)."
    )

    def check(self) -> None:
        """Check the options before anything is read."""
        self.check_text()
        super().check()
        if (self.parts != "all" or self.rows_learning_rate is not None) and not self.model:
            raise SGPEError("--parts and --rows-learning-rate need an existing model: give one with --model")
        if self.rows_learning_rate is not None and not self.rows_learning_rate > 0:
            raise SGPEError(f"--rows-learning-rate must be above 0, not {self.rows_learning_rate}")


@dataclass(frozen=True, kw_only=True)
class PairFinetuning(RunArguments):
    """The options of ``hf-sgpe finetune-seq2seq``."""

    pairs: list[Path] = arguments("A file of pairs, or a file of sources and a file of targets.")
    batch_size: int = option("Number of pairs in a training step.", 16)
    held_out: int = option("Number of pairs at the end of the corpus to hold out from training.", 50)
    length: int = option("Maximum number of tokens in a text; longer texts are truncated.", 128)
    source_language: str | None = option("Language code of the sources, for a model such as NLLB: hin_Deva.")
    target_language: str | None = option("Language code of the targets, for a model such as NLLB: sin_Sinh.")

    def check(self) -> None:
        """Check the options before anything is read."""
        super().check()
        if (self.source_language is None) != (self.target_language is None):
            raise SGPEError("give both --source-language and --target-language, or neither")
        if self.length < 2:
            raise SGPEError(f"--length must be at least 2, not {self.length}")
