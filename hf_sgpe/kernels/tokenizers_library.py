"""The one place that asks the ``tokenizers`` library: for its regex engine, its NFC, its pre-tokenizers, and to load.

A saved tokenizer is run by that library, so what it takes for a letter is right by definition, and its Unicode may be of
another version than that of the ``regex`` package. From 1.0 on it shows none of its parts to Python, and it need not be
installed at all: then the ``regex`` package and Python's own Unicode answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
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
    """Return whether the library is installed in a version that shows its parts."""
    try:
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers  # noqa: F401
    except ImportError:
        return False
    return True


def load(content: str) -> Tokenizer:
    """Return the library's tokenizer of the text of a ``tokenizer.json``.

    Raises:
        SGPEError: the library is not installed.
        Exception: the bare class: it cannot read it.
    """
    kind: type[Tokenizer] = optional("tokenizers", "other tokenizers than byte-level BPE need tokenizers").Tokenizer
    if hasattr(kind, "from_str"):
        return kind.from_str(content)
    with TemporaryDirectory() as folder:  # from 1.0 on it takes files only
        path = Path(folder, "tokenizer.json")
        path.write_text(content, encoding="utf-8", newline="\n")
        return kind.from_file(str(path))


def check_regex(pattern: str) -> None:
    """Make sure that a split pattern is a regex.

    Raises:
        SGPEError: it is not.
    """
    try:
        if shows_its_parts():
            from tokenizers import Regex

            Regex(pattern)
        else:
            regex.compile(pattern)
    except Exception as error:  # the library raises the bare class
        raise SGPEError(f"split pattern {pattern!r} is not a valid regex: {error}") from None


def matching(character_class: str, characters: str) -> set[str]:
    r"""Return those of some characters that a regex class holds.

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
    """Return a pre-tokenizer of the library that cuts text at the matches of regexes, each in the pieces of the last.

    Raises:
        SGPEError: the library is not there, or cannot read a pattern.
    """
    if not shows_its_parts():
        raise not_installed("pre-tokenizers of the library need tokenizers before 1.0", "'tokenizers<1'")
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Sequence as InTurn, Split

    for pattern in patterns:
        check_regex(pattern)
    splits = [Split(Regex(pattern), behavior="isolated") for pattern in patterns]
    return splits[0] if len(splits) == 1 else InTurn(splits)


def split_at(kind: str, characters: str, nearly: str) -> set[str]:
    """Return those of some characters that a pre-tokenizer of the library splits at, which it takes from tables of its own.

    Args:
        kind: ``Digits`` or ``Punctuation``.
        nearly: The regex class of nearly the same characters, which answers where the library is not there.
    """
    if not shows_its_parts():
        return matching(nearly, characters)
    from tokenizers import pre_tokenizers

    part: Any = pre_tokenizers.Digits() if kind == "Digits" else pre_tokenizers.Punctuation("contiguous")
    # Runs of its characters and of others take turns, and the first begins with a letter.
    pieces = part.pre_tokenize_str("a" + characters)
    return {character for piece, _ in pieces[1::2] for character in piece}


def nfc(text: str) -> str:
    """Return the text in the form NFC."""
    return _nfc().normalize_str(text) if shows_its_parts() else unicodedata.normalize("NFC", text)


@cache
def _nfc() -> Any:
    from tokenizers.normalizers import NFC

    return NFC()
