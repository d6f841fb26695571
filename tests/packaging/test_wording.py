"""Words that this project used too often. None of them is to come back."""

import re

from support.paths import ROOT

WORDS = re.compile(r"\b(anew|besides?|goes on|lies|so many|stands|whoever)\b", re.IGNORECASE)
FOLDERS = ("hf_sgpe", "trainers", "hub_cards", "benchmarks", "scripts")


def test_overused_words_do_not_come_back():
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    # CONTRIBUTING.md has the words as examples.
    files += [*(ROOT / "docs").glob("*.md"), *(file for file in ROOT.glob("*.md") if file.name != "CONTRIBUTING.md")]
    found = [(str(file), word) for file in files for word in WORDS.findall(file.read_text(encoding="utf-8"))]
    assert found == []
