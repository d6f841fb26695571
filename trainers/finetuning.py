"""Fine-tuning of a causal language model, from text to the trained model: an existing model that is fitted to the tokenizer,
or a new small Llama.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hf_sgpe.corpora.held_out import read_held_out
from hf_sgpe.learning.finetuning_options import Finetuning
from hf_sgpe.weights.model_loading import check_causal
from trainers.language_models.language_model import collate, small_llama
from trainers.language_models.run_arguments import check_run, fitted_model, load_tokenizers
from trainers.language_models.training_rows import check_corpus, read_rows
from trainers.language_models.training_runs import require_pytorch, train
from trainers.model_rows.token_tables import embedding_rows


def finetune(args: Finetuning, *, show: Callable[[str], None] = print) -> dict[str, tuple[float, float]] | None:
    """Train a model, as ``hf-sgpe finetune`` does, and save it with its tokenizer. ``show`` is called with one line about
    each step.

    Returns:
        The bits per byte at the first and at the last measurement, keyed by held-out text. None in all processes of
        ``accelerate launch`` but the first.
    """
    require_pytorch()
    from accelerate import PartialState
    from transformers import AutoModelForCausalLM, LlamaForCausalLM, set_seed

    args.check()
    check_corpus(args)
    check_run(args)
    if args.model:
        check_causal(str(args.model))
    else:
        small_llama(1, **args.new_model(), length=args.length)  # raises errors for wrong options
    tokenizer, own = load_tokenizers(args)
    held_out = {name: one.texts() for name, one in read_held_out(args.eval, text_field=args.text_field).items()}

    set_seed(args.seed)
    state = PartialState()
    tell = state.on_main_process(show)

    def make_new() -> LlamaForCausalLM:
        return LlamaForCausalLM(small_llama(embedding_rows(tokenizer), **args.new_model(), length=args.length))

    model, new_rows = fitted_model(args, AutoModelForCausalLM, make_new, tokenizer, own, tell)
    where = str(args.tokenizer or args.model_tokenizer or args.model)
    # From a stream, read only as many rows as the steps need.
    needed = args.steps * args.batch_size * state.num_processes
    text = read_rows(args, tokenizer, where, most=needed if args.streaming else None)
    if text.validation:
        held_out["validation"] = text.validation
    if args.keep:
        tell(f"{text.kept / len(text.rows):.1%} of the rows come from --keep")
    model.to(state.device)
    size = f"{len(text.rows):,} rows of {args.length} tokens from {text.texts:,} text{'s' * (text.texts != 1)}"
    tell(f"{model.num_parameters():,} parameters, {size}")
    settings = {**args.made_from(), "length": args.length, "text": text.digest}
    points = train(
        model,
        tokenizer,
        text.rows,
        collate,
        args,
        settings=settings,
        parts=args.parts,
        new_rows=new_rows,
        rows_learning_rate=args.rows_learning_rate,
        held_out=held_out,
        every=args.eval_every,
        show=tell,
    )
    changes = _changes(points)
    for name, (before, after) in changes.items():
        tell(f"{name}: {before:.4f} bits per byte before, {after:.4f} after")
    return changes if state.is_main_process else None


def _changes(points: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the bits per byte of each language at the first and at the last measurement."""
    if not points:  # nothing was measured, or the training was finished before
        return {}
    first, last = points[0]["languages"], points[-1]["languages"]
    return {name: (first[name]["bits_per_byte"], values["bits_per_byte"]) for name, values in last.items()}
