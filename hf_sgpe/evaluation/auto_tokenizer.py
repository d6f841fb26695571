"""Trials of ``AutoTokenizer`` on a saved tokenizer. Some classes of transformers 5, such as GPT2Tokenizer, replace the split
pattern or the normalizer of a ``tokenizer.json``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import optional_json
from hf_sgpe.formats.gpt2_files import ADDED_FILE, MERGES_FILE, ROLES_FILE, VOCAB_FILE
from hf_sgpe.formats.loading import find
from hf_sgpe.formats.sentencepiece_model import MODEL_FILE as SENTENCEPIECE_FILE
from hf_sgpe.formats.tokenizer_classes import MODEL_FILE
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE
from hf_sgpe.formats.tokenizer_json import TOKENIZER_FILE

GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes of transformers that take everything from ``tokenizer.json``."""

_SECONDS = 120
"""Time in which ``AutoTokenizer`` must load a folder."""

# The program does not import this package, because this package registers a class with AutoTokenizer. It hides torch, whose
# import takes seconds and which tokenizers do not need.
_PROGRAM = """
import json, sys
sys.modules["torch"] = None
from transformers import AutoTokenizer
folder, texts = json.load(sys.stdin)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
print(json.dumps([type(tokenizer).__name__, ids]))
"""


class _Reading(NamedTuple):
    """The name of the class that ``AutoTokenizer`` chose, and the token ids of each text."""

    class_name: str
    ids: list[list[int]]

    @property
    def cause(self) -> str:
        """A phrase that tells why the ids may differ from those of ``tokenizer.json``."""
        if self.class_name in GENERIC:
            return "AutoTokenizer reads this folder differently"
        return f"AutoTokenizer builds the tokenizer from its class {self.class_name}, not from {TOKENIZER_FILE}"


def read_with_auto_tokenizer(folder: Path, texts: Sequence[str]) -> _Reading:
    """Encode texts with the tokenizer that ``AutoTokenizer`` loads from a folder, in a process without this package.

    Raises:
        SGPEError: ``AutoTokenizer`` cannot load the folder. The message is the first line of its error. Or it takes more
            than two minutes, and ten more seconds for each million characters.
    """
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONIOENCODING": "utf-8"}
    limit = _SECONDS + sum(map(len, texts)) / 100_000
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=json.dumps([str(folder), list(texts)]),
            capture_output=True,
            encoding="utf-8",
            env=environment,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SGPEError(f"AutoTokenizer did not finish within {limit:.0f} seconds") from None
    if done.returncode:
        errors = re.findall(r"^\w*(?:Error|Exception): (.*)", done.stderr, re.MULTILINE)
        raise SGPEError(errors[-1] if errors else f"AutoTokenizer ended with the status {done.returncode}")
    class_name, ids = json.loads(done.stdout.splitlines()[-1])
    return _Reading(class_name, ids)


def folder_for_auto_tokenizer(path_or_repo: str | os.PathLike[str]) -> Path | None:
    """Return the local folder of a tokenizer, or None if ``AutoTokenizer`` cannot read the format of the tokenizer."""
    path = find(path_or_repo, also=(CONFIG_FILE, MODEL_FILE, ROLES_FILE, ADDED_FILE, VOCAB_FILE))
    return path.parent if path.name in (TOKENIZER_FILE, SENTENCEPIECE_FILE, MERGES_FILE) else None


def may_be_overridden(folder: Path) -> bool:
    """Return whether transformers is installed, and a setting of the folder can override a part of ``tokenizer.json``."""
    settings = optional_json(folder / CONFIG_FILE)
    is_generic = settings.get("tokenizer_class") in GENERIC and not (folder / MODEL_FILE).exists()
    is_readable = (folder / TOKENIZER_FILE).is_file() and find_spec("transformers") is not None
    return is_readable and not is_generic and "auto_map" not in settings
