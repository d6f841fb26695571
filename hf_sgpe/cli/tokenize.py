"""Turning text into files of token ids, to train models on: ``tokenize``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hf_sgpe.cli import shared_options
from hf_sgpe.cli.application import TOKENIZER_HELP, Json, Quiet, command, report
from hf_sgpe.errors import SGPEError

if TYPE_CHECKING:
    from trainers.token_files.tokenizing import Tokenized

# The records are in `trainers.token_files.layouts`, which only this command imports. A test compares them.
_FORMATS = (
    "nanogpt: ids alone, for numpy.memmap, as nanoGPT reads them; megatron: IndexedDataset of Megatron-LM; "
    "datatrove: DatatroveFileDataset, as nanotron reads it; parquet: a row a document, for datasets."
)


@command(epilog="Example: hf-sgpe tokenize corpora/si.jsonl.xz --tokenizer my-tokenizer --out tokens")
def tokenize(
    corpus: shared_options.Corpus = None,
    *,
    tokenizer: Annotated[str, typer.Option("--tokenizer", "-t", help=TOKENIZER_HELP, show_default=False)],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write: shards, and manifest.json.", show_default=False)],
    form: Annotated[str, typer.Option("--format", help=_FORMATS)] = "nanogpt",
    end_token: Annotated[
        str | None,
        typer.Option(help="Special token that ends each document (default: the tokenizer's eos token).", show_default=False),
    ] = None,
    no_end_token: Annotated[
        bool, typer.Option("--no-end-token", help="End documents by no token, where the format keeps their ends.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line of a text file is a document, and not the whole file.")
    ] = False,
    text_field: Annotated[
        str, typer.Option("--text-field", "--text-column", help="Field or column with the text in .jsonl and .parquet.")
    ] = "text",
    shard_tokens: Annotated[
        int, typer.Option(help="After so many tokens a shard ends with the next document.")
    ] = 100_000_000,
    workers: Annotated[int | None, typer.Option(help="Cores to use (default: all).", show_default=False)] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn a corpus into token ids on disk, with all cores and in bounded memory, to train a model on.

    A text file is one document, like each line of .jsonl and each row of .parquet. Their ids are those of encode: special
    tokens written in the text are ordinary text. Interrupted and started again with the same options, it goes on, and the
    result is the same, with any number of workers.
    """
    from trainers import tokenize_corpus

    if not corpus:
        raise SGPEError("nothing to tokenize: give text")
    if end_token is not None and no_end_token:
        raise SGPEError("--end-token and --no-end-token: give one of them")
    if shard_tokens < 1:
        raise SGPEError(f"--shard-tokens must be at least 1, not {shard_tokens}")
    done = tokenize_corpus(
        corpus,
        tokenizer,
        out,
        format=form,
        end_token=(not no_end_token) if end_token is None else end_token,
        lines=lines,
        text_field=text_field,
        shard_tokens=shard_tokens,
        workers=workers,
    )
    report(_sentence(done), {**asdict(done), "out": out}, as_json)


def _sentence(done: Tokenized) -> str:
    def several(count: int, thing: str) -> str:
        return f"{count:,} {thing}{'s' * (count != 1)}"

    speed = f"{done.new_text_bytes / 1e6 / done.seconds:,.1f} MB/s" if done.new_text_bytes else "all was there already"
    return (
        f"{done.out}: {several(done.documents, 'document')}, {several(done.tokens, 'token')} as {done.dtype} in "
        f"{several(done.shards, 'shard')} ({done.format}), "
        f"{done.text_bytes / max(done.tokens, 1):.2f} bytes a token, {speed}"
    )
