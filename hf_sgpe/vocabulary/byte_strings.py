"""Conversion of a token's bytes to its vocabulary string, which is how ``tokenizer.json`` spells the token, and back.

Byte-level tokenizers spell tokens in GPT-2's alphabet, which has one printable character for each byte. SentencePiece
tokenizers spell tokens as plain text, with the character U+2581 instead of each space.
"""

from __future__ import annotations

from functools import cache

from hf_sgpe.errors import NotByteLevelError

BYTES_OF_TEXT = frozenset(range(0xF5)) - {0xC0, 0xC1}
"""The bytes that occur in UTF-8."""


def bytes_to_string(token: bytes) -> str:
    """Convert a token to its vocabulary string in GPT-2's alphabet.

    >>> bytes_to_string(b" hi\\n")
    'ĠhiĊ'
    """
    return "".join(map(_byte_characters().__getitem__, token))


def string_to_bytes(token: str) -> bytes:
    """Convert a vocabulary string in GPT-2's alphabet to the token, the inverse of `bytes_to_string`.

    Raises:
        NotByteLevelError: a character does not represent a byte.
    """
    try:
        return token.translate(_to_latin_1()).encode("latin-1")
    except UnicodeEncodeError:
        character = next(character for character in token if character not in _byte_characters())
        raise NotByteLevelError(f"token {token!r} is not byte-level: {character!r} represents no byte") from None


@cache
def _byte_characters() -> list[str]:
    # GPT-2's table: printable Latin-1 characters represent themselves. The other bytes are the characters from U+0100, in
    # order.
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


@cache
def _to_latin_1() -> dict[int, int]:
    # Other characters represent no byte and must not become a byte.
    invalid = dict.fromkeys(range(256), 0x10FFFF)
    return invalid | {ord(character): byte for byte, character in enumerate(_byte_characters())}


def bytes_spelled(text: str) -> bytes | None:
    """Return the bytes whose vocabulary string in GPT-2's alphabet is ``text``, or None if there are no such bytes.

    This finds conflicts in ``tokenizer.json``, which writes an added token as its own text: the text can be equal to the
    vocabulary string of an ordinary token.

    >>> bytes_spelled("<|end|>"), bytes_spelled("Ġthe"), bytes_spelled("ලංකාව")
    (b'<|end|>', b' the', None)
    """
    try:
        return string_to_bytes(text)
    except NotByteLevelError:
        return None


def is_text(token: bytes) -> bool:
    """Return whether a token is valid UTF-8, without parts of characters."""
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


SPACE_MARK = "\u2581"
"""The character that SentencePiece writes instead of a space."""


def text_to_string(token: bytes) -> str:
    """Convert a token (UTF-8) to its SentencePiece vocabulary string."""
    return token.decode().replace(" ", SPACE_MARK)


def string_to_text(token: str) -> bytes:
    """Convert a SentencePiece vocabulary string to the token (UTF-8), the inverse of `text_to_string`."""
    return token.replace(SPACE_MARK, " ").encode()


def byte_token(byte: int) -> str:
    """Return the SentencePiece vocabulary string of the token for a single byte, such as ``<0x0A>``."""
    return f"<0x{byte:02X}>"
