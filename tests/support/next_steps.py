"""The commands that a quickstart ends with."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from support.command import hf_sgpe


def next_steps(printed: str) -> list[str]:
    """Return the commands that are printed as what to type next."""
    return re.findall(r"^  [^:]+: +(.+)$", printed.partition("What to type next")[2], re.MULTILINE)


def typed(command: str, folder: Path) -> str:
    """Return what ``hf-sgpe …``, or ``echo … | hf-sgpe …``, prints in a folder."""
    echo, _, command = command.rpartition(" | ")
    program, *words = shlex.split(command)
    assert Path(program).name == "hf-sgpe" and (shutil.which(program) or (folder / program).exists())
    return hf_sgpe(*words, cwd=folder, stdin=" ".join(shlex.split(echo)[1:]) + "\n").stdout
