"""Plain-text help for commands. Option names are never shortened, whatever the width of the terminal.

Typer's own tables would shorten long option names and show Python types.
"""

from __future__ import annotations

import re
from typing import Any

_HYPHEN = "\u2011"  # non-breaking
_TYPE = re.compile(r" <(?:list\[)?([\w|]+)\]?>")
_TYPES = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH"}
_OLDER_TYPE = re.compile(r" (?:INTEGER|FLOAT)\b")  # Typer before 0.26


class PlainHelp:
    """A mixin for Typer commands and groups that formats their help."""

    def get_help(self, ctx: Any) -> str:
        """Return the help, wrapped at the width of the terminal or at ``max_content_width``, whichever is smaller."""
        formatter = ctx.make_formatter()
        write_paragraph, write_rows = formatter.write_text, formatter.write_dl
        formatter.write_text = lambda text: write_paragraph(_unbroken(text))
        formatter.write_dl = lambda rows: write_rows([(_named(name), _unbroken(text)) for name, text in rows])
        ctx.command.format_help(ctx, formatter)
        written: str = formatter.getvalue()
        return written.replace(_HYPHEN, "-").rstrip()

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole first sentence of the help, for the list of commands. The limit is ignored."""
        short: str = super().get_short_help_str(limit=1000)  # type: ignore[misc]
        return short


def _unbroken(text: str) -> str:
    return text.replace("-", _HYPHEN)


def _named(name: str) -> str:
    """Return the names of an option or argument as the help shows them. Instead of Typer's type of a value, the help shows a
    placeholder such as TEXT.

    >>> _named("--script <list[str]>"), _named("--special <none|all>"), _named("tokenizer <str>")
    ('--script TEXT', '--special none|all', 'tokenizer')
    """
    if not name.startswith("-"):
        return _TYPE.sub("", name)
    name = _TYPE.sub(lambda match: " " + _TYPES.get(match[1].casefold(), match[1]), name)
    return _OLDER_TYPE.sub(" NUMBER", name)
