"""All commands of ``hf-sgpe``."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from hf_sgpe.cli import app


def _commands(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield names, command
    for name, one in getattr(command, "commands", {}).items():
        yield from _commands(one, (*names, name))


COMMANDS = dict(_commands(get_command(app)))
"""Each command and group, keyed by its names: ``("counts", "add")``; the key of ``hf-sgpe`` itself is empty."""
