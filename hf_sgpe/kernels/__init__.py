"""The one place that chooses between the kernels: native ones in C++ if they were built, else the readable Python.

Code with a fast path asks `is_native` first, and otherwise takes the readable path. Results are the same either way.
``HF_SGPE_KERNEL=python`` in the environment forces the readable path, ``HF_SGPE_KERNEL=native`` refuses it.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from hf_sgpe.errors import SGPEError
from hf_sgpe.kernels import tokenizers_library

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


def is_native() -> bool:
    """Return whether the native kernels, the module ``hf_sgpe._native``, are to be used.

    Raises:
        SGPEError: the environment asks for a kernel that is not there.
    """
    return not _readable_only and _is_wanted_and_there(os.environ.get(_ENVIRONMENT, ""))


def has_scanners() -> bool:
    """Return whether the native scanners can be used: the installed ``tokenizers`` has their character classes."""
    return is_native() and classes_agree()


def describe() -> str:
    """Return which kernels are in use, and why if they are the readable ones."""
    if is_native():
        return "native" if classes_agree() else "native, without scanners: tokenizers uses another version of Unicode"
    forced = _readable_only or os.environ.get(_ENVIRONMENT) == "python"
    return f"python ({_ENVIRONMENT}=python)" if forced else f"python ({_why_not_native()}: see README)"


def note_slow_use(characters: int) -> None:
    """Warn once, where readable forms get more than a little text that nobody chose them for, how to have it faster.

    Args:
        characters: How many are treated now; those of all calls add up.
    """
    global _slow_characters
    if _readable_only or _slow_characters > _LITTLE_TEXT:
        return
    _slow_characters += characters
    if _slow_characters <= _LITTLE_TEXT or os.environ.get(_ENVIRONMENT) == "python":
        return
    if is_native():
        if not classes_agree():
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
    """Keep `note_slow_use` silent in this process, which works for another one that warns already."""
    global _slow_characters
    _slow_characters = _LITTLE_TEXT + 1


def stay_readable() -> None:
    """Go without the native kernels in this process, which works for another one without them."""
    global _readable_only
    _readable_only = True


@contextmanager
def readable_only() -> Iterator[None]:
    """Run a block without the native kernels. What was made before it keeps the kernel that it was made with."""
    global _readable_only
    before, _readable_only = _readable_only, True
    try:
        yield
    finally:
        _readable_only = before


@cache
def classes_agree() -> bool:
    """Return whether the engine of ``tokenizers``, if it shows it, sees characters of Unicode's versions as we do."""
    if not tokenizers_library.shows_its_parts():
        return True
    import hf_sgpe._native as _native

    text = "".join(map(chr, _native.CANARIES))
    for number, name in CHARACTER_CLASSES.items():
        ours = {character for character in text if _native.class_of(ord(character)) == number}
        if tokenizers_library.matching(name, text) != ours:
            return False
    return True


@cache
def _is_wanted_and_there(wanted: str) -> bool:
    if wanted not in ("", "native", "python"):
        raise SGPEError(f"{_ENVIRONMENT} is {wanted!r}: known are native and python")
    if wanted == "python":
        return False
    try:
        importlib.import_module("hf_sgpe._native")
    except ImportError as error:
        if wanted == "native":
            raise SGPEError(f"{_ENVIRONMENT}=native, but the native kernels were not built ({error})") from None
        return False
    return True


def _why_not_native() -> str:
    if _is_pure():
        return f"installed with {_AT_INSTALLATION}=1"
    is_there = importlib.util.find_spec("hf_sgpe._native") is not None
    return f"the native kernels {'cannot be loaded' if is_there else 'were not built'}"


def _is_pure() -> bool:
    """Return whether somebody chose to have no native kernels, when this was installed or now."""
    return importlib.util.find_spec("hf_sgpe._pure") is not None or os.environ.get(_AT_INSTALLATION, "0") not in ("", "0")
