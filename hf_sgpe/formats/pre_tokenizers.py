"""The pre-tokenizers of a ``tokenizer.json`` as split regexes: the one way in which `Splitting` says how text is cut."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from hf_sgpe.errors import NotByteLevelError
from hf_sgpe.kernels import tokenizers_library
from hf_sgpe.splitting.character_classes import every_character, members
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS, covers_all, is_name
from hf_sgpe.splitting.scripts.script import runs
from hf_sgpe.vocabulary.byte_strings import bytes_to_string


def regexes_of(pre_tokenizer: Mapping[str, Any] | None, merges: Iterable[tuple[bytes, bytes]] = ()) -> list[str]:
    """Return the regexes that split text as these pre-tokenizers do, one after another, before the merges of a tokenizer.

    Falcon looks for digits after ByteLevel, where some bytes of other characters are written as ``²`` or ``¼`` and count as
    digits, too. It was trained so, and no merge of its joins a digit with another byte: such a cut changes no token.

    Raises:
        NotByteLevelError: they do something that no split by regexes does.
    """
    if pre_tokenizer is None:
        raise NotByteLevelError("it has no pre-tokenizer, so it is not byte-level")
    parts = _parts(pre_tokenizer)
    place = next((place for place, part in enumerate(parts) if part["type"] == "ByteLevel"), None)
    if place is None:
        last = parts[-1]["type"] if parts else "nothing"
        raise NotByteLevelError(f"its pre-tokenizer ends in {last}, not in ByteLevel")
    byte_level = parts[place]
    regexes = [_regex(part) for part in parts[:place]]
    if byte_level.get("add_prefix_space"):
        raise NotByteLevelError("its ByteLevel adds a space before the text (add_prefix_space)")
    if byte_level.get("use_regex", True):
        regexes.append(SPLIT_PATTERNS["gpt2"])
    for part in parts[place + 1 :]:
        if part["type"] == "Digits" and not part.get("individual_digits") and not _joins_digits(merges):
            continue
        regex = part.get("pattern", {}).get("Regex", "")
        if part["type"] != "Split" or not _OF_ASCII_DIGITS.fullmatch(regex):
            kind = part["type"]
            raise NotByteLevelError(f"its pre-tokenizer {kind} comes after ByteLevel, so it may cut characters apart")
        regexes.append(_regex(part))
    if not regexes:
        raise NotByteLevelError("its pre-tokenizer does not split text into words")
    return regexes


_OF_ASCII_DIGITS = re.compile(r"(?:\[0-9\](?:\{\d+(?:,\d+)?\}|\+)?)+")
_DIGIT_BYTES = frozenset(byte for byte in range(256) if bytes_to_string(bytes([byte])).isnumeric())


def _joins_digits(merges: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a merge joins a byte that is written as a digit with one that is not."""
    return any((left[-1] in _DIGIT_BYTES) != (right[0] in _DIGIT_BYTES) for left, right in merges)


def _parts(pre_tokenizer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if pre_tokenizer["type"] != "Sequence":
        return [pre_tokenizer]
    return [part for one in pre_tokenizer["pretokenizers"] for part in _parts(one)]


def _regex(part: Mapping[str, Any]) -> str:
    """Return the regex whose matches, and what is between them, are the pieces that a pre-tokenizer cuts."""
    if part["type"] == "Digits":
        return _class("Digits", r"\p{N}") + ("" if part.get("individual_digits") else "+")
    if part["type"] == "Punctuation":
        behavior = part.get("behavior", "Isolated")
        if behavior not in ("Isolated", "Contiguous"):
            raise NotByteLevelError(f"its Punctuation is {behavior}, not Isolated or Contiguous")
        return punctuation() + ("+" if behavior == "Contiguous" else "")
    regex = part.get("pattern", {}).get("Regex")
    if part["type"] == "Split" and "String" in part.get("pattern", {}):
        regex = "".join(f"\\{c}" if c in r"\^$.|?*+()[]{}-" else c for c in part["pattern"]["String"])
    if part["type"] != "Split" or not regex:
        raise NotByteLevelError(f"its pre-tokenizer {part['type']} is not a Split, Digits or Punctuation")
    inverted = ", inverted" if part.get("invert") else ""
    # Keeping only the matches is the same where a pattern leaves nothing between them.
    keeps_all = part["behavior"] == "Isolated" and not part.get("invert")
    if not keeps_all and not (part["behavior"] == "Removed" and part.get("invert") and covers_all(regex)):
        raise NotByteLevelError(f"its Split is {part['behavior']}{inverted}, not Isolated")
    # A regex may look like the name of a pattern.
    return f"(?:{regex})" if is_name(regex) else regex


def punctuation() -> str:
    """Return the regex class of the characters that a ``Punctuation`` splits at, of the Unicode that the library has."""
    return _class("Punctuation", r"[!-/:-@\[-`{-~\p{P}]")


@cache
def _class(kind: str, nearly: str) -> str:
    """Return the regex class of the characters that a pre-tokenizer splits at.

    Args:
        kind: ``Digits`` or ``Punctuation``.
        nearly: A regex class of nearly the same characters, which is written where it lacks few.
    """
    points = set(map(ord, tokenizers_library.split_at(kind, every_character(), nearly)))
    known = members(nearly)
    ranges, inside = (runs(points - known), nearly) if points >= known else (runs(points), "")
    return f"[{inside}{''.join(map(_literal, ranges))}]" if ranges else nearly


def _literal(run: tuple[int, int]) -> str:
    first, last = (rf"\{c}" if (c := chr(point)) in r"\]^-[" else c for point in run)
    return first if run[0] == run[1] else f"{first}-{last}"
