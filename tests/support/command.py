"""The command line as a user runs it."""

from __future__ import annotations

import subprocess
import sys


def hf_sgpe(*arguments, cwd, code=0):
    """Runs ``hf-sgpe`` in a folder, which ends with an exit code."""
    command = [sys.executable, "-m", "hf_sgpe", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == code, done.stderr
    return done
