"""Translation of the pre-tokenizers in a ``tokenizer.json`` into split regexes for `Splitting`, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from typing import Any

from hf_sgpe.errors import NotByteLevelError
from hf_sgpe.kernels import tokenizers_library
from hf_sgpe.splitting.character_classes import every_character, members
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS, covers_all, is_name
from hf_sgpe.splitting.scripts.script import runs
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.byte_strings import bytes_to_string

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def pre_tokenizer_of(splitting: Splitting) -> dict[str, Any]:
    """Return the entry ``pre_tokenizer`` of a ``tokenizer.json`` that splits text into the same words as ``splitting``."""
    splits: list[dict[str, Any]] = []
    for step, pattern in enumerate(splitting.regexes):
        # OpenVINO fuses two Splits with the same options into a single Split that splits words differently.
        is_alike = bool(splits) and splitting.covers_all(step)
        options = {"behavior": "Removed", "invert": True} if is_alike else {"behavior": "Isolated", "invert": False}
        splits.append({"type": "Split", "pattern": {"Regex": pattern}, **options})
    return {"type": "Sequence", "pretokenizers": [*splits, dict(BYTE_LEVEL)]}


def after_split(regex: str, byte_level: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pre-tokenizer that splits text at the matches of a regex, and then applies a ``ByteLevel``."""
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, byte_level]}


def regexes_of(pre_tokenizer: Mapping[str, Any] | None, merges: Iterable[tuple[bytes, bytes]] = ()) -> list[str]:
    """Return regexes that, applied one after another, split text as the pre-tokenizers do.

    Falcon splits at digits after ByteLevel. At that point, some bytes of other characters are spelled ``²`` or ``¼``, which
    count as digits. If no merge joins a byte that is spelled as a digit with another byte, such a split changes no token and
    is ignored.

    Raises:
        NotByteLevelError: split regexes cannot express the pre-tokenizers.
    """
    if pre_tokenizer is None:
        raise NotByteLevelError("it has no pre-tokenizer, so it is not byte-level")
    parts = steps_of(pre_tokenizer, "pretokenizers")
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
        if part["type"] == "Digits" and not part.get("individual_digits"):
            joins_digits = any((left[-1] in _DIGIT_BYTES) != (right[0] in _DIGIT_BYTES) for left, right in merges)
            if not joins_digits:
                continue
        regex = part.get("pattern", {}).get("Regex", "")
        if part["type"] != "Split" or not _OF_ASCII_DIGITS.fullmatch(regex):
            kind = part["type"]
            raise NotByteLevelError(f"its pre-tokenizer {kind} comes after ByteLevel, so it may split inside characters")
        regexes.append(_regex(part))
    if not regexes:
        raise NotByteLevelError("its pre-tokenizer does not split text into words")
    return regexes


_OF_ASCII_DIGITS = re.compile(r"(?:\[0-9\](?:\{\d+(?:,\d+)?\}|\+)?)+")
_DIGIT_BYTES = frozenset(byte for byte in range(256) if bytes_to_string(bytes([byte])).isnumeric())


def steps_of(part: Mapping[str, Any] | None, name: str) -> list[Mapping[str, Any]]:
    """Return the steps of a normalizer, pre-tokenizer or decoder. ``name`` is the field with the steps of a Sequence."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    return list(chain.from_iterable(steps_of(inner, name) for inner in part[name]))


def _regex(part: Mapping[str, Any]) -> str:
    """Return the regex of a pre-tokenizer that splits a text into the matches and the text between them."""
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
    # If a pattern matches all text, Removed with invert has the same effect as Isolated.
    keeps_all = part["behavior"] == "Isolated" and not part.get("invert")
    if not keeps_all and not (part["behavior"] == "Removed" and part.get("invert") and covers_all(regex)):
        raise NotByteLevelError(f"its Split is {part['behavior']}{inverted}, not Isolated")
    # The group marks a regex that could be taken for the name of a pattern.
    return f"(?:{regex})" if is_name(regex) else regex


def punctuation() -> str:
    """Return the regex class of the characters at which ``Punctuation`` splits, in the library's version of Unicode."""
    return _class("Punctuation", r"[!-/:-@\[-`{-~\p{P}]")


@cache
def _class(kind: str, nearly: str) -> str:
    """Return the regex class of the characters at which ``Digits`` or ``Punctuation`` splits.

    ``nearly`` is a class with nearly the same characters. If the result has all of them, it is this class with additions.
    """
    points = set(map(ord, tokenizers_library.split_at(kind, every_character(), nearly)))
    subset = members(nearly)
    ranges, inside = (runs(points - subset), nearly) if points >= subset else (runs(points), "")
    return f"[{inside}{''.join(map(_literal, ranges))}]" if ranges else nearly


def _literal(run: tuple[int, int]) -> str:
    first, last = (rf"\{c}" if (c := chr(point)) in r"\]^-[" else c for point in run)
    return first if run[0] == run[1] else f"{first}-{last}"
