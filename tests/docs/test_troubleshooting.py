import ast
import re
from functools import cache

import pytest
from support.paths import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
# Not every quote is a message of ours: Python says ImportError, and vLLM has a name.
NAMES = {"vLLM", "ImportError", "trainers"}
QUOTES = [quote for row, _ in ROWS for quote in re.findall(r"`([^`]+)`", row) if quote not in NAMES]


@cache
def messages() -> str:
    """Return every text in the source; what an f-string fills in is a line feed."""
    texts = []
    for package in ("hf_sgpe", "trainers", "hub_cards", "scripts"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = (part.value if isinstance(part, ast.Constant) else "\n" for part in node.values)
                    texts.append("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(re.sub("%[a-z]", "\n", node.value))
    return "\0".join(texts)


def test_the_page_quotes_messages():
    assert len(QUOTES) > 8


@pytest.mark.parametrize("quote", QUOTES)
def test_a_quoted_message_exists(quote):
    """Numbers and … stand for what a message fills in, and a message is often put together at a comma or a colon."""
    phrases = [phrase.strip() for phrase in re.split(r"…|: |, |[\d,]*\d", quote)]
    phrases = [phrase for phrase in phrases if not phrase.startswith("pip install")]
    assert any(" " in phrase for phrase in phrases)
    for phrase in phrases:
        assert phrase in messages(), phrase
