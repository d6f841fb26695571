"""The one place that chooses between the kernels: native ones in C++ if they were built, else the readable Python.

Whoever has a fast path asks here for what it needs and takes the readable path when the answer is None. Results are the same
either way. ``HF_SGPE_KERNEL=python`` in the environment forces the readable path, ``HF_SGPE_KERNEL=native`` refuses it.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import regex

from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS
from hf_sgpe.splitting.scripts import Ranges, Script, runs

if TYPE_CHECKING:
    from hf_sgpe._native import Scanner, Syllables

CHARACTER_CLASSES = {
    1: r"[\p{Lu}\p{Lt}]",
    2: r"\p{Ll}",
    3: r"[\p{Lm}\p{Lo}]",
    4: r"\p{M}",
    5: r"\p{N}",
    6: r"[^\S\r\n]",
    7: r"[\r\n]",
}
"""Class of the native scanners → what the split patterns call it; every other character is 0."""

_ENVIRONMENT = "HF_SGPE_KERNEL"
_AT_INSTALLATION = "HF_SGPE_PURE"
_readable_only = False

logger = logging.getLogger(__name__)

# Characters that the readable kernels take a fraction of a second for.
_LITTLE_TEXT = 1 << 16
_slow_characters = 0


def native() -> Any:
    """The module of the native kernels, or None where the readable ones are to be used.

    Raises:
        SGPEError: the environment asks for a kernel that is not there.
    """
    return None if _readable_only else _load(os.environ.get(_ENVIRONMENT, ""))


def describe() -> str:
    """Which kernels are in use, and why if they are the readable ones."""
    if native() is not None:
        return "native" if _classes_agree() else "native, without scanners: tokenizers uses another version of Unicode"
    forced = _readable_only or os.environ.get(_ENVIRONMENT) == "python"
    return f"python ({_ENVIRONMENT}=python)" if forced else f"python ({_why_not_native()}: see README)"


def _why_not_native() -> str:
    if _is_pure():
        return f"installed with {_AT_INSTALLATION}=1"
    is_there = importlib.util.find_spec("hf_sgpe._native") is not None
    return f"the native kernels {'cannot be loaded' if is_there else 'were not built'}"


def _is_pure() -> bool:
    """Whether somebody chose to have no native kernels, when this was installed or now."""
    return importlib.util.find_spec("hf_sgpe._pure") is not None or os.environ.get(_AT_INSTALLATION, "0") not in ("", "0")


def note_slow_use(characters: int) -> None:
    """For the readable forms of what is native elsewhere: once they were given more than a little text, says how to have it
    faster. Says so once, and not where somebody has chosen them.

    Args:
        characters: How many are treated now; those of all calls add up.
    """
    global _slow_characters
    if _readable_only or _slow_characters > _LITTLE_TEXT:
        return
    _slow_characters += characters
    if _slow_characters <= _LITTLE_TEXT or os.environ.get(_ENVIRONMENT) == "python":
        return
    if native() is not None:
        if not _classes_agree():
            logger.warning(
                "the installed tokenizers knows another version of Unicode than the native kernels, so words are cut in "
                "readable Python, some dozen times slower: install another version of tokenizers"
            )
    elif not _is_pure():
        logger.warning(
            "%s, so this runs in readable Python, some dozen times slower: install a C++ compiler, and then this package "
            "anew, in a clone by pip install --force-reinstall --no-deps .",
            _why_not_native(),
        )


def leave_slow_use_to_others() -> None:
    """For processes whose work another one has noted: `note_slow_use` says nothing more in this one."""
    global _slow_characters
    _slow_characters = _LITTLE_TEXT + 1


@contextmanager
def readable_only() -> Iterator[None]:
    """Inside, nothing native is handed out. What was made before keeps the kernel that it was made with."""
    global _readable_only
    before, _readable_only = _readable_only, True
    try:
        yield
    finally:
        _readable_only = before


@cache
def _load(wanted: str) -> Any:
    if wanted not in ("", "native", "python"):
        raise SGPEError(f"{_ENVIRONMENT} is {wanted!r}: known are native and python")
    if wanted == "python":
        return None
    try:
        return importlib.import_module("hf_sgpe._native")
    except ImportError as error:
        if wanted == "native":
            raise SGPEError(f"{_ENVIRONMENT}=native, but the native kernels were not built ({error})") from None
        return None


def scanner(patterns: tuple[str, ...]) -> Scanner | None:
    """The native scanner that splits as ``patterns`` do one after another, or None if there is none that does.

    There is one for each of `SPLIT_PATTERNS`, alone and behind the words of scripts, and for SGPE's words; and none at all
    if the installed ``tokenizers`` has other character classes than the scanners were built with.
    """
    return None if native() is None or not _classes_agree() else _scanner(patterns)


@cache
def _scanner(patterns: tuple[str, ...]) -> Scanner | None:
    make: type[Scanner] = _load("").Scanner
    names = {pattern: name for name, pattern in SPLIT_PATTERNS.items()}
    if len(patterns) == 1:
        if patterns[0] in names:
            return make(names[patterns[0]], [], [])
        if sgpe := _SGPE_WORDS.fullmatch(patterns[0]):
            inside = _characters(sgpe["inside"])
            return make("sgpe", [runs(inside)], []) if inside and min(inside) >= 0x80 else None
    if len(patterns) == 2 and patterns[1].startswith(f"{patterns[0]}|"):
        base = names.get(patterns[1][len(patterns[0]) + 1 :])
        words = _script_words(patterns[0])
        if base and words:
            return make(base, *words)
    return None


def syllables(scripts: tuple[Script, ...]) -> Syllables | None:
    """The native form of `LinguisTrie` for these scripts, or None."""
    return None if native() is None else _syllables(scripts)


@cache
def _syllables(scripts: tuple[Script, ...]) -> Syllables:
    tables = []
    for script in scripts:
        members: dict[str, list[int]] = {letter: [] for letter in "CVNHSMR"}
        for character, letter in script.classes().items():
            if letter != "J":
                members[letter].append(ord(character))
        orphans = [ord(c) for c in script.letters_and_marks() if c not in script.classes()]
        classes = [runs([]), *(runs(members[letter]) for letter in "CVNHSMR"), runs(orphans)]
        states = list(script.syllable)
        grammar = [
            [states.index(row[letter]) if letter in row else -1 for letter in "-CVNHSMR-J"]
            for row in script.syllable.values()
        ]
        tables.append((classes, list(map(ord, script.joiners)), grammar))
    made: Syllables = _load("").Syllables(tables)
    return made


@cache
def _classes_agree() -> bool:
    """Whether the engine of the installed ``tokenizers`` sees the characters that tell Unicode's versions apart as we do."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    module = _load("")
    text = "".join(map(chr, module.CANARIES))
    for number, name in CHARACTER_CLASSES.items():
        found = Split(Regex(name), behavior="removed", invert=True).pre_tokenize_str(text)
        if {c for match, _ in found for c in match} != {c for c in text if module.class_of(ord(c)) == number}:
            return False
    return True


