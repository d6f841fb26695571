"""Spellings: the two ways in which a ``tokenizer.json`` spells tokens. The way depends on what merges join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hf_sgpe.splitting.normalization import Normalization
from hf_sgpe.vocabulary.byte_strings import (
    SPACE_MARK,
    bytes_spelled,
    bytes_to_string,
    string_to_bytes,
    string_to_text,
    text_to_string,
)
from hf_sgpe.vocabulary.neighbours import is_character


@dataclass(frozen=True)
class Spelling:
    """A way to spell tokens.

    Attributes:
        symbols: What merges join: ``bytes`` or ``characters``.
        string_of: Function that converts a token to its vocabulary string.
        token_of: Function that converts a vocabulary string to the token.
        find: Function that does the same, but returns None if no token can have the string.
        decoded: Function that returns the bytes to which an added token decodes.
        is_symbol: Function that returns whether a token is a single byte or character.
    """

    symbols: str
    string_of: Callable[[bytes], str]
    token_of: Callable[[str], bytes]
    find: Callable[[str], bytes | None]
    decoded: Callable[[str], bytes]
    is_symbol: Callable[[bytes], bool]


BYTES = Spelling("bytes", bytes_to_string, string_to_bytes, bytes_spelled, str.encode, lambda token: len(token) == 1)
CHARACTERS = Spelling(
    "characters",
    text_to_string,
    string_to_text,
    # Encoding replaces each space, so it never produces a token that is spelled with one.
    lambda text: None if " " in text else string_to_text(text),
    lambda text: text.replace(SPACE_MARK, " ").encode(),
    is_character,
)


def spelling_after(normalization: Normalization) -> Spelling:
    """Return the spelling of a tokenizer with this normalization."""
    return CHARACTERS if normalization.is_metaspace else BYTES
