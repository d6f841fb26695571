"""The files of a card, and what tells a generated one from one that somebody wrote or changed, or of another tokenizer."""

from __future__ import annotations

import hashlib
import json
import re

from hf_sgpe.formats import tokenizer_json
from hf_sgpe.tokenizer import BPETokenizer

CARD_FILE, PAGE_FILE = "README.md", "index.html"

PICTURES = {
    "tokens_per_word": "Tokens per word by language, or per character where words have no spaces between them",
    "token_lengths": "Length of tokens in characters",
    "compression": "Bytes per token by size of the vocabulary",
}
"""Name of each picture's file, without its ending → what it shows."""

CARD_MARK = "<!-- card: hf_sgpe -->"
"""The line that a generated card has after its metadata."""

_SEAL = re.compile(
    re.escape(CARD_MARK) + r"\n<!-- of: (?P<tokenizer>[0-9a-f]{64}) -->\n<!-- text: (?P<text>[0-9a-f]{64}) -->"
)

# Where the metadata of a card has results.
_RESULTS = "\nmodel-index:"


def seal(card: str, tokenizer: BPETokenizer) -> str:
    """Add the hashes of a card's tokenizer and of its own text below its `CARD_MARK`."""
    hashes = f"<!-- of: {_digest_of(tokenizer)} -->\n<!-- text: {_digest(card)} -->"
    return card.replace(CARD_MARK, f"{CARD_MARK}\n{hashes}", 1)


def is_generated(card: str) -> bool:
    """Return whether a card was generated and not changed since."""
    seal = _SEAL.search(card)
    return seal is not None and _digest(card.replace(seal.group(), CARD_MARK, 1)) == seal["text"]


def is_of_another(card: str, tokenizer: object) -> bool:
    """Return whether a card, changed since or not, was generated for another tokenizer."""
    seal = _SEAL.search(card)
    return seal is not None and not (isinstance(tokenizer, BPETokenizer) and seal["tokenizer"] == _digest_of(tokenizer))


def is_measured(card: str) -> bool:
    """Return whether a card holds measurements."""
    return _RESULTS in card


def _digest_of(tokenizer: BPETokenizer) -> str:
    return _digest(json.dumps(tokenizer_json.to_dict(tokenizer.data), sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
