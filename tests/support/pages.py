"""The pages of the documentation, and their code blocks."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


class Block(NamedTuple):
    """A code block.

    Attributes:
        remark: The comment of HTML before it; empty if there is none.
    """

    page: str
    line: int
    remark: str
    language: str
    code: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        pattern = r"(?:<!-- ((?:(?!-->).)*) -->\n)?^```(python|bash)\n(.*?)^```$"
        for found in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
            yield Block(page.name, text.count("\n", 0, found.start(2)) + 1, found[1] or "", found[2], found[3])
