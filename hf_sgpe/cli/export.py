"""``export``: tokenizers and models in other forms."""

from __future__ import annotations

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


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What is written, and in which form."""

    source: str = argument(
        "A tokenizer: folder, tokenizer.json, Hub repository, or a file named "
        f"{', '.join(f'*{form.ending}' for form in FORMATS.values() if form.ending and form.read)}; "
        "for gguf the folder of a model."
    )
    out: str = option("Folder or file to write.", ..., "-o")
    overwrite: bool = overwrite_option()
    output: str = option(
        "; ".join(f"{form.name}: {form.holds}" for form in FORMATS.values() if form.write) + ".", "folder", "--format"
    )
    pattern: str | None = option("Split pattern of a .tiktoken file (default: cl100k) or of merges.txt.")
    special_token: list[str] = option_list("Special token of a .tiktoken file or of merges.txt: TEXT=ID (repeatable).")
    ignore_merges: bool = option("Of merges.txt: whole words that are tokens skip the merges (Llama 3).", False)
    weight_type: str | None = option(
        "Of gguf: F32, F16, BF16, Q8_0, or by llama-cpp-python Q6_K, Q5_K_M, Q4_K_M, Q4_0 (default: that of the weights)."
    )
    pre_tokenizer: str | None = option(
        "Of gguf: the name by which llama.cpp cuts text, or nearest for a file that is given ids (default: the name for "
        "this tokenizer's split, if llama.cpp has one)."
    )
    tokenizer: str | None = option("Of gguf: in place of the one in the model's folder.", None, "-t")


@command(epilog="Example: hf-sgpe export my-tokenizer --format tiktoken --out my.tiktoken")
def export(given: ExportOptions, as_json: Json = False) -> None:
    """Write a tokenizer in another form, with the same ids, or a model with its tokenizer as GGUF."""
    writer = FORMATS.get(given.output)
    if writer is None or writer.write is None:
        known = ", ".join(name for name, form in FORMATS.items() if form.write)
        raise SGPEError(f"--format {given.output}: known are {known}")
    writes_model = "model" in writer.write_options
    if given.tokenizer and not writes_model:
        raise SGPEError(f"--tokenizer is for --format {_names('write_options', 'model')}")
    if writes_model and not Path(given.source).is_dir():
        raise SGPEError(f"{given.source}: not a folder: give that of a model of transformers")
    tokenizer = given.tokenizer or given.source
    reader = format_of(tokenizer)
    special_tokens = named_numbers(given.special_token, "--special-token", "TEXT=ID", int) or None
    told = {"pattern": given.pattern, "special_tokens": special_tokens, "ignore_merges": given.ignore_merges or None}
    reading = _given(reader, "read_options", told)
    model = Path(given.source) if writes_model else None
    options = {"weight_type": given.weight_type, "pre_tokenizer": given.pre_tokenizer, "model": model}
    writing = _given(writer, "write_options", options)
    if reader.read is None:
        raise SGPEError(f"{tokenizer}: the format {reader.name} can only be written")
    target = Path(given.out).resolve()
    if writer.ending and target.exists() and not given.out.endswith(writer.ending):
        for one in (given.source, tokenizer):
            if Path(one).resolve() in (target, target.parent):
                raise SGPEError(f"--out {given.out} is part of {one}: give another name")
    (check_new_file if writer.ending else check_new_folder)(given.out, overwrite=given.overwrite)
    loaded = reader.read(tokenizer, **reading)
    written = writer.write(loaded, Path(given.out), **writing)
    facts = {"out": given.out, "tokens": loaded.vocab_size, "special_tokens": loaded.special_tokens, **written.facts}
    report(f"{given.out}: {written.remark}", facts, as_json)


def _given(form: Format, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given.

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
