"""Writes the help of a command as plain text, in which options are whole at any width of the terminal.

Tables of the library cut names of options that are too long for their column, and name types that nobody types.
"""

from __future__ import annotations

import re
from typing import Any

_HYPHEN = "\u2011"  # one at which no line is broken
_TYPE = re.compile(r" <(?:list\[)?([\w|]+)\]?>")
_TYPES = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH"}
_OLDER_TYPE = re.compile(r" (?:INTEGER|FLOAT)\b")  # of Typer before 0.26


class PlainHelp:
    """The help of a command, or of a group of commands, of Typer."""

    def get_help(self, ctx: Any) -> str:
        """Return the help, as wide as the terminal of the context, and at most as its ``max_content_width``."""
        formatter = ctx.make_formatter()
        write_paragraph, write_rows = formatter.write_text, formatter.write_dl
        formatter.write_text = lambda text: write_paragraph(_unbroken(text))
        formatter.write_dl = lambda rows: write_rows([(_named(name), _unbroken(text)) for name, text in rows])
        ctx.command.format_help(ctx, formatter)
        written: str = formatter.getvalue()
        return written.replace(_HYPHEN, "-").rstrip()

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence, whole whatever the limit, for a list of commands."""
        short: str = super().get_short_help_str(limit=1000)  # type: ignore[misc]
        return short


def _unbroken(text: str) -> str:
    return text.replace("-", _HYPHEN)


def _named(name: str) -> str:
    """Return the names of an option or argument, and for an option what it takes.

    >>> _named("--script <list[str]>"), _named("--special <none|all>"), _named("tokenizer <str>")
    ('--script TEXT', '--special none|all', 'tokenizer')
    """
    if not name.startswith("-"):
        return _TYPE.sub("", name)
    name = _TYPE.sub(lambda match: " " + _TYPES.get(match[1].casefold(), match[1]), name)
    return _OLDER_TYPE.sub(" NUMBER", name)
