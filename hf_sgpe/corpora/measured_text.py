"""Units of measurement for tokenizers and models. All commands use these definitions.

- All text is normalized to NFC first. Bytes, characters, words and tokens are counted in the normalized text.
- A word is a run of characters without white space.

`hf_sgpe.corpora.held_out` defines the texts and the lines of files.
"""

from __future__ import annotations

from hf_sgpe.splitting.normalization import NFC, prepare


def normalized(text: str) -> str:
    """Normalize a text to NFC, the form in which text is measured."""
    return prepare(text, NFC)


def words_of(text: str) -> list[str]:
    """Return the words of a text that `normalized` returned: its runs of characters without white space. The Ethiopic
    wordspace separates words, too.

    >>> words_of("two  words\\n")
    ['two', 'words']
    >>> words_of("ሰላም፡ልዑል")
    ['ሰላም', 'ልዑል']
    """
    return text.replace("\u1361", " ").split()
