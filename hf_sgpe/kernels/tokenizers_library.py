"""All uses of the ``tokenizers`` library: regex engine, NFC, pre-tokenizers, and loading of tokenizers.

Saved tokenizers run in that library, so its character classes are the reference. The library and the ``regex`` package may
have different versions of Unicode. The ``regex`` package and Python's own Unicode data are used instead if the library is
not installed, or does not expose these parts to Python (version 1.0 and later).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import regex

from hf_sgpe.errors import SGPEError, not_installed, optional

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.pre_tokenizers import PreTokenizer


@cache
def shows_its_parts() -> bool:
    """Return whether an installed version of the library gives Python access to its parts."""
    try:
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers  # noqa: F401
    except ImportError:
        return False
    return True


def load(content: str) -> Tokenizer:
    """Load the content of a ``tokenizer.json`` as the library's tokenizer.

    Raises:
        SGPEError: the library is not installed.
        Exception: the library cannot read the content. The error is of the class ``Exception`` itself.
    """
    kind: type[Tokenizer] = optional("tokenizers", "tokenizers that BPETokenizer does not read need tokenizers").Tokenizer
    if hasattr(kind, "from_str"):
        return kind.from_str(content)
    with TemporaryDirectory() as folder:  # since 1.0, only files can be loaded
        path = Path(folder, "tokenizer.json")
        path.write_text(content, encoding="utf-8", newline="\n")
        return kind.from_file(str(path))


def check_regex(pattern: str) -> None:
    """Check that a split pattern is a valid regex.

    Raises:
        SGPEError: the pattern is not a valid regex.
    """
    try:
        if shows_its_parts():
            from tokenizers import Regex

            Regex(pattern)
        else:
            regex.compile(pattern)
    except Exception as error:  # the library raises exactly this class
        raise SGPEError(f"split pattern {pattern!r} is not a valid regex: {error}") from None


def matching(character_class: str, characters: str) -> set[str]:
    r"""Return the characters that belong to a regex class.

    >>> sorted(matching(r"\d", "a1b2"))
    ['1', '2']
    """
    if not shows_its_parts():
        return set(regex.findall(character_class, characters))
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    pieces = Split(Regex(f"(?:{character_class})+"), behavior="removed", invert=True).pre_tokenize_str(characters)
    return {character for piece, _ in pieces for character in piece}


def splitter(patterns: Sequence[str]) -> PreTokenizer:
    """Return a pre-tokenizer of the library that splits text at the matches of the first regex. Each further regex splits
    the resulting pieces.

    Raises:
        SGPEError: the library is not available, or cannot read a pattern.
    """
    if not shows_its_parts():
        raise not_installed("the library's pre-tokenizers need tokenizers before 1.0", "'tokenizers<1'")
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Sequence as InTurn, Split

    for pattern in patterns:
        check_regex(pattern)
    splits = [Split(Regex(pattern), behavior="isolated") for pattern in patterns]
    return splits[0] if len(splits) == 1 else InTurn(splits)


def split_at(kind: str, characters: str, nearly: str) -> set[str]:
    """Return those of ``characters`` at which a pre-tokenizer of the library splits. The library's own tables decide.

    Args:
        kind: ``Digits`` or ``Punctuation``.
        characters: Characters to test.
        nearly: Regex class with nearly the same characters. Used if the library is not available.
    """
    if not shows_its_parts():
        return matching(nearly, characters)
    from tokenizers import pre_tokenizers

    part: Any = pre_tokenizers.Digits() if kind == "Digits" else pre_tokenizers.Punctuation("contiguous")
    # Runs of matching characters alternate with runs of other characters, and the first run begins with a letter.
    pieces = part.pre_tokenize_str("a" + characters)
    return {character for piece, _ in pieces[1::2] for character in piece}


@lru_cache(4096)
def is_word(character: str) -> bool:
    """Return whether a character is part of a word. Next to it, an added token that matches only whole words does not match.

    >>> is_word("a"), is_word("_"), is_word(" "), is_word("-")
    (True, True, False, False)
    """
    if not shows_its_parts():
        return _WORD.match(character) is not None
    from tokenizers.pre_tokenizers import Whitespace

    pieces = Whitespace().pre_tokenize_str(f"a{character}")  # splits words from other characters with the same engine
    return len(pieces) == 1 and len(pieces[0][0]) > 1


_WORD = regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")


def nfc(text: str) -> str:
    """Return the text normalized to NFC."""
    return _nfc().normalize_str(text) if shows_its_parts() else unicodedata.normalize("NFC", text)


@cache
def _nfc() -> Any:
    from tokenizers.normalizers import NFC

    return NFC()
