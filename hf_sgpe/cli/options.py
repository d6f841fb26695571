"""Options that several commands have: what is counted, and how it is cut into words."""

from __future__ import annotations

from typing import Annotated

import typer

from hf_sgpe.errors import SGPEError
from hf_sgpe.pretokenizers.abugidas import SCRIPTS
from hf_sgpe.pretokenizers.patterns import SPLIT_PATTERNS

Corpus = Annotated[
    list[str] | None,
    typer.Argument(help="Files, folders or globs: .txt, .jsonl, .parquet, plain or .gz .xz .zst .bz2.", show_default=False),
]
TextField = Annotated[
    str,
    typer.Option("--text-field", "--text-column", help="Field or column with the text in .jsonl, .parquet and the dataset."),
]
Dataset = Annotated[
    list[str] | None,
    typer.Option(
        help="Dataset on the Hub or in a folder, besides any corpus: NAME or NAME:CONFIG (repeatable).", show_default=False
    ),
]
Split = Annotated[str | None, typer.Option(help="Split of the dataset (default: train).", show_default=False)]
Streaming = Annotated[bool, typer.Option("--streaming", help="Read the dataset while it is downloaded, and keep no copy.")]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Threads that count words; processes without native kernels (default: one a core).", show_default=False
    ),
]

Recipe = Annotated[str, typer.Option(help="hybrid, sgpe or bpe.")]
Script = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Script whose syllables stay whole: {', '.join(SCRIPTS)}, or all (repeatable; default: sinhala).",
        show_default=False,
    ),
]
Pattern = Annotated[str, typer.Option(help=f"Split pattern for everything else: {', '.join(SPLIT_PATTERNS)}, or a regex.")]
Normalization = Annotated[
    str | None, typer.Option(help="nfc or none (default: nfc for hybrid, else none).", show_default=False)
]
SpecialToken = Annotated[
    list[str] | None,
    typer.Option(
        help="Special token (repeatable; default: <|endoftext|>, or the five of SGPE for sgpe).", show_default=False
    ),
]
ChatTemplate = Annotated[
    str | None,
    typer.Option(
        help="llama3, chatml, alpaca or a .jinja file; the special tokens of a named one come along.", show_default=False
    ),
]


def check_dataset(dataset: list[str] | None, split: str | None, streaming: bool) -> None:
    """Makes sure that what is said of a dataset is said of one.

    Raises:
        SGPEError: there is none.
    """
    for option, is_given in {"--streaming": streaming, "--split": split is not None}.items():
        if is_given and not dataset:
            raise SGPEError(f"{option} is for a dataset: name one by --dataset")
