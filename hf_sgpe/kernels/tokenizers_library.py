"""All uses of the ``tokenizers`` library: regex engine, NFC, pre-tokenizers, and loading of tokenizers.

Saved tokenizers run in that library, so its character classes are the reference. Version 1.0 and later do not expose these
parts to Python. With such a version, or without the library, the ``regex`` package and Python's own Unicode data are used
instead. Their version of Unicode may differ from the library's.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import regex

from hf_sgpe.errors import SGPEError, not_installed, optional

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer
    from tokenizers.pre_tokenizers import PreTokenizer


@cache
def shows_its_parts() -> bool:
    """Return whether the installed library, if any, gives Python access to its normalizers and pre-tokenizers."""
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
    try:
        if hasattr(kind, "from_str"):
            return kind.from_str(content)
        with TemporaryDirectory() as folder:  # since 1.0, only files can be loaded
            path = Path(folder, "tokenizer.json")
            path.write_text(content, encoding="utf-8", newline="\n")
            return kind.from_file(str(path))
    except BaseException as error:
        if is_panic(error):
            raise Exception(str(error)) from None
        raise


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of the library's Rust code, which is not an `Exception`."""
    return type(error).__name__ == "PanicException"


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
    r"""Return those of ``characters`` that a regex class matches. Lone surrogates are never returned.

    >>> sorted(matching(r"\d", "a1b2"))
    ['1', '2']
    """
    if not shows_its_parts():
        return set(regex.findall(character_class, characters))
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    characters = characters.encode(errors="ignore").decode()  # the library refuses lone surrogates
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
    """Return those of ``characters`` at which a pre-tokenizer of the library splits, according to the library's own tables.

    Args:
        kind: ``Digits`` or ``Punctuation``.
        characters: Characters to test.
        nearly: Regex class with nearly the same characters, used if the library is not available.
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
    """Return whether a character is part of a word. An added token that matches only whole words does not match next to such
    a character.

    >>> is_word("a"), is_word("_"), is_word(" "), is_word("-")
    (True, True, False, False)
    """
    if not shows_its_parts() or "\ud800" <= character < "\ue000":  # the library refuses lone surrogates
        return _WORD.match(character) is not None
    from tokenizers.pre_tokenizers import Whitespace

    pieces = Whitespace().pre_tokenize_str(f"a{character}")  # splits words from other characters with the same engine
    return len(pieces) == 1 and len(pieces[0][0]) > 1


_WORD = regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")


def normalized(text: str, steps: str) -> str:
    """Return a text after the library has applied normalizers to it.

    Args:
        steps: The normalizers as JSON: a list of the objects that describe them in a ``tokenizer.json``.

    Raises:
        SGPEError: the library is not installed, does not give access to its parts, or lacks a normalizer.
    """
    result: str = _with_normalizers(steps).normalizer.normalize_str(text)
    return result


def normalized_with_places(text: str, steps: str) -> tuple[str, NDArray[np.int32], NDArray[np.int32]]:
    """Return the result of `normalized` and two arrays. For each character of the result, the arrays contain the start and
    the end of the part of ``text`` that became this character. If no part of ``text`` became this character, they contain
    the start and the end of the next character of ``text``.
    """
    import numpy as np

    changed = normalized(text, steps)
    offsets = np.array(_with_normalizers(steps).encode(text).offsets, np.int32).reshape(-1, 2)
    starts = np.minimum(offsets[:, 0], max(len(text) - 1, 0))
    return changed, starts, np.maximum(offsets[:, 1], starts + 1)


@lru_cache(8)
def _with_normalizers(steps: str) -> Any:
    """Return a tokenizer of the library that applies these normalizers and then makes each character a separate token."""
    content = {
        "version": "1.0",
        "normalizer": {"type": "Sequence", "normalizers": json.loads(steps)},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False},
        "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"},
    }
    try:
        tokenizer = load(json.dumps(content))
    except SGPEError:
        raise
    except Exception as error:  # the library raises exactly this class
        raise SGPEError(f"its normalizer is damaged ({error})") from None
    if not hasattr(tokenizer, "normalizer"):
        raise not_installed("the library's normalizers need tokenizers before 1.0", "'tokenizers<1'")
    return tokenizer


def nfc(text: str) -> str:
    """Return the text normalized to NFC."""
    return _nfc().normalize_str(text) if shows_its_parts() else unicodedata.normalize("NFC", text)


@cache
def _nfc() -> Any:
    from tokenizers.normalizers import NFC

    return NFC()
