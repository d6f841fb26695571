"""What tells a card that was generated from one that somebody wrote or changed, and from those of other tokenizers."""

from __future__ import annotations

import hashlib
import json
import re

from hf_sgpe.formats import tokenizer_json
from hf_sgpe.tokenizer import BPETokenizer

CARD_MARK = "<!-- card: hf_sgpe -->"
"""The line that a generated card has after its metadata."""

_SEAL = re.compile(
    re.escape(CARD_MARK) + r"\n<!-- of: (?P<tokenizer>[0-9a-f]{64}) -->\n<!-- text: (?P<text>[0-9a-f]{64}) -->"
)

# Where the metadata of a card has results.
_RESULTS = "\nmodel-index:"


def seal(card: str, tokenizer: BPETokenizer) -> str:
    """A card with its `CARD_MARK`, and the hashes of the tokenizer it is of and of its own text below that."""
    hashes = f"<!-- of: {_digest_of(tokenizer)} -->\n<!-- text: {_digest(card)} -->"
    return card.replace(CARD_MARK, f"{CARD_MARK}\n{hashes}", 1)


def is_generated(card: str) -> bool:
    """Whether a card is as it was generated: nobody has changed it since."""
    found = _SEAL.search(card)
    return found is not None and _digest(card.replace(found.group(), CARD_MARK, 1)) == found["text"]


def is_of_another(card: str, tokenizer: object) -> bool:
    """Whether a card, changed since or not, was generated for another tokenizer."""
    found = _SEAL.search(card)
    return found is not None and not (isinstance(tokenizer, BPETokenizer) and found["tokenizer"] == _digest_of(tokenizer))


def is_measured(card: str) -> bool:
    """Whether a card holds results."""
    return _RESULTS in card


def _digest_of(tokenizer: BPETokenizer) -> str:
    return _digest(json.dumps(tokenizer_json.to_dict(tokenizer), sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
