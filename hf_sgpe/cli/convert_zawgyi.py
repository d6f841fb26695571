"""Converting text: ``convert-zawgyi``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hf_sgpe.cli.application import Json, Quiet, command, report
from hf_sgpe.cli.shared_options import Overwrite


@command("convert-zawgyi", epilog="Example: hf-sgpe convert-zawgyi my.txt.xz --out my-unicode.txt.xz")
def convert_zawgyi(
    file: Annotated[
        str, typer.Argument(help="Text or JSON Lines: .txt, .jsonl, plain or .gz .xz .zst .bz2.", show_default=False)
    ],
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="File to write, of the same kind.", show_default=False)],
    overwrite: Overwrite = False,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl; lines without it stay.")] = "text",
    convert_all: Annotated[bool, typer.Option("--all", help="Convert every line with letters of Burmese.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Convert Burmese in Zawgyi to Unicode, line by line. Lines that are not in Zawgyi stay as they are.

    Where a line can be in either, most other lines of the file decide, and a warning names such lines.
    """
    from hf_sgpe.corpora.zawgyi_files import convert_zawgyi as convert
    from hf_sgpe.files.overwriting import check_new_file

    if Path(out).resolve() != Path(file).resolve():  # which is refused whatever is said
        check_new_file(out, overwrite=overwrite)
    done = convert(file, out, text_field=text_field, convert_all=convert_all)
    report(
        f"{out}: {done.in_zawgyi:,} of {done.lines:,} lines were converted from Zawgyi"
        + (f"; {done.without_text:,} have no text in the field {text_field}" if done.without_text else ""),
        {"out": out, **asdict(done)},
        as_json,
    )
