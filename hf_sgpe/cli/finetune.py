"""``finetune`` and ``finetune-seq2seq``: train a model with a tokenizer."""

from __future__ import annotations

from hf_sgpe.cli.application import Json, command
from hf_sgpe.learning.finetuning_options import Finetuning, PairFinetuning
from hf_sgpe.terminal.printing import report, steps_shown


@command(epilog="Example: hf-sgpe finetune si.txt --tokenizer my-tokenizer --eval held-out.txt --steps 500 --out my-model")
def finetune(given: Finetuning, as_json: Json = False) -> None:
    """Train a causal language model with a tokenizer: an existing model that is fitted to the tokenizer, or a new small
    Llama.

    The text comes from text files, .jsonl, .parquet, a dataset, or a folder that hf-sgpe tokenize wrote with the same
    tokenizer. Special tokens written in a text are encoded as special tokens. The ids of all texts are packed into rows
    without padding. Training uses a GPU if there is one, in bfloat16 if the GPU supports it. To use several GPUs, type
    accelerate launch -m hf_sgpe finetune. AutoModelForCausalLM and AutoTokenizer can load the output folder.
    """
    from trainers.finetuning import finetune as work

    with steps_shown(as_json) as show:
        changes = work(given, show=show)
    if changes is not None:
        bits = {name: {"before": before, "after": after} for name, (before, after) in changes.items()}
        report(given.written(), {"out": str(given.out), "bits_per_byte": bits}, as_json)


@command(
    "finetune-seq2seq",
    epilog="Example: hf-sgpe finetune-seq2seq si.txt en.txt --tokenizer my-tokenizer --steps 500 --out my-translator",
)
def finetune_seq2seq(given: PairFinetuning, as_json: Json = False) -> None:
    """Train an encoder–decoder model, such as a translation model, on pairs of texts: an existing model, or a new small T5.

    The pairs come from a .tsv file with two columns, a .jsonl file with the fields source and target, or two text files
    with aligned lines. All of these files may be compressed. The last pairs are held out. The command reports the loss on
    them, and shows the model's output for some. AutoModelForSeq2SeqLM and AutoTokenizer can load the output folder.
    """
    from trainers.finetuning_seq2seq import finetune_seq2seq as work

    with steps_shown(as_json) as show:
        loss = work(given, show=show)
    if loss is not None:
        report(given.written(), {"out": str(given.out), "loss": loss}, as_json)
