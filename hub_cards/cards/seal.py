"""The names of a card's files, and the card's seal, which shows whether the card was generated, was edited, or belongs to
another tokenizer.
"""

from __future__ import annotations

import hashlib
import re

from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.tokenizer import BPETokenizer

CARD_FILE, PAGE_FILE = "README.md", "index.html"

PICTURES = {
    "tokens_per_word": "Tokens per word by language, or per character in languages without spaces between words",
    "token_lengths": "Length of tokens in characters",
    "compression": "Bytes per token by size of the vocabulary",
}
"""Descriptions of the pictures, keyed by file name without extension."""

CARD_MARK = "<!-- card: hf_sgpe -->"
"""The line that follows the metadata in each generated card."""

_SEAL = re.compile(
    re.escape(CARD_MARK) + r"\n<!-- of: (?P<tokenizer>[0-9a-f]{64}) -->\n<!-- text: (?P<text>[0-9a-f]{64}) -->"
)

# The start of the results in a card's metadata.
_RESULTS = "\nmodel-index:"


def seal(card: str, tokenizer: BPETokenizer | PieceFolder) -> str:
    """Return a card with a seal below `CARD_MARK`: the hash of the tokenizer, and the hash of the card's text."""
    hashes = f"<!-- of: {_digest_of(tokenizer)} -->\n<!-- text: {_digest(card)} -->"
    return card.replace(CARD_MARK, f"{CARD_MARK}\n{hashes}", 1)


def is_generated(card: str) -> bool:
    """Return whether a card was generated and has not been edited since."""
    seal = _SEAL.search(card)
    return seal is not None and _digest(card.replace(seal.group(), CARD_MARK, 1)) == seal["text"]


def is_of_another(card: str, tokenizer: object) -> bool:
    """Return whether a card, edited or not, was generated for another tokenizer."""
    seal = _SEAL.search(card)
    return seal is not None and not (
        isinstance(tokenizer, (BPETokenizer, PieceFolder)) and seal["tokenizer"] == _digest_of(tokenizer)
    )


def is_measured(card: str) -> bool:
    return _RESULTS in card


def _digest_of(tokenizer: BPETokenizer | PieceFolder) -> str:
    content = tokenizer.content if isinstance(tokenizer, PieceFolder) else tokenizer_json.to_dict(tokenizer.data)
    return tokenizer_json.digest(content)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
