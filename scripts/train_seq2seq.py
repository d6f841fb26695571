"""Train an encoder–decoder model, such as a translation model, on pairs of texts.

The model is a new small T5 or an existing model. The pairs come from a .tsv file with two columns, a .jsonl file with the
fields source and target, or two text files with aligned lines. All of these files may be compressed. The last pairs are held
out. The script reports the loss on the held-out pairs, and prints the model's output for some of them. Training uses a GPU
if there is one. AutoModelForSeq2SeqLM and AutoTokenizer can load the output folder.

Example: python scripts/train_seq2seq.py si.txt en.txt --tokenizer my-tokenizer --steps 500 --out my-translator
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe import SGPEError
from hf_sgpe.cli import run_script
from hf_sgpe.corpora.text_files import JSON_LINES, kind_of, read_text_file
from hf_sgpe.terminal.options import arguments, option
from hf_sgpe.weights.model_loading import load_model
from trainers.language_models.language_model import check_shape
from trainers.language_models.run_arguments import RunArguments, fit_to_tokenizer, load_tokenizers
from trainers.language_models.training_runs import check_length, digest_of, require_pytorch, train
from trainers.model_rows.token_tables import embedding_rows, fit_embeddings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, T5Config

Pair = tuple[str, str]

SHOWN = 3
"""The number of held-out pairs that are printed with the output of the model."""


@dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """The options of all training scripts, and the options for pairs of texts."""

    pairs: list[Path] = arguments("A file of pairs, or a file of sources and a file of targets.")
    batch_size: int = option("Number of pairs in a training step.", 16)
    held_out: int = option("Number of pairs at the end of the corpus to hold out from training.", 50)
    length: int = option("Maximum number of tokens in a text; longer texts are truncated.", 128)


def run(args: Arguments) -> None:
    require_pytorch()
    from accelerate import PartialState
    from transformers import AutoModelForSeq2SeqLM, DataCollatorForSeq2Seq, T5ForConditionalGeneration, set_seed

    args.check()
    if not args.model:
        check_shape(**args.new_model())
    if args.length < 2:
        raise SGPEError(f"--length must be at least 2, not {args.length}")
    pairs = read_pairs(args.pairs)
    if not 0 < args.held_out < len(pairs):
        raise SGPEError(f"--held-out must be from 1 to {len(pairs) - 1} for {len(pairs)} pairs, not {args.held_out}")
    tokenizer, own = load_tokenizers(args)
    if tokenizer.pad_token_id is None or tokenizer.eos_token_id is None:
        name = args.tokenizer or args.model_tokenizer or args.model
        raise SGPEError(
            f"{name} has no padding token or no EOS token, and this script needs both: train the tokenizer with "
            "--eos-token '<|endoftext|>'"
        )

    set_seed(args.seed)
    state = PartialState()
    if own and args.model:
        model = load_model(AutoModelForSeq2SeqLM, args.model)
        check_length(model.config, args.length, args.model)
        state.print(f"{args.model}: {fit_to_tokenizer(args, model, tokenizer, own)}", flush=True)
    else:
        model = T5ForConditionalGeneration(small_t5(tokenizer, **args.new_model()))
        fit_embeddings(model, tokenizer, tokenizer)
    model.to(state.device)
    examples = encoded(pairs, tokenizer, args.length)
    training, held_out = examples[: -args.held_out], examples[-args.held_out :]
    collator = DataCollatorForSeq2Seq(tokenizer, model=model, pad_to_multiple_of=8)
    state.print(f"{model.num_parameters():,} parameters, {len(training):,} pairs", flush=True)
    before = loss_on(model, held_out, collator, args.batch_size)
    train(model, tokenizer, training, collator, args, settings={**args.made_from(), "pairs": digest_of(training)})
    after = loss_on(model, held_out, collator, args.batch_size)
    state.print(f"Loss per token of {len(held_out)} held-out targets: {before:.4f} before, {after:.4f} after")
    translations = generated(model, tokenizer, held_out[:SHOWN], collator, args.length)
    for (source, target), translation in zip(pairs[-args.held_out :], translations, strict=False):
        state.print(f"\nsource: {source}\ntarget: {target}\nmodel:  {translation}")
    state.print(f"\n{args.written()}")


def read_pairs(paths: list[Path]) -> list[Pair]:
    """Read pairs of texts from one file or from two files with aligned lines. Pairs with an empty source or target are left
    out.

    Raises:
        SGPEError: a file cannot be read or has no pairs. The message names the file and the line.
    """
    if not 1 <= len(paths) <= 2:
        raise SGPEError(f"give one file of pairs, or a file of sources and a file of targets, not {len(paths)} files")
    if len(paths) == 2:
        sources, targets = map(lines_of, paths)
        if len(sources) != len(targets):
            raise SGPEError(
                f"{paths[0]} has {len(sources)} lines, {paths[1]} has {len(targets)}: give two files with the same "
                "number of lines"
            )
        pairs = list(zip(sources, targets, strict=True))
    else:
        path = paths[0]
        read = from_json if kind_of(path) == JSON_LINES else from_columns
        pairs = [read(line, f"{path}, line {number}") for number, line in enumerate(lines_of(path), 1) if line.strip()]
    pairs = [(source.strip(), target.strip()) for source, target in pairs]
    if not (pairs := [pair for pair in pairs if all(pair)]):
        raise SGPEError(f"{' and '.join(map(str, paths))}: no pairs of texts")
    return pairs


def lines_of(path: Path) -> list[str]:
    return [line.removesuffix("\r") for line in "".join(read_text_file(path)).removesuffix("\n").split("\n")]


def from_columns(line: str, where: str) -> Pair:
    columns = line.split("\t")
    if len(columns) != 2:
        raise SGPEError(f"{where}: expected two columns separated by a tab, not {len(columns)}")
    return columns[0], columns[1]


def from_json(line: str, where: str) -> Pair:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SGPEError(f"{where}: not valid JSON ({error})") from None
    source, target = (record.get(field) if isinstance(record, dict) else None for field in ("source", "target"))
    if not (isinstance(source, str) and isinstance(target, str)):
        raise SGPEError(f"{where}: expected an object with strings in the fields 'source' and 'target'")
    return source, target


def small_t5(tokenizer: PreTrainedTokenizerBase, *, layers: int, width: int, heads: int) -> T5Config:
    """Return the configuration of a small T5 that has ``layers`` layers in the encoder and as many in the decoder."""
    from transformers import T5Config

    return T5Config(
        vocab_size=embedding_rows(tokenizer),
        d_model=width,
        d_kv=width // heads,
        d_ff=2 * width,
        num_layers=layers,
        num_heads=heads,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=tokenizer.pad_token_id,
    )


def encoded(pairs: list[Pair], tokenizer: PreTrainedTokenizerBase, length: int) -> list[dict[str, list[int]]]:
    """Tokenize pairs of texts. Return a dict with ``input_ids`` (source) and ``labels`` (target) for each pair. Both are
    truncated to ``length`` ids, including the EOS token at the end.
    """
    columns = []
    for side in zip(*pairs, strict=True):
        rows = tokenizer(list(side), add_special_tokens=False, verbose=False)["input_ids"]
        columns.append([[*ids[: length - 1], tokenizer.eos_token_id] for ids in rows])
    return [{"input_ids": source, "labels": target} for source, target in zip(*columns, strict=True)]


def loss_on(model: PreTrainedModel, examples: list[dict[str, list[int]]], collator: Any, batch_size: int) -> float:
    """Return the model's mean loss per target token on ``examples``, in nats."""
    import torch

    model.eval()
    nats = tokens = 0.0
    with torch.inference_mode():
        for start in range(0, len(examples), batch_size):
            batch = collator(examples[start : start + batch_size]).to(model.device)
            count = int((batch["labels"] != -100).sum())
            nats += float(model(**batch).loss) * count
            tokens += count
    return nats / tokens


def generated(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    examples: list[dict[str, list[int]]],
    collator: Any,
    length: int,
) -> list[str]:
    model.eval()
    batch = collator(examples).to(model.device)
    ids = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=length, do_sample=False)
    return list(tokenizer.batch_decode(ids, skip_special_tokens=True))


if __name__ == "__main__":
    run_script(run, __doc__)
