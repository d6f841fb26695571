"""Output of command results as a sentence, a table, facts or JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO
from typing import Any

from hf_sgpe.terminal.progress import is_quiet

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters without line ends and tabs, and characters that change the direction of the text after them."""


def visible(text: str) -> str:
    r"""Return text whose control characters are written as in JSON, because a file's name or a token could otherwise change
    the terminal. Line ends and tabs stay.

    >>> visible("a\x1b[31m \u202eb")
    'a\\u001b[31m \\u202eb'
    """
    return CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def print_json(value: Any) -> None:
    print(visible(json.dumps(value, ensure_ascii=False, indent=2)))


def report(sentence: str, facts: Mapping[str, Any], as_json: bool, *, is_asked_for: bool = False) -> None:
    """Print the result of a command: with ``--json``, the facts, and otherwise the sentence. With ``--quiet``, it is not
    printed, unless it is the purpose of the command (``is_asked_for``).
    """
    if as_json:
        print_json(facts)
    elif is_asked_for or not is_quiet():
        print(visible(sentence))


def print_facts(facts: Sequence[tuple[str, Any]]) -> None:
    """Print names and values in two columns. Values that are not strings are written as JSON."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name:{width}}  {visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))}")


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int | None = None) -> None:
    """Print a table. The first ``texts`` columns, or all, contain text. The others contain numbers, aligned right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, title in enumerate(titles):
        table.add_column(title, justify="left" if texts is None or place < texts else "right")
    for row in rows:
        table.add_row(*map(visible, row))
    # Lines in a pipe are not wrapped.
    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False, markup=False)
    with console.capture() as captured:  # rich would end the process if the pipe closed
        console.print(table)
    print(captured.get(), end="")


@contextmanager
def steps_shown(as_json: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a line about a step at once. With ``--json`` or ``--quiet``, nothing in the block, such
    as transformers' Trainer, prints to stdout.
    """
    is_silent = as_json or is_quiet()
    with redirect_stdout(StringIO()) if is_silent else nullcontext():
        yield lambda line: None if is_silent else print(line, flush=True)
