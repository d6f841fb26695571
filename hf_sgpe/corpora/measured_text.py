"""Units of measurement for tokenizers and models. Bytes, characters, words and tokens are counted in text that is normalized
to NFC. A word is a run of characters without white space. `hf_sgpe.corpora.held_out` defines the texts and lines of files.
"""

from __future__ import annotations

from hf_sgpe.splitting.normalization import NFC, prepare


def normalized(text: str) -> str:
    """Normalize a text to NFC."""
    return prepare(text, NFC)


def words_of(text: str) -> list[str]:
    """Return the words of a normalized text. The Ethiopic wordspace separates words, too.

    >>> words_of("ሰላም፡ልዑል")
    ['ሰላም', 'ልዑል']
    """
    return text.replace("\u1361", " ").split()
