"""The options of the training scripts."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from transformers import HfArgumentParser

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import why_no_model
from hf_sgpe.files.hub import check_name
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.files.resuming import check_settings
from hf_sgpe.terminal.command import ArgumentParser
from hf_sgpe.weights.model_loading import load_tokenizer
from trainers.language_models.training_runs import check_numbers, checkpoint_to_resume, train
from trainers.model_rows.token_tables import fit_embeddings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from trainers.model_rows.embedding_rows import RowMap

Arguments = TypeVar("Arguments")

NEW_MODEL = {"layers": 4, "width": 256, "heads": 4}
"""The shape of a model that is begun anew, unless other numbers are given."""


def option(help: str, default: Any = None, **how: Any) -> Any:
    """A field that is an option: its help, its default, and what else ``add_argument`` takes."""
    return field(default=default, metadata={"help": help, **how})


def option_list(help: str, **how: Any) -> Any:
    """Return a field for an option with any number of values, by default none. Given several times, all values count."""
    return field(default_factory=list, metadata={"help": help, "action": "extend", **how})


def flag(help: str) -> Any:
    """A field that an option without a value sets to True."""
    return field(default=False, init=False, metadata={"help": help, "action": "store_true"})


def positional(help: str, nargs: str) -> Any:
    """A field for the arguments that no option takes."""
    return field(default_factory=list, init=False, metadata={"help": help, "nargs": nargs})


@dataclass
class RunArguments:
    """The options of all training scripts; transformers' `HfArgumentParser` makes them from the fields."""

    out: Path = option("folder to write to (default: %(default)s)", Path("model"))
    tokenizer: str | None = option("folder, tokenizer.json or name on the Hub (default: that of --model)")
    model: str | None = option("model to go on training, folder or name on the Hub (default: a new one)")
    model_tokenizer: str | None = option("that of --model, if it is not in the same folder", metavar="TOKENIZER")
    layers: int | None = option(f"of a new model (default: {NEW_MODEL['layers']})")
    width: int | None = option(f"of a new model (default: {NEW_MODEL['width']})")
    heads: int | None = option(f"of a new model (default: {NEW_MODEL['heads']})")
    steps: int = option("of training, in all (default: %(default)s)", 500)
    batch_size: int = option("rows in a step (default: %(default)s)", 8)
    learning_rate: float | None = option("at its highest (default: 1e-3 for a new model, 5e-5 with --model)")
    seed: int = option("of weights and order (default: %(default)s)", 1)
    save_every: int | None = option("write a checkpoint after so many steps (default: a tenth of them)", metavar="STEPS")
    resume: bool = flag("go on from the last checkpoint in --out, if there is one")
    overwrite: bool = flag("replace a model or a tokenizer that is in --out already")
    push: str | None = option("push the result to this repository on the Hub", metavar="USER/NAME")
    private: bool = flag("make that repository a private one")

    def check(self) -> None:
        """Checks what can be known before anything is read, and fills in the shape of a new model.

        Raises:
            SGPEError: there is no tokenizer, a number is too small, one option rules out another, or ``--out`` holds
                checkpoints that are not to be resumed, or a model or tokenizer that is not to be replaced.
        """
        if not (self.tokenizer or self.model):
            raise SGPEError("give a tokenizer by --tokenizer, or a model that has one by --model")
        if self.model_tokenizer and not self.model:
            raise SGPEError("--model-tokenizer is that of a model: name the model by --model")
        check_numbers(
            steps=self.steps, batch_size=self.batch_size, save_every=self.save_every, learning_rate=self.learning_rate
        )
        for name in NEW_MODEL:
            if self.model and getattr(self, name) is not None:
                raise SGPEError(f"--{name} is of a new model, and --model {self.model} has a shape of its own")
        if self.push:
            check_name(self.push)
        elif self.private:
            raise SGPEError("--private is for --push")
        if self.model and self.out.exists() and self.out.resolve() == Path(self.model).resolve():
            raise SGPEError(f"--out {self.out}: is the model that is to be trained: give another folder")
        if self.out.exists() and not self.out.is_dir():
            raise SGPEError(f"--out {self.out}: is a file: give a folder to write to")
        if not checkpoint_to_resume(self.out, resume=self.resume):
            check_new_folder(self.out, overwrite=self.overwrite)
        else:
            check_settings(self.out, {name: getattr(self, name) for name in ("steps", "batch_size", "seed")} | self._model())

    def new_model(self) -> dict[str, int]:
        """The shape of a new model: ``layers``, ``width`` and ``heads``."""
        return {name: number if getattr(self, name) is None else getattr(self, name) for name, number in NEW_MODEL.items()}

    def _model(self) -> dict[str, Any]:
        """The model to train, as the settings record it."""
        shape = dict.fromkeys(NEW_MODEL) if self.model else self.new_model()
        return {"model": self.model, "model_tokenizer": self.model_tokenizer, **shape}

    def train(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        rows: Any,
        collator: Any,
        *,
        how: Mapping[str, Any] | None = None,
        **text: Any,
    ) -> None:
        """`train` with these arguments, and with ``how``; ``text`` says what the rows were made of."""
        train(
            model,
            tokenizer,
            rows,
            collator,
            out=self.out,
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate or (5e-5 if self.model else 1e-3),
            seed=self.seed,
            settings={**self._model(), **text},
            save_every=self.save_every,
            resume=self.resume,
            push=self.push,
            private=self.private,
            **(how or {}),
        )


def parse_arguments(description: str | None, arguments: type[Arguments]) -> Arguments:
    """The command line of a script as a dataclass; wrong usage ends in one line and exit code 2.

    Args:
        description: The script's docstring, shown by ``--help`` as it is written.
        arguments: `RunArguments`, or a dataclass made from it.
    """
    parser = HfArgumentParser([arguments], description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = partial(ArgumentParser.error, parser)
    # The library knows no positional arguments, and its options for True take the argument behind them for their value.
    ours = {one.name: one.metadata for one in fields(cast("Any", arguments)) if not one.init}
    for name, how in ours.items():
        parser.add_argument(f"--{name}" if "action" in how else name, **how)
    parsed, others, unknown = parser.parse_args_into_dataclasses(return_remaining_strings=True, look_for_args_file=False)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    for name in ours:
        setattr(parsed, name, getattr(others, name))
    return cast("Arguments", parsed)


def load_tokenizers(args: RunArguments) -> tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase | None]:
    """The tokenizer to train with, and the one that ``--model`` was trained with; None for a new model.

    Raises:
        SGPEError: there is none, or it is damaged.
    """
    if not args.model:
        return load_tokenizer(args.tokenizer or ""), None
    try:
        own = load_tokenizer(args.model_tokenizer or args.model)
    except SGPEError as error:
        if args.model_tokenizer or not Path(args.model).is_dir() or why_no_model(Path(args.model)):
            raise
        raise SGPEError(f"{error}: name the tokenizer that the model was trained with by --model-tokenizer") from None
    return load_tokenizer(args.tokenizer) if args.tokenizer else own, own


def fit_to_tokenizer(
    args: RunArguments, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, own: PreTrainedTokenizerBase
) -> RowMap:
    """Fits ``--model`` to the tokenizer to train with, and returns what became of its rows.

    Raises:
        SGPEError: it cannot be; see `trainers.model_rows.token_tables.fit_embeddings`.
    """
    try:
        return fit_embeddings(model, tokenizer, own)
    except SGPEError as error:
        own_name = args.model_tokenizer or args.model
        raise SGPEError(f"--model {args.model} with --model-tokenizer {own_name}: {error}") from None
