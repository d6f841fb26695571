"""The environments without this package, which scripts/ecosystems.sh sets up, and questions to their processes."""

import atexit
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from support.paths import ROOT

TRANSFORMERS_4 = str(ROOT / ".venv-transformers4" / "bin" / "python")
TOKENIZERS_1 = ROOT / ".venv-tokenizers1"
FINETUNING = ROOT / ".venv-finetuning"
RUNNING = ROOT / ".venv-running"
TRAINING_SETTINGS = ROOT / ".venv-training-settings"
NODE = ROOT / ".node"
LM_EVAL = str(ROOT / ".venv-lm-eval" / "bin" / "python")
CLIENTS = ROOT / ".venv-clients" / "bin" / "python"


def _needs(path: Path, what: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not path.exists(), reason=f"no {what} ({path}): bash scripts/ecosystems.sh sets it up")


needs_transformers_4 = _needs(Path(TRANSFORMERS_4).parents[1] / "installed", "transformers 4")
needs_tokenizers_1 = _needs(TOKENIZERS_1 / "tokenizers", "tokenizers 1.0")
needs_finetuning = _needs(FINETUNING / "trl", "PEFT and TRL")
needs_running = _needs(RUNNING / "fastapi", "xgrammar and FastAPI")
needs_training_settings = _needs(TRAINING_SETTINGS / "omegaconf", "axolotl and LLaMA-Factory")
needs_node = pytest.mark.skipif(
    not (NODE / "installed").exists() or shutil.which("node") is None,
    reason=f"no transformers.js in {NODE}, or no node: bash scripts/ecosystems.sh sets it up",
)
needs_lm_eval = _needs(Path(LM_EVAL).parents[1] / "installed", "lm_eval")
needs_clients = _needs(CLIENTS.parents[1] / "installed", "clients of OpenAI's API")
every_transformers = pytest.mark.parametrize(
    "python",
    [
        pytest.param(sys.executable, id="transformers-5"),
        pytest.param(TRANSFORMERS_4, id="transformers-4", marks=needs_transformers_4),
    ],
)


def ask(python: str, *questions: dict[str, Any]) -> list[Any]:
    return _stranger(python, str(Path(__file__).with_name("stranger.py")), cwd=ROOT).ask(questions)


def ask_node(*questions: dict[str, Any]) -> list[Any]:
    return _stranger("node", str(ROOT / "tests" / "ecosystems" / "transformers_js.mjs"), cwd=NODE).ask(questions)


class _Stranger:
    """A process that answers line by line, because its start takes longer than most answers."""

    def __init__(self, *command: str, cwd: Path) -> None:
        self._errors = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - as long as the process
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        self._process = subprocess.Popen(command, cwd=cwd, encoding="utf-8", **pipes)
        atexit.register(self._process.communicate)  # closes its input, at which it ends

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def ask(self, questions: tuple[dict[str, Any], ...]) -> list[Any]:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(questions, default=str) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BaseException:  # such as the end of a test's time: the next one would get this answer
            self._process.kill()
            raise
        said = json.loads(line) if line else {"error": self._last_words()}
        assert "error" not in said, said["error"]
        answers: list[Any] = said["answers"]
        return answers

    def _last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        return self._errors.read()


_strangers: dict[tuple[str, ...], _Stranger] = {}


def _stranger(*command: str, cwd: Path) -> _Stranger:
    if command not in _strangers or not _strangers[command].runs:
        _strangers[command] = _Stranger(*command, cwd=cwd)
    return _strangers[command]
