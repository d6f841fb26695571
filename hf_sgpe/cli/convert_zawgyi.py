"""``convert-zawgyi``: convert Burmese from Zawgyi to Unicode."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import overwrite_option
from hf_sgpe.terminal.options import argument, option
from hf_sgpe.terminal.printing import report


@dataclass(frozen=True, kw_only=True)
class _ConvertOptions:
    file: str = argument("Text or JSON Lines: .txt or .jsonl, also with .gz, .xz, .zst or .bz2.")
    out: str = option("File to write, in the same format.", ..., "-o")
    overwrite: bool = overwrite_option()
    text_field: str = option("Field of .jsonl that contains the text. Lines without this field stay unchanged.", "text")
    convert_all: bool = option("Convert every line with Burmese letters, whatever its encoding seems to be.", False, "--all")


@command("convert-zawgyi", epilog="Example: hf-sgpe convert-zawgyi my.txt.xz --out my-unicode.txt.xz")
def convert_zawgyi(given: _ConvertOptions, as_json: Json = False) -> None:
    """Convert Burmese from the Zawgyi encoding to Unicode, line by line. Other lines stay unchanged.

    If a line is valid in both encodings, it is read in the encoding of most other lines in the file, and a warning lists it.
    """
    from hf_sgpe.corpora.zawgyi_files import convert_zawgyi as convert
    from hf_sgpe.files.overwriting import check_new_file

    if Path(given.out).resolve() != Path(given.file).resolve():  # refused later, with or without --overwrite
        check_new_file(given.out, overwrite=given.overwrite)
    done = convert(given.file, given.out, text_field=given.text_field, convert_all=given.convert_all)
    report(
        f"{given.out}: {done.in_zawgyi:,} of {done.lines:,} lines were converted from Zawgyi"
        + (f"; {done.without_text:,} have no text in the field {given.text_field}" if done.without_text else ""),
        {"out": given.out, **asdict(done)},
        as_json,
    )
