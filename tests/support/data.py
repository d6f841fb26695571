"""Real text from outside the project; tests that need it are skipped if it is missing."""

from __future__ import annotations

import lzma
import os
from functools import cache
from pathlib import Path

import pytest

from support.paths import ROOT

DATA = Path(os.environ.get("HF_SGPE_DATA", ROOT.parent / "shared"))
needs_data = pytest.mark.skipif(
    not (DATA / "corpora").is_dir(), reason=f"no test data at {DATA}: set HF_SGPE_DATA to the folder that holds corpora/"
)


@cache
def corpus(language: str, characters: int) -> str:
    """Return about the first ``characters`` of a corpus, in whole lines."""
    with lzma.open(DATA / "corpora" / f"{language}.txt.xz", "rt", encoding="utf-8", newline="") as file:
        text = file.read(characters)
    return text[: text.rindex("\n") + 1]


@cache
def sinhala_words() -> list[str]:
    """Return a list of Sinhala words with conjuncts."""
    lines = (DATA / "wordlists" / "si_conjunct_words.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[1] for line in lines[1:]]
