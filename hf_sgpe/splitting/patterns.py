r"""Split patterns: the regexes with which well-known models split text into words.

Each regex equals its published source, character for character. If a source has published two spellings of a regex, the
spelling without possessive quantifiers is used. There are two reasons: ``{1,3}+`` is possessive in the ``regex`` package but
a nested repeat in the engine that reads ``tokenizer.json``, and JavaScript has no possessive quantifiers.
"""

from __future__ import annotations

from dataclasses import dataclass

import regex

from hf_sgpe.errors import SGPEError


@dataclass(frozen=True)
class SplitPattern:
    """A named regex that splits text into words.

    Attributes:
        name: Letters, digits, ``-`` and ``_``.
        regex: Regex in the common syntax of the ``regex`` package and ``tokenizers``.
        covers_all: Whether matches cover every character of every text, without gaps.
        scanner: Name of the native scanner that splits text in the same way, or None. Other patterns are slower.
    """

    name: str
    regex: str
    covers_all: bool = False
    scanner: str | None = None


CUT_MARKS = ".,!?()…。，、۔،"
"""Punctuation marks that every pattern of the package separates from a letter before them. The danda is missing, because
words of the recipe ``sgpe`` may contain it.
"""

PATTERNS: dict[str, SplitPattern] = {}
"""The patterns, keyed by name. `add_pattern` adds a pattern."""

SPLIT_PATTERNS: dict[str, str] = {}
"""The regexes of the patterns, keyed by name."""


def is_name(pattern: str) -> bool:
    """Return whether ``pattern`` has only letters, digits, ``-`` and ``_``."""
    return pattern.replace("-", "").replace("_", "").isalnum()


def add_pattern(pattern: SplitPattern) -> None:
    """Register a pattern under its name."""
    if pattern.name in PATTERNS or not is_name(pattern.name):
        raise SGPEError(
            f"a split pattern cannot be called {pattern.name!r}: the name is in use, or has characters other than letters, "
            "digits, - and _"
        )
    PATTERNS[pattern.name] = pattern
    SPLIT_PATTERNS[pattern.name] = pattern.regex


_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_CL100K = rf"{_CONTRACTIONS}|{_REST}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"

# Each pattern has a native scanner of the same name, and all but BLOOM's cover all text.
for _name, _regex in {
    # openai/gpt-2, encoder.py
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    # openai/tiktoken, tiktoken_ext/openai_public.py, as first published
    "cl100k": _CL100K,
    # openai/tiktoken, tiktoken_ext/openai_public.py
    "o200k": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    # meta-llama/llama-models, llama3/tokenizer.py
    "llama3": _CL100K,
    # Qwen/Qwen2, tokenizer.json: every digit is a word of its own
    "qwen2": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    # Qwen/Qwen3.5, tokenizer.json: the regex of Qwen2 with combining marks among the letters
    "qwen35": (
        rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
    ),
    # mistralai/Mistral-Nemo-Base-2407, tekken.json: o200k without contractions, and digit by digit
    "tekken": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    # bigscience/bloom, tokenizer.json: keeps combining marks and joiners inside words
    "bloom": r" ?[^(\s|.,!?…。，、।۔،)]+",
    # cl100k with any white space before punctuation; tutorials show it as GPT-2's or Llama 3's
    "cl100k-any-space": rf"{_CONTRACTIONS}|{_REST}|\s?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    # the previous regex, and contractions with U+2019
    "cl100k-typographic": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d|\u2019s|\u2019t|\u2019re|\u2019ve|\u2019m|\u2019ll|\u2019d)"
        rf"|{_REST}|\s?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
    ),
}.items():
    add_pattern(SplitPattern(_name, _regex, covers_all=_name != "bloom", scanner=_name))


def patterns_of(regex: str) -> list[SplitPattern]:
    """Return all patterns with this regex.

    >>> [pattern.name for pattern in patterns_of(SPLIT_PATTERNS["cl100k"])]
    ['cl100k', 'llama3']
    """
    return [pattern for pattern in PATTERNS.values() if pattern.regex == regex]


def covers_all(pattern: str) -> bool:
    r"""Return whether a regex, or its last alternative, is a named pattern that matches every character.

    >>> covers_all(rf"\d|{SPLIT_PATTERNS['gpt2']}"), covers_all(r"\d"), covers_all(SPLIT_PATTERNS["bloom"])
    (True, False, False)
    """
    for record in PATTERNS.values():
        if record.covers_all and pattern == record.regex:
            return True
        if record.covers_all and pattern.endswith(f"|{record.regex}"):
            try:
                # If the text before the bar is not a regex, the bar is inside a group and does not begin the last
                # alternative.
                regex.compile(pattern.removesuffix(f"|{record.regex}"))
            except regex.error:
                continue
            return True
    return False


def resolve_pattern(pattern: str) -> str:
    r"""Return the regex with the name ``pattern``, or ``pattern`` itself if it is a regex.

    >>> resolve_pattern("bloom") == SPLIT_PATTERNS["bloom"]
    True
    >>> resolve_pattern(r"\s+|\S+")
    '\\s+|\\S+'
    """
    if pattern in PATTERNS:
        return PATTERNS[pattern].regex
    if not pattern or is_name(pattern):
        raise SGPEError(f"unknown split pattern {pattern!r}: choose from {', '.join(PATTERNS)}, or give a regex")
    return pattern
