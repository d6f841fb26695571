"""Fine-tuning of a causal language model, from text to the trained model: an existing model that is fitted to the tokenizer,
or a new small Llama.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hf_sgpe.corpora.held_out import read_held_out
from hf_sgpe.corpora.measured_text import normalized
from hf_sgpe.learning.finetuning_options import Finetuning
from hf_sgpe.weights.model_loading import load_model
from trainers.language_models.language_model import collate, small_llama
from trainers.language_models.run_arguments import check_run, fit_to_tokenizer, load_tokenizers
from trainers.language_models.training_rows import check_corpus, read_rows
from trainers.language_models.training_runs import check_length, require_pytorch, train
from trainers.model_rows.token_tables import embedding_rows, extended_ids, fit_embeddings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from trainers.language_models.language_progress import LanguageProgress


def finetune(args: Finetuning, *, show: Callable[[str], None] = print) -> dict[str, tuple[float, float]] | None:
    """Train a model, as ``hf-sgpe finetune`` does, and save it with its tokenizer. ``show`` is called with one line about
    each step.

    Returns:
        The bits per byte at the first and at the last measurement, keyed by held-out text. None in all processes of
        ``accelerate launch`` but the first.
    """
    require_pytorch()
    from accelerate import PartialState
    from transformers import set_seed

    from trainers.language_models.language_progress import LanguageProgress

    args.check()
    check_corpus(args)
    check_run(args)
    if not args.model:
        small_llama(1, **args.new_model(), length=args.length)  # raises errors for wrong options
    tokenizer, own = load_tokenizers(args)
    held_out = {name: one.texts() for name, one in read_held_out(args.eval, text_field=args.text_field).items()}

    set_seed(args.seed)
    state = PartialState()
    tell = state.on_main_process(show)
    model, new_rows = _model_and_new_rows(args, tokenizer, own, tell)
    where = str(args.tokenizer or args.model_tokenizer or args.model)
    # From a stream, read only as many rows as the steps need.
    needed = args.steps * args.batch_size * state.num_processes
    text = read_rows(args, tokenizer, where, most=needed if args.streaming else None)
    if text.validation:
        held_out["validation"] = list(map(normalized, text.validation))
    if args.keep:
        tell(f"{text.kept / len(text.rows):.1%} of the rows come from --keep")
    model.to(state.device)
    size = f"{len(text.rows):,} rows of {args.length} tokens from {text.texts:,} text{'s' * (text.texts != 1)}"
    tell(f"{model.num_parameters():,} parameters, {size}")
    watched: list[LanguageProgress] = []

    def watch(trainer: Any) -> LanguageProgress:
        how = {"every": args.eval_every, "tokenizer": tokenizer, "new_ids": new_rows}
        watched.append(LanguageProgress(trainer, held_out, **how, show=tell))
        return watched[0]

    settings = {**args.made_from(), "length": args.length, "text": text.digest}
    train(
        model,
        tokenizer,
        text.rows,
        collate,
        args,
        settings=settings,
        parts=args.parts,
        new_rows=new_rows,
        rows_learning_rate=args.rows_learning_rate,
        watch=watch if held_out else None,
    )
    changes = _changes(watched[0].points) if watched else {}
    for name, (before, after) in changes.items():
        tell(f"{name}: {before:.4f} bits per byte before, {after:.4f} after")
    return changes if state.is_main_process else None


def _model_and_new_rows(
    args: Finetuning,
    tokenizer: PreTrainedTokenizerBase,
    own: PreTrainedTokenizerBase | None,
    tell: Callable[[str], None],
) -> tuple[PreTrainedModel, list[int]]:
    """Return the model to train, fitted to the tokenizer, and the rows of new tokens.

    Args:
        own: The tokenizer of an existing model.
    """
    from transformers import AutoModelForCausalLM, LlamaForCausalLM

    if own and args.model:
        model = load_model(AutoModelForCausalLM, args.model)
        check_length(model.config, args.length, args.model)
        row_map = fit_to_tokenizer(args, model, tokenizer, own)
        tell(f"{args.model}: {row_map}")
        return model, row_map.new or extended_ids(tokenizer)
    model = LlamaForCausalLM(small_llama(embedding_rows(tokenizer), **args.new_model(), length=args.length))
    fit_embeddings(model, tokenizer, tokenizer)
    return model, []


def _changes(points: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the bits per byte of each language at the first and at the last measurement."""
    if not points:  # the training was finished before
        return {}
    first, last = points[0]["languages"], points[-1]["languages"]
    return {name: (first[name]["bits_per_byte"], values["bits_per_byte"]) for name, values in last.items()}
