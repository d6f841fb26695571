"""The commands that a quickstart prints at its end."""

import re
import shlex
import shutil
from pathlib import Path

from support.command import hf_sgpe


def next_steps(printed: str) -> list[str]:
    return re.findall(r"^  [^:]+: +(.+)$", printed.partition("What to type next")[2], re.MULTILINE)


def typed(command: str, folder: Path) -> str:
    """Run ``hf-sgpe …`` or ``echo … | hf-sgpe …`` in a folder, and return its output."""
    echo, _, command = command.rpartition(" | ")
    program, *words = shlex.split(command)
    assert Path(program).name == "hf-sgpe" and (shutil.which(program) or (folder / program).exists())
    return hf_sgpe(*words, cwd=folder, stdin=" ".join(shlex.split(echo)[1:]) + "\n").stdout
