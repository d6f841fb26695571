"""Hooks for the MkDocs build. They append the help of all commands to the page about the command line."""

from __future__ import annotations

import html
import re
from typing import Any

import griffe

_EXAMPLES = re.compile(r"^Examples?: \[bold\].*$", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Append the help of all commands to cli.md, as Markdown that Typer generates."""
    if page.file.src_uri != "cli.md":
        return markdown
    import typer
    from typer.cli import get_docs_for_click

    from hf_sgpe.cli import app

    commands = typer.main.get_command(app)
    written = get_docs_for_click(obj=commands, ctx=typer.Context(commands), name="hf-sgpe", title="hf-sgpe")
    parts = re.split(r"^## ", written, flags=re.MULTILINE)[1:]
    return markdown + "\n".join(f"## {_EXAMPLES.sub(_as_code, part)}" for part in parts)


def _as_code(examples: re.Match[str]) -> str:
    lines = re.findall(r"\[bold\](.*?)\[/bold\]", html.unescape(examples[0]))
    return "\n".join(["```bash", *lines, "```"])


class Doctests(griffe.Extension):
    """An extension that turns the examples of docstrings into code blocks, because Markdown reads ``>>>`` as a quotation."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
