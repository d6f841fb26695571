"""The environments of people without this package, which scripts/ecosystems.sh sets up, and questions to them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRANSFORMERS_4 = str(ROOT / ".venv-transformers4" / "bin" / "python")
TOKENIZERS_1 = ROOT / ".venv-tokenizers1"
NODE = ROOT / ".node"

needs_transformers_4 = pytest.mark.skipif(
    not (Path(TRANSFORMERS_4).parents[1] / "installed").exists(),
    reason=f"no transformers 4 at {TRANSFORMERS_4}: bash scripts/ecosystems.sh sets it up",
)
needs_tokenizers_1 = pytest.mark.skipif(
    not (TOKENIZERS_1 / "tokenizers").exists(),
    reason=f"no tokenizers 1.0 in {TOKENIZERS_1}: bash scripts/ecosystems.sh sets it up",
)
needs_node = pytest.mark.skipif(
    not (NODE / "installed").exists() or shutil.which("node") is None,
    reason=f"no transformers.js in {NODE}, or no node: bash scripts/ecosystems.sh sets it up",
)
every_transformers = pytest.mark.parametrize(
    "python",
    [
        pytest.param(sys.executable, id="transformers-5"),
        pytest.param(TRANSFORMERS_4, id="transformers-4", marks=needs_transformers_4),
    ],
)


def ask(python: str, *questions: dict[str, Any]) -> list[Any]:
    """The answers of support/stranger.py in an environment, as if this package were not in it."""
    return _ask([python, str(Path(__file__).with_name("stranger.py"))], questions)


def ask_node(*questions: dict[str, Any]) -> list[Any]:
    """The answers of transformers.js."""
    return _ask(["node", str(ROOT / "tests" / "ecosystems" / "transformers_js.mjs")], questions, cwd=NODE)


def _ask(command: list[str], questions: tuple[dict[str, Any], ...], **options: Any) -> list[Any]:
    with TemporaryDirectory() as modules:
        environment = {**os.environ, "HF_MODULES_CACHE": modules}  # where transformers puts remote code
        text = json.dumps(questions, default=str)
        done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", env=environment, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
