"""Definitions of what is counted when a tokenizer or a model is measured, so that a measure has one value everywhere.

- All text is brought to NFC first. Bytes, characters, words and tokens are those of the text in NFC.
- A word is a run of characters between white space.

`hf_sgpe.corpora.held_out` defines the texts and the lines of files.
"""

from __future__ import annotations

from hf_sgpe.splitting.normalization import prepare


def normalized(text: str) -> str:
    """Return the text that is measured: in NFC."""
    return prepare(text, "nfc")


def words_of(text: str) -> list[str]:
    """Return the words of a text that is normalized.

    >>> words_of("two  words\\n")
    ['two', 'words']
    """
    return text.split()
