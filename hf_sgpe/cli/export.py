"""Writing tokenizers and models in other forms: ``export``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_sgpe.cli.app import Json, Quiet, command, named_numbers, report
from hf_sgpe.errors import SGPEError


class Export(str, Enum):
    folder = "folder"
    tiktoken = "tiktoken"
    gguf = "gguf"


@command(epilog="Example: [bold]hf-sgpe export my-tokenizer --format tiktoken --out my.tiktoken[/bold]")
def export(
    source: Annotated[
        str,
        typer.Argument(
            help="A tokenizer (folder, tokenizer.json or Hub repository), a .tiktoken file or an SGPE vocab.json; "
            "for gguf the folder of a model.",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder or file to write.", show_default=False)],
    output: Annotated[
        Export,
        typer.Option(
            "--format",
            help="folder: what AutoTokenizer loads; tiktoken: a .tiktoken file; gguf: a model with its tokenizer for "
            "llama.cpp.",
        ),
    ] = Export.folder,
    pattern: Annotated[
        str | None, typer.Option(help="Split pattern of a .tiktoken file (default: cl100k).", show_default=False)
    ] = None,
    special_token: Annotated[
        list[str] | None,
        typer.Option(help="Special token of a .tiktoken file: TEXT=ID (repeatable).", show_default=False),
    ] = None,
    weight_type: Annotated[
        str | None,
        typer.Option(help="Of gguf: F32, F16, BF16 or Q8_0 (default: that of the weights).", show_default=False),
    ] = None,
    tokenizer_source: Annotated[
        str | None,
        typer.Option("--tokenizer", "-t", help="Of gguf: in place of the one in the model's folder.", show_default=False),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a tokenizer in another form, with the same ids, or a model with its tokenizer as GGUF."""
    from hf_sgpe.formats import sgpe_vocab, tiktoken
    from hf_sgpe.tokenizer import BPETokenizer

    if output is Export.gguf:
        if special_token or pattern:
            raise SGPEError("--special-token and --pattern are for .tiktoken files")
        report(*_export_gguf(Path(source), Path(out), weight_type, tokenizer_source), as_json)
        return
    if weight_type or tokenizer_source:
        raise SGPEError("--weight-type and --tokenizer are for --format gguf")
    if source.endswith(".tiktoken"):
        special_tokens = named_numbers(special_token or [], "--special-token", "TEXT=ID", int)
        tokenizer = tiktoken.read(source, pattern=pattern or "cl100k", special_tokens=special_tokens)
    elif special_token or pattern:
        raise SGPEError("--special-token and --pattern are for .tiktoken files: other forms hold their own")
    elif source.endswith(sgpe_vocab.VOCAB_FILE):
        tokenizer = sgpe_vocab.read(source).to_bpe()
    else:
        tokenizer = BPETokenizer.from_pretrained(source)
    facts = {"out": out, "tokens": tokenizer.vocab_size, "special_tokens": tokenizer.special_tokens}
    if output is Export.folder:
        tokenizer.save(out)
        report(f"{out}: {tokenizer.vocab_size:,} tokens", facts, as_json)
        return
    tiktoken.write(tokenizer, out)
    specials = " ".join(f"{token}={id}" for token, id in tokenizer.special_tokens.items()) or "none"
    normalization = "" if tokenizer.normalization == "none" else f", normalization ({tokenizer.normalization})"
    report(
        f"{out}: {len(tokenizer.vocab):,} tokens. "
        f"Not in the file: split pattern, special tokens ({specials}){normalization}",
        {**facts, "patterns": list(tokenizer.pre_tokenizer.patterns), "normalization": tokenizer.normalization},
        as_json,
    )


def _export_gguf(source: Path, out: Path, weight_type: str | None, tokenizer: str | None) -> tuple[str, dict[str, Any]]:
    """Writes a model as GGUF, and says so in a sentence and as facts."""
    from hf_sgpe.formats import gguf
    from hf_sgpe.tokenizer import BPETokenizer

    if not source.is_dir():
        raise SGPEError(f"{source}: no folder: give that of a model of transformers")
    loaded = BPETokenizer.from_pretrained(tokenizer or str(source))
    pre = gguf.write(source, out, weight_type, tokenizer=loaded)
    size = out.stat().st_size
    if pre is None:
        own = "llama.cpp has no pre-tokenizer that splits as this tokenizer does: give it ids, as hf-sgpe chat does"
    else:
        form = loaded.normalization.upper()
        only = "" if loaded.normalization == "none" else f" for text in the form {form} only, which it does not make itself"
        own = f"llama.cpp itself gives the same ids{only} (pre-tokenizer {pre})"
    facts = {"out": str(out), "bytes": size, "pre_tokenizer": pre, "normalization": loaded.normalization}
    return f"{out}: {size / 1e6:,.1f} MB. {own}", facts
