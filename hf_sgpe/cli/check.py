"""Where a tokenizer runs: ``check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hf_sgpe.cli.application import TOKENIZER_HELP, Json, Quiet, command, print_json, print_table
from hf_sgpe.errors import SGPEError

if TYPE_CHECKING:
    from hf_sgpe.evaluation.runtimes import RuntimeCheck


@command(epilog="Example: hf-sgpe check my-tokenizer held-out.txt")
def check(
    tokenizer: Annotated[str, typer.Argument(help=TOKENIZER_HELP, show_default=False)],
    text: Annotated[
        list[str] | None,
        typer.Argument(help="Files to try it on, line by line (default: some lines of all scripts).", show_default=False),
    ] = None,
    *,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show which runtimes give a tokenizer's ids: tried on text where they are installed, else by what is known of them."""
    from hf_sgpe.corpora.text_files import read_lines
    from hf_sgpe.evaluation.runtimes import check_runtimes
    from hf_sgpe.tokenizer import BPETokenizer
    from trainers import find_files

    loaded = BPETokenizer.from_pretrained(tokenizer)
    lines = [line for file in find_files(text) for line in read_lines(file, text_field=text_field)] if text else None
    if lines is not None and not any(map(str.strip, lines)):
        raise SGPEError(f"{', '.join(text or ())}: no text to try it on")
    checks = list(check_runtimes(loaded, lines))
    if as_json:
        print_json([one.to_dict() for one in checks])
        return
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False)
    for title in ("runtime", "version", "the same ids", "lines"):
        table.add_column(title)
    for one in checks:
        table.add_row(one.name, one.version or "–", str(one.verdict), _lines(one))
    print_table(table)


def _lines(one: RuntimeCheck) -> str:
    return "–" if one.version is None else f"{one.same:,} of {one.lines:,}"
