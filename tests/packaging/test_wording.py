import re

import pytest
from support.paths import ROOT

MOST = {
    r"anew": 0,
    r"besides?": 0,
    r"goes on": 0,
    r"lies": 0,
    r"so many": 0,
    r"stands": 0,
    r"whoever": 0,
}
FILES = [
    *(
        file
        for folder in ("hf_sgpe", "trainers", "hub_cards", "benchmarks", "scripts")
        for file in (ROOT / folder).rglob("*.py")
    ),
    *(ROOT / "docs").glob("*.md"),
    *ROOT.glob("*.md"),
]
OWN = {"CONTRIBUTING.md"}  # it has them as examples


@pytest.mark.parametrize("word", MOST)
def test_the_word_does_not_come_back(word):
    pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
    places = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in FILES
        if file.name not in OWN
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert len(places) <= MOST[word], places
