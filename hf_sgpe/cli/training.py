"""Training tokenizers: ``train`` and ``train-sgpe``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_sgpe.cli.app import app, named_numbers, read_chat_template
from hf_sgpe.errors import SGPEError
from hf_sgpe.pretokenizers.abugidas import SCRIPTS
from hf_sgpe.pretokenizers.patterns import SPLIT_PATTERNS


@app.command(
    epilog="Example: [bold]hf-sgpe train corpora/si.txt.xz corpora/en.jsonl --out my-tokenizer --vocab-size 32000[/bold]"
)
def train(
    corpus: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders or globs: .txt, .jsonl, .parquet, plain or .gz .xz .zst .bz2.", show_default=False
        ),
    ] = None,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write the tokenizer to.", show_default=False)],
    vocab_size: Annotated[int, typer.Option(help="Number of tokens, special tokens included.")] = 32_000,
    recipe: Annotated[str, typer.Option(help="hybrid, sgpe or bpe.")] = "hybrid",
    script: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Script whose syllables stay whole: {', '.join(SCRIPTS)}, or all (repeatable; default: sinhala).",
            show_default=False,
        ),
    ] = None,
    pattern: Annotated[
        str, typer.Option(help=f"Split pattern for everything else: {', '.join(SPLIT_PATTERNS)}, or a regex.")
    ] = "o200k",
    min_frequency: Annotated[int, typer.Option(help="Never merge a pair that occurs less often.")] = 2,
    letter_coverage: Annotated[
        float | None, typer.Option(help="Share of running letters that get a token (default: 0.9999).", show_default=False)
    ] = None,
    syllable_coverage: Annotated[
        float | None, typer.Option(help="Share of running syllables that get a token (default: 0.999).", show_default=False)
    ] = None,
    min_unit_frequency: Annotated[
        int | None, typer.Option(help="Instead: letters and syllables that occur so often.", show_default=False)
    ] = None,
    tie_break: Annotated[
        str, typer.Option(help="smallest-pair-id, greatest-pair-bytes or greatest-pair-id.")
    ] = "smallest-pair-id",
    normalization: Annotated[
        str | None, typer.Option(help="nfc or none (default: nfc for hybrid, else none).", show_default=False)
    ] = None,
    special_token: Annotated[
        list[str] | None,
        typer.Option(
            help="Special token (repeatable; default: <|endoftext|>, or the five of SGPE for sgpe).", show_default=False
        ),
    ] = None,
    special_tokens_position: Annotated[
        str | None, typer.Option(help="end, start or after-bytes (default: end, or start for sgpe).", show_default=False)
    ] = None,
    chat_template: Annotated[
        str | None,
        typer.Option(
            help="llama3, chatml, alpaca or a .jinja file; the special tokens of a named one come along.", show_default=False
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            help="How much a file's words count: NAME-OR-GLOB=NUMBER (repeatable; the first that fits a file counts).",
            show_default=False,
        ),
    ] = None,
    text_field: Annotated[
        str,
        typer.Option(
            "--text-field", "--text-column", help="Field or column with the text in .jsonl, .parquet and the dataset."
        ),
    ] = "text",
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="Dataset on the Hub or in a folder, besides any corpus: NAME or NAME:CONFIG (repeatable).",
            show_default=False,
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of the dataset (default: train).", show_default=False)] = None,
    streaming: Annotated[
        bool, typer.Option("--streaming", help="Read the dataset while it is downloaded, and keep no copy.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Threads that count words; processes without native kernels (default: one a core).", show_default=False
        ),
    ] = None,
    save_counts: Annotated[
        Path | None,
        typer.Option(
            help="Also keep the counted words, weighted, in this file, even if training fails later.", show_default=False
        ),
    ] = None,
    from_counts: Annotated[
        list[Path] | None,
        typer.Option(help="Train on words counted before (repeatable; added up), besides any text.", show_default=False),
    ] = None,
) -> None:
    """Train a tokenizer on text and save it as a folder that plain AutoTokenizer loads."""
    from hf_sgpe.atomic import atomic_directory, check_file
    from hf_sgpe.formats.tokenizer_json import check_folder, write
    from trainers import TokenizerTrainer, TrainingConfig, WordCounts, find_files, read_dataset

    if not corpus and not from_counts and not dataset:
        raise SGPEError("nothing to train on: give text, a dataset, or words counted before by --from-counts")
    for option, is_given in {"--streaming": streaming, "--split": split is not None}.items():
        if is_given and not dataset:
            raise SGPEError(f"{option} is for a dataset: name one by --dataset")
    if weight and not corpus and not from_counts:
        raise SGPEError("--weight is for files: a dataset counts once")
    given: dict[str, Any] = {
        "letter_coverage": letter_coverage,
        "syllable_coverage": syllable_coverage,
        "scripts": script,
        "special_tokens": special_token,
    }
    config = TrainingConfig(
        vocab_size=vocab_size,
        recipe=recipe,
        pattern=pattern,
        min_frequency=min_frequency,
        min_unit_frequency=min_unit_frequency,
        tie_break=tie_break,
        normalization=normalization,
        special_tokens_position=special_tokens_position,
        chat_template=chat_template and read_chat_template(chat_template),
        weights=named_numbers(weight or [], "--weight", "NAME-OR-GLOB=NUMBER, for example 'si*=2.5'", float),
        **{name: value for name, value in given.items() if value is not None},
    )
    trainer = TokenizerTrainer(config, workers=workers)
    datasets = [
        read_dataset(name, split=split or "train", text_column=text_field, streaming=streaming) for name in dataset or ()
    ]
    # What cannot be written should be known before an hour of training, not after.
    check_folder(out, with_chat_template=chat_template is not None)
    if save_counts:
        if save_counts.resolve() == Path(out).resolve():
            raise SGPEError(f"--save-counts and --out both name {out}: give two names")
        check_file(save_counts)
        if save_counts.resolve() in [file.resolve() for file in find_files(corpus or ())]:
            raise SGPEError(f"--save-counts {save_counts} is part of the corpus: give another name")
    with atomic_directory(out) as folder:
        counts = WordCounts({}, config.counting())
        if corpus or from_counts:
            counts += trainer.count(files=corpus or (), counts=from_counts or (), text_field=text_field)
        for texts in datasets:
            counts += trainer.count(iterator=texts)
        if save_counts:
            counts.save(save_counts)
        tokenizer = trainer.learn(counts)
        write(tokenizer, folder)
    print(f"{out}: {tokenizer.vocab_size:,} tokens, learned from {counts.total():,.0f} words ({len(counts):,} distinct)")


@app.command(
    "train-sgpe",
    epilog="Example: [bold]hf-sgpe train-sgpe corpus.jsonl --out sgpe --vocab-size 32000 --prune-freq 20[/bold]",
)
def train_sgpe(
    corpus: Annotated[list[str], typer.Argument(help="As for train; the document's are .jsonl.", show_default=False)],
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write to.", show_default=False)],
    vocab_size: Annotated[int, typer.Option(help="Number of tokens to aim for, special tokens included.")] = 100_000,
    prune_freq: Annotated[int, typer.Option(help="Syllables that occur less often become \\[UNK].")] = 100,
    min_freq: Annotated[int, typer.Option(help="Never merge a pair that occurs less often.")] = 2,
    checkpoint_every: Annotated[int, typer.Option(help="Merges between checkpoints.")] = 20_000,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in --out, if there is one.")
    ] = False,
    script: Annotated[
        list[str] | None,
        typer.Option(help="Script (repeatable; default: sinhala, the document's).", show_default=False),
    ] = None,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
    workers: Annotated[int | None, typer.Option(help="As for train.", show_default=False)] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log the first ten merges and every thousandth.")] = False,
) -> None:
    """Train as the SGPE document does: vocab.json, checkpoints, and a lossless tokenizer.json of the same tokens."""
    from trainers import SGPETrainer

    if verbose:
        logging.getLogger("trainers").setLevel(logging.INFO)
    trainer = SGPETrainer(
        vocab_size=vocab_size,
        prune_freq=prune_freq,
        min_freq=min_freq,
        checkpoint_every=checkpoint_every,
        scripts=tuple(script or ("sinhala",)),
        workers=workers,
    )
    vocabulary = trainer.train(corpus, out, text_field=text_field, resume=resume)
    print(f"{out}: {len(vocabulary.vocab):,} tokens, {len(vocabulary.merges):,} merges")
    more = vocabulary.to_bpe().vocab_size - len(vocabulary.vocab)
    print(f"tokenizer.json has {more:,} more, for what vocab.json cannot spell")
