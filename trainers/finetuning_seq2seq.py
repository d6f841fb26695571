"""Fine-tuning of an encoder–decoder model, such as a translation model, on pairs of texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.corpora.text_files import JSON_LINES, kind_of, read_text_file
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.finetuning_options import PairFinetuning
from hf_sgpe.weights.model_loading import load_translating_tokenizer
from trainers.language_models.language_model import check_shape
from trainers.language_models.pair_objective import PairObjective, encode_pairs, translations
from trainers.language_models.run_arguments import check_run, fitted_model, load_tokenizers
from trainers.language_models.training_runs import digest_of, require_pytorch, train
from trainers.model_rows.token_tables import embedding_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, T5Config

_Pair = tuple[str, str]

_SHOWN = 3
"""The number of held-out pairs that are shown with the output of the model."""


def finetune_seq2seq(args: PairFinetuning, *, show: Callable[[str], None] = print) -> dict[str, float] | None:
    """Train a model on pairs of texts, as ``hf-sgpe finetune-seq2seq`` does, and save it with its tokenizer.

    Returns:
        The loss per token of the held-out targets, in nats, ``before`` and ``after``. None in all processes of ``accelerate
        launch`` but the first.
    """
    require_pytorch()
    from accelerate import PartialState
    from transformers import AutoModelForSeq2SeqLM, T5ForConditionalGeneration, set_seed

    args.check()
    check_run(args)
    if not args.model:
        check_shape(**args.new_model())
    pairs = _read_pairs(args.pairs)
    if not 0 < args.held_out < len(pairs):
        raise SGPEError(f"--held-out must be from 1 to {len(pairs) - 1} for {len(pairs)} pairs, not {args.held_out}")
    tokenizer, own = load_tokenizers(args)
    if args.source_language and args.target_language:
        folder = str(args.tokenizer or args.model_tokenizer or args.model)
        tokenizer = load_translating_tokenizer(folder, args.source_language, args.target_language)
    if tokenizer.pad_token_id is None or tokenizer.eos_token_id is None:
        name = args.tokenizer or args.model_tokenizer or args.model
        raise SGPEError(
            f"{name} has no padding token or no EOS token, and this command needs both: train the tokenizer with "
            "--eos-token '<|endoftext|>'"
        )

    set_seed(args.seed)
    state = PartialState()
    tell = state.on_main_process(show)

    def make_new() -> T5ForConditionalGeneration:
        return T5ForConditionalGeneration(_small_t5(tokenizer, **args.new_model()))

    model, _ = fitted_model(args, AutoModelForSeq2SeqLM, make_new, tokenizer, own, tell)
    model.to(state.device)
    examples = encode_pairs(pairs, tokenizer, args.length)
    training, held_out = examples[: -args.held_out], examples[-args.held_out :]
    collator = PairObjective().collator(model, tokenizer)
    tell(f"{model.num_parameters():,} parameters, {len(training):,} pairs")
    before = _loss_on(model, held_out, collator, args.batch_size)
    train(model, tokenizer, training, collator, args, settings={**args.made_from(), "pairs": digest_of(training)})
    after = _loss_on(model, held_out, collator, args.batch_size)
    tell(f"Loss per token of {len(held_out)} held-out targets: {before:.4f} before, {after:.4f} after")
    shown = pairs[-args.held_out :][:_SHOWN]
    for (source, target), translation in zip(shown, translations(model, tokenizer, shown, args.length), strict=True):
        tell(f"\nsource: {source}\ntarget: {target}\nmodel:  {translation}")
    return {"before": before, "after": after} if state.is_main_process else None


def _read_pairs(paths: list[Path]) -> list[_Pair]:
    """Read pairs of texts, none of them empty, from one file or from two files with aligned lines."""
    if not 1 <= len(paths) <= 2:
        raise SGPEError(f"give one file of pairs, or a file of sources and a file of targets, not {len(paths)} files")
    if len(paths) == 2:
        sources, targets = map(_lines_of, paths)
        if len(sources) != len(targets):
            raise SGPEError(
                f"{paths[0]} has {len(sources)} lines, {paths[1]} has {len(targets)}: give two files with the same "
                "number of lines"
            )
        pairs = list(zip(sources, targets, strict=True))
    else:
        path = paths[0]
        read = _from_json if kind_of(path) == JSON_LINES else _from_columns
        pairs = [read(line, f"{path}, line {number}") for number, line in enumerate(_lines_of(path), 1) if line.strip()]
    pairs = [(source.strip(), target.strip()) for source, target in pairs]
    if not (pairs := [pair for pair in pairs if all(pair)]):
        raise SGPEError(f"{' and '.join(map(str, paths))}: no pairs of texts")
    return pairs


def _lines_of(path: Path) -> list[str]:
    return [line.removesuffix("\r") for line in "".join(read_text_file(path)).removesuffix("\n").split("\n")]


def _from_columns(line: str, where: str) -> _Pair:
    columns = line.split("\t")
    if len(columns) != 2:
        raise SGPEError(f"{where}: expected two columns separated by a tab, not {len(columns)}")
    return columns[0], columns[1]


def _from_json(line: str, where: str) -> _Pair:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SGPEError(f"{where}: not valid JSON ({error})") from None
    source, target = (record.get(field) if isinstance(record, dict) else None for field in ("source", "target"))
    if not (isinstance(source, str) and isinstance(target, str)):
        raise SGPEError(f"{where}: expected an object with strings in the fields 'source' and 'target'")
    return source, target


def _small_t5(tokenizer: PreTrainedTokenizerBase, *, layers: int, width: int, heads: int) -> T5Config:
    """Return the configuration of a small T5 with ``layers`` layers each in the encoder and in the decoder."""
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


def _loss_on(model: PreTrainedModel, examples: list[dict[str, list[int]]], collator: Any, batch_size: int) -> float:
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
