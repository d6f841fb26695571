"""``train-sgpe``: train a tokenizer with the algorithm of the SGPE document."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.corpus_options import CORPUS_HELP, WORKERS_HELP
from hf_sgpe.cli.tokenizer_options import overwrite_option, text_field_option
from hf_sgpe.terminal.options import argument, option, option_list
from hf_sgpe.terminal.printing import report


@dataclass(frozen=True, kw_only=True)
class _TrainSGPEOptions:
    corpus: list[str] = argument(CORPUS_HELP)
    out: str = option("Folder to write to.", ..., "-o")
    overwrite: bool = overwrite_option()
    vocab_size: int = option("Target number of tokens in the vocabulary, including special tokens.", 100_000)
    prune_freq: int = option("Replace syllables that occur less often than this with [UNK].", 100)
    min_freq: int = option("Do not merge pairs that occur less often than this.", 2)
    checkpoint_every: int = option("Number of merges between checkpoints.", 20_000)
    resume: bool = option(
        "Continue from the last checkpoint in --out, if there is one. The text, --prune-freq, --min-freq and --script must "
        "be those of the earlier run. --vocab-size may be larger: the result is the same as without the earlier run.",
        False,
    )
    scripts: list[str] = option_list(
        "Script whose syllables are units, such as tamil (repeatable; default: sinhala).", "--script"
    )
    text_field: str = text_field_option()
    workers: int | None = option(WORKERS_HELP)
    verbose: bool = option("Log the first ten merges, and after that every thousandth merge.", False, "-v")


@command("train-sgpe", epilog="Example: hf-sgpe train-sgpe corpus.jsonl --out sgpe --vocab-size 32000 --prune-freq 20")
def train_sgpe(given: _TrainSGPEOptions, as_json: Json = False) -> None:
    """Train a tokenizer with the algorithm of the SGPE document. Write vocab.json, checkpoints and a lossless
    tokenizer.json.
    """
    from hf_sgpe.files.overwriting import check_new_folder
    from trainers import SGPETrainer
    from trainers.tokenizers.sgpe_trainer import checkpoints

    if given.verbose:
        logging.getLogger("trainers").setLevel(logging.INFO)
    if not checkpoints(Path(given.out)):  # With checkpoints, the trainer resumes, or refuses to start another run.
        check_new_folder(given.out, overwrite=given.overwrite)
    trainer = SGPETrainer(
        vocab_size=given.vocab_size,
        prune_freq=given.prune_freq,
        min_freq=given.min_freq,
        checkpoint_every=given.checkpoint_every,
        scripts=tuple(given.scripts or ("sinhala",)),
        workers=given.workers,
    )
    vocabulary = trainer.train(given.corpus, given.out, text_field=given.text_field, resume=given.resume)
    tokens, merges = len(vocabulary.vocab), len(vocabulary.merges)
    lossless = vocabulary.to_data().vocab_size
    report(
        f"{given.out}: {tokens:,} tokens, {merges:,} merges\n"
        f"tokenizer.json has {lossless - tokens:,} more, for text that vocab.json maps to [UNK]",
        {"out": given.out, "tokens": tokens, "merges": merges, "tokens_in_tokenizer_json": lossless},
        as_json,
    )
