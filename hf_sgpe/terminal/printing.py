"""What commands print when they are done: a sentence, a table, facts, or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hf_sgpe.terminal.progress import is_quiet


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def report(sentence: str, facts: Mapping[str, Any], as_json: bool, *, is_asked_for: bool = False) -> None:
    """Print what a command has done: in a sentence, with ``--json`` as JSON, and with ``--quiet`` alone not at all.

    Args:
        is_asked_for: It is what the command is for, and is printed with ``--quiet``, too.
    """
    if as_json:
        print_json(facts)
    elif is_asked_for or not is_quiet():
        print(sentence)


def print_facts(facts: Sequence[tuple[str, Any]]) -> None:
    """Print names and values in two columns. What is not text is written as JSON."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name:{width}}  {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int | None = None) -> None:
    """Print a table.

    Args:
        texts: The number of the first columns that hold text, by default all. The others hold numbers, to the right.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, title in enumerate(titles):
        table.add_column(title, justify="left" if texts is None or place < texts else "right")
    for row in rows:
        table.add_row(*row)
    # Into a pipe lines are written whole, whatever the width of the terminal.
    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False, markup=False)
    with console.capture() as captured:  # it would end the process when the reader closes the pipe
        console.print(table)
    print(captured.get(), end="")