_CLASS = r"(?:[^\[\]\\^-](?:-[^\[\]\\^-])?)+"
_SGPE_WORDS = regex.compile(rf" \?\[(?P<inside>{_CLASS})\]\+\| \?\[\^ \\t\\n\\r\]\|\[ \\t\\n\\r\]")
_ALTERNATIVE = rf"\[(?P<first>{_CLASS})\]\[(?P<rest>{_CLASS})\]\*"
_WORDS = regex.compile(rf" \?(?:{_ALTERNATIVE}|\(\?:{_ALTERNATIVE}(?:\|{_ALTERNATIVE})*\))")


def _script_words(pattern: str) -> tuple[list[Ranges], Ranges] | None:
    """The scripts' letters and the joiners of a pattern made by `word_pattern`, or None if it is of another kind."""
    match = _WORDS.fullmatch(pattern)
    if not match:
        return None
    firsts, rests = ([_characters(text) for text in match.captures(group)] for group in ("first", "rest"))
    if not all(firsts) or not all(rests):
        return None
    joiners = rests[0] - firsts[0]
    disjoint = len(set().union(*firsts)) == sum(map(len, firsts))
    same_joiners = all(
        first.isdisjoint(joiners) and rest == first | joiners for first, rest in zip(firsts, rests, strict=True)
    )
    if not disjoint or not same_joiners or min(map(min, rests)) < 0x80:
        return None
    return [runs(first) for first in firsts], runs(joiners)


def _characters(text: str) -> set[int]:
    """The code points of what stands between the brackets of a class without escapes."""
    points: set[int] = set()
    for part in regex.findall(r".-.|.", text, flags=regex.DOTALL):
        points.update(range(ord(part[0]), ord(part[-1]) + 1))
    return points
