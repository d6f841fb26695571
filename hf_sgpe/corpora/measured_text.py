"""Definitions of the units in which tokenizers and models are measured, so that a measure has the same value everywhere.

- All text is normalized to NFC first. Bytes, characters, words and tokens are counted in the normalized text.
- A word is a run of characters between white space.

`hf_sgpe.corpora.held_out` defines the texts and the lines of files.
"""

from __future__ import annotations

from hf_sgpe.splitting.normalization import prepare


def normalized(text: str) -> str:
    """Return a text in NFC, the form in which text is measured."""
    return prepare(text, "nfc")


def words_of(text: str) -> list[str]:
    """Return the words of a normalized text.

    >>> words_of("two  words\\n")
    ['two', 'words']
    """
    return text.split()
