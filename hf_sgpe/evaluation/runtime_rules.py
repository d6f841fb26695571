"""Runtimes, the programs that tokenizers are used in: which of them give a tokenizer's ids, by the rules of each.

Most rules are about the split alone, so training asks them before it learns. `hf_sgpe.evaluation.runtimes` tries the
runtimes that are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import model_vocab, tiktoken
from hf_sgpe.formats.llama_cpp_pre_tokenizers import PreTokenizer, of_patterns
from hf_sgpe.splitting.patterns import PATTERNS
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.weights import gguf

EXACT, NFC_ONLY, DIFFERS, REFUSED = "exact", "exact but for text that is not in the form NFC", "not exact", "refused"

LLAMA_CPP = "llama.cpp"

# Names of split patterns that these have code for; any other regex they refuse.
_OF_TOKENIZERS_1 = {"gpt2", "cl100k", "llama3", "qwen2", "o200k"}
_OF_GIGATOKEN = {"cl100k", "llama3", "qwen2", "qwen35", "o200k", "tekken"}


class Verdict(NamedTuple):
    """One of `EXACT`, `NFC_ONLY`, `DIFFERS` and `REFUSED`, and why."""

    what: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if self.why else self.what


def verdict_of(what: TokenizerData | Splitting, runtime: str) -> Verdict:
    """Return what a runtime, one of `RUNTIMES`, gives for a tokenizer, or for any that cuts text in some way."""
    if runtime == LLAMA_CPP and isinstance(what, TokenizerData):
        if merged := model_vocab.left_out(what):
            return Verdict(DIFFERS, f"it takes other text for the added tokens {', '.join(map(repr, merged))}: give it ids")
        return _in_llama_cpp(gguf.pre_tokenizer_of(what), what.splitting)
    return RUNTIMES[runtime](what.splitting)


def find_runtimes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in `RUNTIMES` that are meant, each once.

    Args:
        names: In any case, with spaces or hyphens; several can be in one text, with commas between.

    Raises:
        SGPEError: a name is unknown.

    >>> find_runtimes(["llama.cpp,Tokenizers-1.0"])
    ('llama.cpp', 'tokenizers 1.0')
    """
    known = {_typed(name): name for name in RUNTIMES}
    given = [_typed(name.strip()) for text in names for name in text.split(",")]
    if unknown := [name for name in given if name not in known]:
        raise SGPEError(f"unknown runtime {unknown[0]!r}: known are {', '.join(known)}")
    return tuple(dict.fromkeys(known[name] for name in given))


def _typed(name: str) -> str:
    """A name of a runtime as it is typed on a command line."""
    return name.casefold().replace(" ", "-")


def inexact(what: TokenizerData | Splitting, runtimes: Iterable[str], *, nfc: bool = False) -> list[str]:
    """Return those runtimes that do not give the ids of a tokenizer, or of one that cuts text in some way.

    Args:
        nfc: Whether it is enough that a runtime is exact on text in the form NFC.

    >>> inexact(Splitting(pattern="bloom"), ["llama.cpp", "transformers"])
    ['llama.cpp']
    """
    enough = {EXACT, NFC_ONLY} if nfc else {EXACT}
    return [name for name in runtimes if verdict_of(what, name).what not in enough]


def portable_patterns(runtimes: Iterable[str]) -> list[str]:
    """Return the names of the split patterns that all of some runtimes give exact ids for.

    >>> portable_patterns(["llama.cpp", "tokenizers 1.0", "gigatoken"])
    ['cl100k', 'o200k', 'llama3', 'qwen2']
    """
    runtimes = list(runtimes)
    return [name for name in PATTERNS if not inexact(Splitting("bpe", pattern=name), runtimes)]


# ---------------------------------------------------------------- the rules


def _always(splitting: Splitting) -> Verdict:
    return Verdict(EXACT)


def _unless_respelled(splitting: Splitting) -> Verdict:
    return Verdict(NFC_ONLY if splitting.normalization == "nfc" else EXACT)


def _knowing(names: set[str]) -> Callable[[Splitting], Verdict]:
    def rule(splitting: Splitting) -> Verdict:
        if splitting.recipe == "bpe" and splitting.base is not None and splitting.base.name in names:
            return Verdict(EXACT)
        return Verdict(REFUSED, f"its regexes are not among those it has code for: {', '.join(sorted(names))}")

    return rule


def _of_tiktoken(splitting: Splitting) -> Verdict:
    try:
        tiktoken.one_pattern(splitting)
    except SGPEError as error:
        return Verdict(REFUSED, str(error))
    return _unless_respelled(splitting)


def _of_llama_cpp(splitting: Splitting) -> Verdict:
    known = of_patterns(splitting.patterns) if splitting.recipe == "bpe" else []
    return _in_llama_cpp(next(iter(known), None), splitting)


def _in_llama_cpp(known: PreTokenizer | None, splitting: Splitting) -> Verdict:
    if known is None:
        return Verdict(DIFFERS, "it knows split patterns by name, and none that cuts alike: give it ids, as hf-sgpe does")
    if known.differs:
        return Verdict(DIFFERS, f"its pre-tokenizer {known.name} gives other ids for {known.differs}")
    return _unless_respelled(splitting)


RUNTIMES: dict[str, Callable[[Splitting], Verdict]] = {
    "transformers": _always,
    "tokenizers before 1.0": _always,
    "tokenizers 1.0": _knowing(_OF_TOKENIZERS_1),
    "transformers.js": _always,
    "tiktoken": _of_tiktoken,
    LLAMA_CPP: _of_llama_cpp,
    "OpenVINO Tokenizers": _unless_respelled,
    "gigatoken": _knowing(_OF_GIGATOKEN),
    "fastokens": _always,
}
"""Name of a program, with its versions if they differ → what it gives for a tokenizer that cuts text in some way."""
