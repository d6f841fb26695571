"""``counts add`` and ``counts info``: files of word counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from hf_sgpe.cli.application import Group, Json, app, command
from hf_sgpe.cli.tokenizer_options import overwrite_option
from hf_sgpe.terminal.options import argument, option
from hf_sgpe.terminal.printing import print_facts, print_json, report

_COUNTS = typer.Typer(
    cls=Group,
    help="Add up or describe files of word counts from hf-sgpe count.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(_COUNTS, name="counts")


@dataclass(frozen=True, kw_only=True)
class _AddOptions:
    files: list[Path] = argument("Files of word counts.")
    out: Path = option("File to write the sum to.", ..., "-o")
    overwrite: bool = overwrite_option()
    min_count: int = option(
        "Leave out words that occur less often than this in all files together, and print how merges can change as a "
        "result.",
        1,
    )


@command(group=_COUNTS, epilog="Example: hf-sgpe counts add monday.parquet tuesday.parquet --out both.parquet")
def add(given: _AddOptions, as_json: Json = False) -> None:
    """Add up files of word counts into one file, using little memory. All files must have been counted with the same
    settings.
    """
    from hf_sgpe.files.overwriting import check_new_file
    from trainers import add_files

    check_new_file(given.out, overwrite=given.overwrite)
    added = add_files(given.files, given.out, min_count=given.min_count)
    report(f"{given.out}: {added.summary()}", {"out": str(given.out), **added.to_dict()}, as_json)


@dataclass(frozen=True, kw_only=True)
class _CountsInfoOptions:
    file: Path = argument("File of word counts.")


@command(group=_COUNTS, epilog="Example: hf-sgpe counts info si.parquet")
def info(given: _CountsInfoOptions, as_json: Json = False) -> None:
    """Describe a file of word counts: its words and sources, and how text was split into words."""
    from hf_sgpe.counts.count_files import read_info

    contents = read_info(given.file)
    if as_json:
        print_json(contents.to_dict())
        return
    cut = {name.replace("_", " "): value for name, value in contents.splitting.to_dict().items() if name != "patterns"}
    facts = [
        ("file", str(given.file)),
        ("words", f"{contents.total:,} ({contents.distinct:,} distinct)"),
        ("SHA-256", contents.digest),
        *cut.items(),
        ("versions", contents.versions),
        *([("dropped", contents.loss())] if contents.dropped else []),
    ]
    sources = [
        ("" if number else "sources", ", ".join(map(str, one.values()))) for number, one in enumerate(contents.sources)
    ]
    print_facts([*facts, *sources])
