"""Writing tokenizers and models in other forms: ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hf_sgpe.cli.application import Json, Quiet, command, named_numbers, report
from hf_sgpe.cli.shared_options import Overwrite
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.overwriting import check_new_file, check_new_folder
from hf_sgpe.formats.format_registry import FORMATS, Format, format_of


@command(epilog="Example: hf-sgpe export my-tokenizer --format tiktoken --out my.tiktoken")
def export(
    source: Annotated[
        str,
        typer.Argument(
            help="A tokenizer: folder, tokenizer.json, Hub repository, or a file named "
            f"{', '.join(f'*{form.ending}' for form in FORMATS.values() if form.ending and form.read)}; "
            "for gguf the folder of a model.",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder or file to write.", show_default=False)],
    overwrite: Overwrite = False,
    output: Annotated[
        str,
        typer.Option(
            "--format", help="; ".join(f"{form.name}: {form.holds}" for form in FORMATS.values() if form.write) + "."
        ),
    ] = "folder",
    pattern: Annotated[
        str | None, typer.Option(help="Split pattern of a .tiktoken file (default: cl100k).", show_default=False)
    ] = None,
    special_token: Annotated[
        list[str] | None,
        typer.Option(help="Special token of a .tiktoken file: TEXT=ID (repeatable).", show_default=False),
    ] = None,
    weight_type: Annotated[
        str | None,
        typer.Option(
            help="Of gguf: F32, F16, BF16, Q8_0, or by llama-cpp-python Q6_K, Q5_K_M, Q4_K_M, Q4_0 "
            "(default: that of the weights).",
            show_default=False,
        ),
    ] = None,
    pre_tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Of gguf: the name by which llama.cpp cuts text, or nearest for a file that is given ids "
            "(default: the name for this tokenizer's split, if llama.cpp has one).",
            show_default=False,
        ),
    ] = None,
    tokenizer_source: Annotated[
        str | None,
        typer.Option("--tokenizer", "-t", help="Of gguf: in place of the one in the model's folder.", show_default=False),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a tokenizer in another form, with the same ids, or a model with its tokenizer as GGUF."""
    writer = FORMATS.get(output)
    if writer is None or writer.write is None:
        known = ", ".join(name for name, form in FORMATS.items() if form.write)
        raise SGPEError(f"--format {output}: known are {known}")
    writes_model = "model" in writer.write_options
    if tokenizer_source and not writes_model:
        raise SGPEError(f"--tokenizer is for --format {_names('write_options', 'model')}")
    if writes_model and not Path(source).is_dir():
        raise SGPEError(f"{source}: not a folder: give that of a model of transformers")
    tokenizer_source = tokenizer_source or source
    reader = format_of(tokenizer_source)
    special_tokens = named_numbers(special_token, "--special-token", "TEXT=ID", int) if special_token else None
    reading = _given(reader, "read_options", {"pattern": pattern, "special_tokens": special_tokens})
    model = Path(source) if writes_model else None
    options = {"weight_type": weight_type, "pre_tokenizer": pre_tokenizer, "model": model}
    writing = _given(writer, "write_options", options)
    if reader.read is None:
        raise SGPEError(f"{tokenizer_source}: the format {reader.name} can only be written")
    target = Path(out).resolve()
    if writer.ending and target.exists() and not out.endswith(writer.ending):
        for given in (source, tokenizer_source):
            if Path(given).resolve() in (target, target.parent):
                raise SGPEError(f"--out {out} is part of {given}: give another name")
    (check_new_file if writer.ending else check_new_folder)(out, overwrite=overwrite)
    tokenizer = reader.read(tokenizer_source, **reading)
    written = writer.write(tokenizer, Path(out), **writing)
    facts = {"out": out, "tokens": tokenizer.vocab_size, "special_tokens": tokenizer.special_tokens, **written.facts}
    report(f"{out}: {written.remark}", facts, as_json)


def _given(form: Format, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given.

    Raises:
        SGPEError: the format does not have one of them.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in getattr(form, kind):
            option = name.removesuffix("s") if name == "special_tokens" else name
            raise SGPEError(f"--{option.replace('_', '-')} is for {_names(kind, name)}, not for {form.name}")
    return given


def _names(kind: str, option: str) -> str:
    return ", ".join(form.name for form in FORMATS.values() if option in getattr(form, kind))
