"""Train a causal language model with a tokenizer: a new small Llama, or an existing model that is fitted to the tokenizer.

The text comes from text files, .jsonl, .parquet or a dataset of the datasets library. Its ids are packed into rows without
padding. A text file is one text. Special tokens written in a text are encoded as special tokens. Training uses a GPU if
there is one, in bfloat16 if the GPU supports it. With accelerate launch, it uses several GPUs. AutoModelForCausalLM and
AutoTokenizer load the output folder.

Example: python scripts/train_lm.py si.txt.xz --tokenizer my-tokenizer --eval held-out.txt --steps 500 --out my-model
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy
from numpy.typing import NDArray

from hf_sgpe import SGPEError
from hf_sgpe.cli import run_script
from hf_sgpe.cli.application import SEVERAL
from hf_sgpe.corpora.held_out import read_held_out
from hf_sgpe.corpora.text_files import Text, read_model_texts
from hf_sgpe.terminal.options import arguments, option, option_list
from hf_sgpe.weights.model_loading import load_model
from trainers import CorpusFile, find_files
from trainers.language_models.language_model import collate, pack, small_llama
from trainers.language_models.run_arguments import RunArguments, fit_to_tokenizer, load_tokenizers
from trainers.language_models.scoring import bits_per_byte
from trainers.language_models.training_runs import check_length, digest_of, require_pytorch, train
from trainers.model_rows.token_tables import PARTS, embedding_rows, extended_ids, fit_embeddings

KEEP_SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """The options of all training scripts, and the options for the text."""

    corpus: list[str] = arguments("Text to train on: files, folders or globs of .txt, .jsonl or .parquet.")
    text_field: str = option(
        "Field or column with the text in .jsonl and .parquet files and in the dataset.",
        "text",
        "--text-field",
        "--text-column",
    )
    dataset: str | None = option("Dataset to train on instead of files: NAME or NAME:CONFIG on the Hub, or a folder.")
    split: str | None = option("Split of the dataset to read (default: train).")
    streaming: bool = option("Download only the part of the dataset that training needs.", False)
    length: int = option("Number of tokens in a row, the context length of training.", 256)
    parts: str = option("Parts of --model to train: " + ", ".join(PARTS) + ".", "all", choices=PARTS)
    rows_learning_rate: float | None = option(
        "Learning rate of the embedding rows of new tokens (default: the learning rate of all other weights)."
    )
    keep: list[str] = option_list(
        "Text in languages that --model knows. It is mixed into the training text, so that the model does not forget "
        "these languages.",
        metavar=SEVERAL,
    )
    keep_share: float | None = option(f"Share of the training rows that come from --keep (default: {KEEP_SHARE}).")
    eval: list[str] = option_list("Held-out text on which to measure bits per byte: FILE or NAME=FILE.", metavar=SEVERAL)


def run(args: Arguments) -> None:
    require_pytorch()
    from accelerate import PartialState
    from transformers import AutoModelForCausalLM, LlamaForCausalLM, set_seed

    if bool(args.corpus) == bool(args.dataset):
        raise SGPEError("training needs text: name files, or a dataset with --dataset")
    for name, is_given in {"--streaming": args.streaming, "--split": args.split is not None}.items():
        if is_given and not args.dataset:
            raise SGPEError(f"{name} needs a dataset: name one with --dataset")
    if args.length < 2:
        raise SGPEError(f"--length must be at least 2, a token and the next token, not {args.length}")
    args.check()
    options = {"parts": args.parts, "rows_learning_rate": args.rows_learning_rate}
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value not in (None, "all")}
    if chosen and not args.model:
        raise SGPEError("--parts and --rows-learning-rate need an existing model: name one with --model")
    if args.rows_learning_rate is not None and not args.rows_learning_rate > 0:
        raise SGPEError(f"--rows-learning-rate must be above 0, not {args.rows_learning_rate}")
    if args.keep_share is not None and not args.keep:
        raise SGPEError("--keep-share needs --keep FILE")
    keep_share = KEEP_SHARE if args.keep_share is None else args.keep_share
    if not 0 < keep_share < 1:
        raise SGPEError(f"--keep-share must be between 0 and 1, not {keep_share}")
    if not args.model:
        small_llama(1, **args.new_model(), length=args.length)  # raises errors for wrong options
    files, kept_files = find_files(args.corpus), find_files(args.keep)
    tokenizer, own = load_tokenizers(args)
    held_out = {name: one.texts() for name, one in read_held_out(args.eval, text_field=args.text_field).items()}

    set_seed(args.seed)
    state = PartialState()
    if own and args.model:
        model = load_model(AutoModelForCausalLM, args.model)
        check_length(model, args.length, args.model)
        row_map = fit_to_tokenizer(args, model, tokenizer, own)
        new_rows = row_map.new or extended_ids(tokenizer)
        state.print(f"{args.model}: {row_map}", flush=True)
    else:
        model = LlamaForCausalLM(small_llama(embedding_rows(tokenizer), **args.new_model(), length=args.length))
        new_rows = []
        fit_embeddings(model, tokenizer, tokenizer)
    # From a stream, read only as many rows as the steps need.
    rows = packed_rows(args, files, tokenizer, args.steps * args.batch_size if args.streaming else None)
    if kept_files:
        kept = packed_rows(args, kept_files, tokenizer, round(len(rows) * keep_share / (1 - keep_share)))
        state.print(f"{len(kept) / (len(kept) + len(rows)):.1%} of the rows come from --keep", flush=True)
        rows = numpy.concatenate([rows, kept])
    model.to(state.device)
    state.print(f"{model.num_parameters():,} parameters, {len(rows):,} rows of {args.length} tokens", flush=True)
    before = measured(model, tokenizer, held_out)
    settings = {**args.made_from(), "length": args.length, "text": digest_of(rows.tolist()), **chosen}
    train(model, tokenizer, rows, collate, args, settings=settings, new_rows=new_rows, **chosen)
    for name, value in measured(model, tokenizer, held_out).items():
        state.print(f"{name}: {before[name]:.4f} bits per byte before, {value:.4f} after")
    state.print(args.written())


def packed_rows(args: Arguments, files: list[CorpusFile], tokenizer: Any, most: int | None = None) -> NDArray[numpy.int32]:
    """Return at most ``most`` rows of tokens, from files or, if there are none, from the dataset."""
    texts: Iterable[Text] = read_model_texts(files, text_field=args.text_field, special_tokens=tokenizer.all_special_tokens)
    where = ", ".join(map(str, files))
    if not files and args.dataset:
        from hf_sgpe.corpora.hub_datasets import read_dataset

        where = f"dataset {args.dataset}"
        texts = read_dataset(
            args.dataset, split=args.split or "train", text_column=args.text_field, streaming=args.streaming
        )
    rows = numpy.array(list(islice(pack(texts, tokenizer, args.length), most)), numpy.int32)
    if not len(rows):
        raise SGPEError(f"{where}: too little text for a row of {args.length} tokens: add text, or use a smaller --length")
    return rows


def measured(model: Any, tokenizer: Any, held_out: dict[str, list[str]]) -> dict[str, float]:
    return {name: bits_per_byte(model, tokenizer, texts) for name, texts in held_out.items()}


if __name__ == "__main__":
    run_script(run, __doc__)
