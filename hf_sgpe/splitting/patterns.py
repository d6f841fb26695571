r"""The named split patterns: how well-known models cut text into words.

Each is the pattern that its source publishes, character for character. Where a source has had two spellings, this is the
one without possessive quantifiers: ``{1,3}+`` is possessive to the ``regex`` package and a nested repeat to the engine
behind ``tokenizer.json``, and JavaScript has no possessive quantifiers at all.
"""

from __future__ import annotations

from hf_sgpe.errors import SGPEError

SPLIT_PATTERNS: dict[str, str] = {
    # openai/gpt-2, encoder.py
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    # openai/tiktoken, tiktoken_ext/openai_public.py, as first published
    "cl100k": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    # openai/tiktoken, tiktoken_ext/openai_public.py
    "o200k": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    # meta-llama/llama-models, llama3/tokenizer.py
    "llama3": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    # Qwen/Qwen2, tokenizer.json: every digit is a word of its own
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    # bigscience/bloom, tokenizer.json: keeps combining marks and joiners inside words
    "bloom": r" ?[^(\s|.,!?…。，、।۔،)]+",
    # cl100k that lets any white space stand before punctuation; tutorials show it as GPT-2's or Llama 3's
    "cl100k-any-space": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"|\s?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    # the same with contractions written with U+2019, too
    "cl100k-typographic": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d|\u2019s|\u2019t|\u2019re|\u2019ve|\u2019m|\u2019ll|\u2019d)"
        r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
"""Name of a pattern → the regular expression, in the syntax that the ``regex`` package and ``tokenizers`` share."""


COVERING = frozenset(pattern for name, pattern in SPLIT_PATTERNS.items() if name != "bloom")
"""The patterns that match every character of every text, so that nothing lies between two matches."""


def covers_all(pattern: str) -> bool:
    r"""Whether a pattern is known to match every character: one of `COVERING`, alone or as the last alternative.

    >>> covers_all(rf"\d|{SPLIT_PATTERNS['gpt2']}"), covers_all(r"\d"), covers_all(SPLIT_PATTERNS["bloom"])
    (True, False, False)
    """
    if pattern in COVERING:
        return True
    before = next((pattern.removesuffix(f"|{known}") for known in COVERING if pattern.endswith(f"|{known}")), None)
    if before is None:
        return False
    import regex

    try:
        # What is open there would go on behind the bar.
        regex.compile(before)
    except regex.error:
        return False
    return True


def is_name(pattern: str) -> bool:
    """Whether ``pattern`` looks like the name of one: letters, digits, ``-`` and ``_`` only."""
    return pattern.replace("-", "").replace("_", "").isalnum()


def resolve_pattern(pattern: str) -> str:
    r"""The regular expression that ``pattern`` names, or ``pattern`` itself if it is one.

    Raises:
        SGPEError: ``pattern`` looks like a name (letters, digits, ``-``) and is none of `SPLIT_PATTERNS`.

    >>> resolve_pattern("bloom") == SPLIT_PATTERNS["bloom"]
    True
    >>> resolve_pattern(r"\s+|\S+")
    '\\s+|\\S+'
    """
    if pattern in SPLIT_PATTERNS:
        return SPLIT_PATTERNS[pattern]
    if not pattern or is_name(pattern):
        raise SGPEError(f"unknown split pattern {pattern!r}: known are {', '.join(SPLIT_PATTERNS)}, or give a regex")
    return pattern
