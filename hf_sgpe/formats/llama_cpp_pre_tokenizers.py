r"""llama.cpp's pre-tokenizers: how each of them splits text, and which of them splits text like a given tokenizer.

A GGUF file contains no split pattern. It contains the name of a pre-tokenizer that is part of llama.cpp's code. Each record
here has the regexes from the ``tokenizer.json`` of the models with this pre-tokenizer, and the differences between these
regexes and llama.cpp's code. The records describe llama.cpp in llama-cpp-python 0.3.36, and a test compares each record with
that version.

Pre-tokenizers that work on characters instead of bytes have no record: ``gemma4``, ``sarvam-moe``,
``granite-embed-multi-311m`` and ``whitespace``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from hf_sgpe.formats.pre_tokenizers import punctuation
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS, resolve_pattern


@dataclass(frozen=True)
class PreTokenizer:
    """One of llama.cpp's pre-tokenizers.

    Attributes:
        name: The value of ``tokenizer.ggml.pre`` in a GGUF file.
        regexes: The regexes with which models with this pre-tokenizer split text, in the order in which they are applied.
        takes_words: Whether a word that is in the vocabulary becomes a single token, whatever the merges are.
        also: Other names with the same regexes and the same ``takes_words``, separated by spaces.
        differs: Description of ordinary text that llama.cpp and the regexes split differently, or an empty string.
        rarely: Description of rare text that llama.cpp and the regexes split differently, or an empty string.
    """

    name: str
    regexes: tuple[str, ...]
    takes_words: bool = False
    also: str = ""
    differs: str = ""
    rarely: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "regexes", tuple(map(_plain, self.regexes)))

    @property
    def names(self) -> tuple[str, ...]:
        """All names. The first is written to files."""
        return (self.name, *self.also.split())


def of_patterns(patterns: str | Sequence[str]) -> list[PreTokenizer]:
    """Return the records with these patterns. Those that split ordinary text exactly like the patterns come first.

    >>> [record.name for record in of_patterns("o200k")]
    ['granite-embed-multi-97m', 'gpt-4o']
    """
    names = [patterns] if isinstance(patterns, str) else patterns
    regexes = tuple(_plain(resolve_pattern(name)) for name in names)
    return sorted(
        (record for record in PRE_TOKENIZERS if record.regexes == regexes), key=lambda record: bool(record.differs)
    )


def called(name: str) -> PreTokenizer | None:
    """Return the record with this name, or None if llama.cpp has no such name."""
    return next((record for record in PRE_TOKENIZERS if name in record.names), None)


# ---------------------------------------------------------------- spellings

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

# Equivalent spellings, keyed by spelling. A possessive quantifier is replaced by the plain quantifier only where
# backtracking could not match more text. There, the two are equivalent.
_SPELLINGS = {
    "\r": r"\r",
    "\n": r"\n",
    "\t": r"\t",
    "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])": _CONTRACTIONS,
    "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])": _CONTRACTIONS,
    "'(?i:[sdmt]|ll|ve|re)": _CONTRACTIONS,
    r"[^\r\n\p{L}\p{N}]?+\p{L}": r"[^\r\n\p{L}\p{N}]?\p{L}",
    r"\p{L}++|": r"\p{L}+|",
    r"[^\s\p{L}\p{N}]++[\r\n": r"[^\s\p{L}\p{N}]+[\r\n",
    r"|\p{N}{1}|": r"|\p{N}|",
    # All white space up to its last line break.
    r"|\s*[\r\n]|": r"|\s*[\r\n]+|",
    "[0-9]{3}": "[0-9][0-9][0-9]",
    r"[\p{P}\$\+<=>\^~\|`]": r"[!-/:-@\[-`{-~\p{P}]",
    r"[\p{P}!-/:-@\[-`{-~]": r"[!-/:-@\[-`{-~\p{P}]",
    r"[\p{Han}]": r"\p{Han}",
}
_DIGITS = re.compile(r"\[\\p\{N\}((?:[^\x00-\x7f]-?)+)\]")


def _plain(regex: str) -> str:
    r"""Return an equivalent regex in a uniform spelling.

    >>> _plain(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}")
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
    """
    for spelling, plain_spelling in _SPELLINGS.items():
        regex = regex.replace(spelling, plain_spelling)
    # A white space character before a word is a separate piece, either as a match or between two matches.
    for ending in (r"|\s+(?!\S)", r"|\s+(?!\S)|\s"):
        if regex.endswith(ending) and regex.removesuffix(ending) + r"|\s+(?!\S)|\s+" in SPLIT_PATTERNS.values():
            regex = regex.removesuffix(ending) + r"|\s+(?!\S)|\s+"
    # Characters that are digits only in newer versions of Unicode.
    regex = _DIGITS.sub(lambda match: r"\p{N}" if _new_digits(match[1]) else match[0], regex)
    if not regex.isascii() and regex.startswith(_PUNCTUATION.removesuffix(r"\p{P}]")):
        regex = regex.replace(punctuation(), _PUNCTUATION)
    return regex


def _new_digits(characters: str) -> bool:
    runs = (range(ord(run[0]), ord(run[-1]) + 1) for run in re.findall(".-.|.", characters))
    return all(unicodedata.category(chr(point)) in ("Nd", "Nl", "No", "Cn") for run in runs for point in run)


# ---------------------------------------------------------------- the records

_GPT2, _LLAMA3, _QWEN2, _QWEN35, _O200K, _TEKKEN, _BLOOM = (
    SPLIT_PATTERNS[name] for name in ("gpt2", "llama3", "qwen2", "qwen35", "o200k", "tekken", "bloom")
)
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"
_THREE_DIGITS = "[0-9][0-9][0-9]"
# Groups of three digits from the right.
_THOUSANDS = r"\d{1,3}(?=(?:\d{3})*\b)"
_ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_ENDS_BY_POWERS = "".join(rf"\s{{{2**power}}}(?!\S)|" for power in range(9, 1, -1)) + r"\s{1,2}(?!\S)|\s{1}"
_LETTERS = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+"
_OTHERS = r" ?[^\s\p{L}\p{N}]+"
_COMMANDS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
_DEEPSEEK = rf"{_COMMANDS}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
_HAN = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_HAN_AND_HANGUL = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_NOT_HAN = r"&&[^\p{Han}]]"
_KIMI = (
    rf"\p{{Han}}+|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{_NOT_HAN}*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{_NOT_HAN}+"
    rf"{_CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{_NOT_HAN}+"
    rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{_NOT_HAN}*{_CONTRACTIONS}?|\p{{N}}{{1,3}}|{_OTHERS}[\r\n]*|{_ENDS}"
)

_CAPITALS = "words of letters beyond a to z that have a capital inside (МосБиржа)"
_MARKS = "words with combining marks (most scripts of India and Southeast Asia)"
_CASES = "words with a capital inside (camelCase)"
_NEW_PUNCTUATION = "punctuation that Unicode added in 2016 or later"
_WIDE_SPACES = "white space beyond ASCII (U+3000)"

PRE_TOKENIZERS = (
    PreTokenizer(
        "gpt-2",
        (_GPT2,),
        also="phi-2 mpt olmo jais trillion granite-docling gigachat a.x-4.0 mellum modern-bert exaone4 roberta-bpe "
        "jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code",
    ),
    PreTokenizer("smollm", (r"\p{N}", _GPT2), also="starcoder refact command-r codeshell exaone minerva-7b mellum2"),
    PreTokenizer("falcon", (f"{_PUNCTUATION}+", _GPT2, _THREE_DIGITS), rarely=_NEW_PUNCTUATION),
    PreTokenizer(
        "llama-bpe",
        (_LLAMA3,),
        takes_words=True,
        also="llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano glm4 glm5",
    ),
    PreTokenizer("dbrx", (_LLAMA3,), also="smaug-bpe chatglm-bpe"),
    PreTokenizer("jais-2", (f"{_LETTERS}|\\p{{N}}{{1,3}}|{_OTHERS}[\\r\\n]*|\\s*[\\r\\n]+|{_ENDS_BY_POWERS}",)),
    PreTokenizer("minicpm5", (r"\p{N}{1,3}", rf"{_LETTERS}|\p{{N}}+|{_OTHERS}[\r\n]*|{_ENDS}"), takes_words=True),
    PreTokenizer(
        "qwen2",
        (_QWEN2,),
        also="deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 bailingmoe bailingmoe2 llada-moe",
    ),
    PreTokenizer("qwen35", (_QWEN35,)),
    PreTokenizer("laguna", (r"[^\n]+|[\n]+", _QWEN2)),
    PreTokenizer("ufakzeka", (_QWEN2.removeprefix(f"{_CONTRACTIONS}|"),)),
    PreTokenizer("seed-coder", (rf"{_LETTERS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_ENDS}",)),
    PreTokenizer(
        "exaone-moe",
        (
            rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}|{_OTHERS}[\r\n/]?"
            r"|\s*[\r\n]|\s+(?!\S)|\s+",
        ),
    ),
    PreTokenizer("granite-embed-multi-97m", (_O200K,), takes_words=True, rarely=_CAPITALS),
    PreTokenizer("gpt-4o", (_O200K,), also="llama4 kanana2 talkie minimax-m2", differs=_MARKS, rarely=_CAPITALS),
    PreTokenizer("tiny_aya", (_THOUSANDS, _O200K), also="cohere2moe", differs=f"{_CASES}, and numbers in words (1990s)"),
    PreTokenizer("kimi-k2", (_KIMI,), differs=f"{_MARKS}, {_CASES}, and 々"),
    PreTokenizer("tekken", (_TEKKEN,), takes_words=True, differs=_MARKS, rarely=_CAPITALS),
    PreTokenizer(
        "youtu",
        (
            "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
            "|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            _O200K.replace(r"\p{N}{1,3}", r"\p{N}"),
        ),
        takes_words=True,
        differs=_CASES,
    ),
    PreTokenizer("bloom", (_BLOOM,), also="poro-chat gpt3-finnish"),
    PreTokenizer("viking", (_BLOOM, r"\p{N}")),
    PreTokenizer(
        "deepseek-llm",
        (
            r"[\r\n]",
            rf"\s?[{_DEEPSEEK_LETTERS}]+",
            "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
            r"\s+$",
            _HAN_AND_HANGUL,
            r"\p{N}",
        ),
        differs=f"{_WIDE_SPACES}, and numbers where merges join digits",
    ),
    PreTokenizer("deepseek-coder", (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN_AND_HANGUL, r"\p{N}"), differs=_WIDE_SPACES),
    PreTokenizer("deepseek-v3", (r"\p{N}{1,3}", _HAN, rf"{_DEEPSEEK}[\r\n]*|{_ENDS}"), also="hunyuan-dense joyai-llm hy_v4"),
    PreTokenizer("spark2_5", (r"\p{N}{1,3}", _HAN, rf"{_DEEPSEEK}|[\r\n]|\s+(?!\S)|\s+", r"\p{N}")),
    PreTokenizer(
        "afmoe",
        (
            r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
            "[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
            "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+",
            rf"{_DEEPSEEK}[\r\n]*|{_ENDS}",
        ),
        differs="numbers after several spaces",
    ),
    PreTokenizer("superbpe", (r"\p{N}+", r"(?=(\d{3})+(?!\d))"), differs="digits other than 0 to 9"),
    PreTokenizer(
        "chameleon",
        (
            "<sentinel:[0-9]+>",
            "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
            r"([\t\n]|    |  )",
            r"\p{N}",
            _PUNCTUATION,
            _GPT2,
        ),
        rarely=_NEW_PUNCTUATION,
    ),
    # The pre-tokenizer for files without a name.
    PreTokenizer("default", (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", _THREE_DIGITS)),
)
"""All of llama.cpp's pre-tokenizers that work on bytes."""
