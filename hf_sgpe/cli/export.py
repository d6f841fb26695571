"""``export``: write tokenizers and models in other formats."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sgpe.cli.application import Json, command, named_numbers
from hf_sgpe.cli.tokenizer_options import overwrite_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.overwriting import check_new_file, check_new_folder
from hf_sgpe.formats.format_registry import FORMATS, Format, format_of
from hf_sgpe.terminal.options import argument, option, option_list
from hf_sgpe.terminal.printing import report

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The tokenizer or model, and the output format."""

    source: str = argument(
        "The tokenizer: a folder, a tokenizer.json, a Hub repository, or a file named "
        f"{', '.join(f'*{form.ending}' for form in FORMATS.values() if form.ending and form.read)}; "
        "with --format gguf, the folder of a model."
    )
    out: str = option("Folder or file to write.", ..., "-o")
    overwrite: bool = overwrite_option()
    output: str = option(
        "; ".join(f"{form.name}: {form.holds}" for form in FORMATS.values() if form.write) + ".", "folder", "--format"
    )
    pattern: str | None = option(
        "Split pattern of a .tiktoken file (default: cl100k) or of merges.txt, because these files do not store the "
        "pattern. For merges.txt, the pattern is not needed if the settings in the same folder name a known "
        "tokenizer class."
    )
    special_token: list[str] = option_list(
        "Special token of a .tiktoken file or a merges.txt, in the form TEXT=ID (repeatable). These files do not "
        "store special tokens."
    )
    ignore_merges: bool = option(
        "With merges.txt: if a whole word is a token, encode the word as this token without applying merges, as "
        "Llama 3 does.",
        False,
    )
    auto_class: bool = option(
        "With --format folder: also write a Python file that makes AutoTokenizer return the class of hf_sgpe if "
        "trust_remote_code=True is given.",
        False,
    )
    weight_type: str | None = option(
        "With --format gguf: type of the weights (default: the type in the model). It is one of F32, F16, BF16 and "
        "Q8_0, or with llama-cpp-python also Q6_K, Q5_K_M, Q4_K_M or Q4_0."
    )
    pre_tokenizer: str | None = option(
        "With --format gguf: the name that llama.cpp gives the pre-tokenizer (default: the pre-tokenizer that splits "
        "like this tokenizer, if llama.cpp has one). Use nearest if the model will be given only token ids."
    )
    tokenizer: str | None = option(
        "With --format gguf: the tokenizer (default: the tokenizer in the model's folder).", None, "-t"
    )


@command(epilog="Example: hf-sgpe export my-tokenizer --format tiktoken --out my.tiktoken")
def export(given: ExportOptions, as_json: Json = False) -> None:
    """Write a tokenizer in another format with the same ids, or write a model and its tokenizer as GGUF."""
    writer = FORMATS.get(given.output)
    if writer is None or writer.write is None:
        formats = ", ".join(name for name, form in FORMATS.items() if form.write)
        raise SGPEError(f"--format {given.output}: choose from {formats}")
    writes_model = "model" in writer.write_options
    if given.tokenizer and not writes_model:
        raise SGPEError(f"--tokenizer is for --format {_names('write_options', 'model')}")
    if writes_model and not Path(given.source).is_dir():
        raise SGPEError(f"{given.source} is not a folder: name the folder of a transformers model")
    tokenizer = given.tokenizer or given.source
    reader = format_of(tokenizer)
    special_tokens = named_numbers(given.special_token, "--special-token", "TEXT=ID", int) or None
    read_settings = {
        "pattern": given.pattern,
        "special_tokens": special_tokens,
        "ignore_merges": given.ignore_merges or None,
    }
    reading = _given(reader, "read_options", read_settings)
    model = Path(given.source) if writes_model else None
    auto_class = given.auto_class or None
    options = {
        "auto_class": auto_class,
        "weight_type": given.weight_type,
        "pre_tokenizer": given.pre_tokenizer,
        "model": model,
    }
    writing = _given(writer, "write_options", options)
    if reader.read is None:
        raise SGPEError(
            f"{tokenizer} is in the format {reader.name}, but export cannot read this format: name a tokenizer in "
            "another format"
        )
    target = Path(given.out).resolve()
    if writer.ending and target.exists() and not given.out.endswith(writer.ending):
        for one in (given.source, tokenizer):
            if Path(one).resolve() in (target, target.parent):
                raise SGPEError(f"--out {given.out} is part of {one}: choose another name")
    (check_new_file if writer.ending else check_new_folder)(given.out, overwrite=given.overwrite)
    loaded = reader.read(tokenizer, **reading)
    written = writer.write(loaded, Path(given.out), **writing)
    facts = {"out": given.out, "tokens": loaded.vocab_size, "special_tokens": loaded.special_tokens, **written.facts}
    if "pattern" in reader.read_options and "pattern" not in reading:
        pattern = loaded.splitting.pattern
        logger.warning(
            "%s has no split pattern, so %s is used: to use another pattern, name it with --pattern", tokenizer, pattern
        )
    report(f"{given.out}: {written.remark}", facts, as_json)


def _given(form: Format, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that have a value, all of which the format must list in its attribute ``kind``."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in getattr(form, kind):
            option = name.removesuffix("s") if name == "special_tokens" else name
            raise SGPEError(f"--{option.replace('_', '-')} is for {_names(kind, name)}, not for {form.name}")
    return given


def _names(kind: str, option: str) -> str:
    return ", ".join(form.name for form in FORMATS.values() if option in getattr(form, kind))
