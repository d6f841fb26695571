"""Train a causal language model with a tokenizer.

The model is a new small Llama, or an existing model that is fitted to the tokenizer. The text comes from text files, .jsonl,
.parquet or a dataset of the datasets library. A text file is one text. With --lines, each line of a text file is one text.
Special tokens written in a text are encoded as special tokens. A corpus may also be a folder that hf-sgpe tokenize wrote
with the same tokenizer. The ids of all texts are packed into rows without padding. Training uses a GPU if there is one, in
bfloat16 if the GPU supports it. With accelerate launch, training uses several GPUs. AutoModelForCausalLM and AutoTokenizer
can load the output folder.

Example: python scripts/train_lm.py si.txt.xz --tokenizer my-tokenizer --eval held-out.txt --steps 500 --out my-model
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hf_sgpe import SGPEError
from hf_sgpe.cli import run_script
from hf_sgpe.corpora.held_out import read_held_out
from hf_sgpe.corpora.measured_text import normalized
from hf_sgpe.learning.adaptation import PARTS
from hf_sgpe.terminal.options import SEVERAL, option, option_list
from hf_sgpe.weights.model_loading import load_model
from trainers.language_models.language_model import collate, small_llama
from trainers.language_models.run_arguments import RunArguments, fit_to_tokenizer, load_tokenizers
from trainers.language_models.training_rows import TextOptions, read_rows
from trainers.language_models.training_runs import check_length, require_pytorch, train
from trainers.model_rows.token_tables import embedding_rows, extended_ids, fit_embeddings


@dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments, TextOptions):
    """The options of all training scripts, and the options for the text."""

    parts: str = option("Parts of --model to train: " + ", ".join(PARTS) + ".", "all", choices=PARTS)
    rows_learning_rate: float | None = option(
        "Learning rate for the embedding rows of new tokens (default: the same as for all other weights)."
    )
    eval: list[str] = option_list("Held-out text on which to measure bits per byte: FILE or NAME=FILE.", metavar=SEVERAL)
    eval_every: int | None = option(
        "Number of steps between measurements on --eval and on the validation part (default: a tenth of all steps)."
    )


def run(args: Arguments) -> None:
    require_pytorch()
    from accelerate import PartialState
    from transformers import AutoModelForCausalLM, LlamaForCausalLM, set_seed

    from trainers import LanguageProgress

    args.check_text()
    args.check()
    options = {"parts": args.parts, "rows_learning_rate": args.rows_learning_rate}
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value not in (None, "all")}
    if chosen and not args.model:
        raise SGPEError("--parts and --rows-learning-rate need an existing model: give one with --model")
    if args.rows_learning_rate is not None and not args.rows_learning_rate > 0:
        raise SGPEError(f"--rows-learning-rate must be above 0, not {args.rows_learning_rate}")
    if not args.model:
        small_llama(1, **args.new_model(), length=args.length)  # raises errors for wrong options
    tokenizer, own = load_tokenizers(args)
    held_out = {name: one.texts() for name, one in read_held_out(args.eval, text_field=args.text_field).items()}

    set_seed(args.seed)
    state = PartialState()
    if own and args.model:
        model = load_model(AutoModelForCausalLM, args.model)
        check_length(model.config, args.length, args.model)
        row_map = fit_to_tokenizer(args, model, tokenizer, own)
        new_rows = row_map.new or extended_ids(tokenizer)
        state.print(f"{args.model}: {row_map}", flush=True)
    else:
        model = LlamaForCausalLM(small_llama(embedding_rows(tokenizer), **args.new_model(), length=args.length))
        new_rows = []
        fit_embeddings(model, tokenizer, tokenizer)
    where = str(args.tokenizer or args.model_tokenizer or args.model)
    # From a stream, read only as many rows as the steps need.
    needed = args.steps * args.batch_size * state.num_processes
    text = read_rows(args, tokenizer, where, most=needed if args.streaming else None)
    if text.validation:
        held_out["validation"] = list(map(normalized, text.validation))
    if args.keep:
        state.print(f"{text.kept / len(text.rows):.1%} of the rows come from --keep", flush=True)
    model.to(state.device)
    size = f"{len(text.rows):,} rows of {args.length} tokens from {text.texts:,} text{'s' * (text.texts != 1)}"
    state.print(f"{model.num_parameters():,} parameters, {size}", flush=True)
    watched: list[LanguageProgress] = []

    def watch(trainer: Any) -> LanguageProgress:
        how = {"every": args.eval_every, "tokenizer": tokenizer, "new_ids": new_rows}
        watched.append(LanguageProgress(trainer, held_out, **how, show=lambda line: print(line, flush=True)))
        return watched[0]

    settings = {**args.made_from(), "length": args.length, "text": text.digest}
    how = chosen | {"watch": watch if held_out else None}
    train(model, tokenizer, text.rows, collate, args, settings=settings, new_rows=new_rows, **how)
    for name, (before, after) in (changes(watched[0].points) if watched else {}).items():
        state.print(f"{name}: {before:.4f} bits per byte before, {after:.4f} after")
    state.print(args.written())


def changes(points: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the bits per byte at the first and at the last measurement, as a dict from languages to pairs."""
    if not points:  # the training was finished before
        return {}
    first, last = points[0]["languages"], points[-1]["languages"]
    return {name: (first[name]["bits_per_byte"], values["bits_per_byte"]) for name, values in last.items()}


if __name__ == "__main__":
    run_script(run, __doc__)
