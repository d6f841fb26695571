"""Recreate the tables and charts of a benchmark from its records.

Example: python benchmarks/reporting.py docs/measured/growth.jsonl --out docs
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from harness import ROOT, command, read_records

from hf_sgpe import SGPEError
from hf_sgpe.files.atomic import write_text


def _run(args: Namespace) -> None:
    records = read_records(args.records)
    if not records:
        raise SGPEError(f"{args.records} has no records: give a file that a benchmark wrote")
    results = {record["about"]: record["result"] for record in records}
    import_module(records[0]["question"]).report(results, args.out or args.records.parent)


# ---------------------------------------------------------------- tables


def table(heading: Sequence[str], rows: Iterable[Sequence[str]], align: str = "l") -> str:
    """Return a table in Markdown, without a line end.

    Args:
        align: One letter, l or r, for each column from the left. Columns without a letter are aligned to the right.
    """
    rule = "".join("---|" if side == "l" else "---:|" for side in align.ljust(len(heading), "r"))
    first, *lines = (f"|{''.join(f' {cell} |' if cell else ' |' for cell in row)}" for row in (heading, *rows))
    return "\n".join((first, f"|{rule}", *lines))


def signed(share: float, digits: int = 1) -> str:
    return f"{100 * share:+.{digits}f} %".replace("-", "−")


def in_words(difference: str) -> str:
    """Convert a relative difference from the format of `signed` to words.

    >>> in_words(signed(-0.0112))
    '1.1 % fewer'
    """
    return f"{difference[1:]} {'more' if difference.startswith('+') else 'fewer'}"


def bold(texts: Iterable[str]) -> list[str]:
    return [f"**{text}**" for text in texts]


def write_pages(tables: Mapping[str, tuple[str, Callable[[Any], str]]], results: Any, root: Path = ROOT) -> None:
    """Write each table into its page, between the comments ``<!-- measured: NAME -->`` and ``<!-- end -->``.

    Args:
        tables: The page (relative to ``root``) and the function that makes the table from ``results``, keyed by table.
    """
    for name, (page, write) in tables.items():
        path = root / page
        first, last = f"<!-- measured: {name} -->\n", "\n<!-- end -->"
        before, opening, rest = path.read_text(encoding="utf-8").partition(first)
        _, closing, after = rest.partition(last)
        if not (opening and closing):
            raise SGPEError(
                f"{path} has no place for the table {name}: write <!-- measured: {name} --> and <!-- end --> where the "
                "table belongs"
            )
        write_text(path, f"{before}{first}\n{write(results)}\n{last}{after}")
    for page in dict.fromkeys(page for page, _ in tables.values()):
        print(f"{page}: tables written")


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("records", type=Path, help="JSON Lines file of results that a benchmark wrote")
        option("--out", type=Path, help="folder to write to (default: the folder of the records)")
