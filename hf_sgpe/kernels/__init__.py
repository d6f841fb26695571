"""The choice of kernels for the whole package: native C++ kernels if they were built, otherwise readable Python.

Code with a fast path uses it if `is_native` returns True, and otherwise uses the readable path. Both paths have the same
results. The environment variable ``HF_SGPE_KERNEL=python`` forces the readable path, and ``HF_SGPE_KERNEL=native`` forces
the native path.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
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
"""The character classes in split patterns, keyed by their number in the native scanners. All other characters are in class
0.
"""

_ENVIRONMENT = "HF_SGPE_KERNEL"
_AT_INSTALLATION = "HF_SGPE_PURE"

logger = logging.getLogger(__name__)

# The readable kernels process this many characters in a fraction of a second.
_LITTLE_TEXT = 1 << 16
_slow_characters = 0


def is_native() -> bool:
    """Return whether code must use the native kernels (the module ``hf_sgpe._native``).

    Raises:
        SGPEError: the kernels that ``HF_SGPE_KERNEL`` requires do not exist.
    """
    return _is_wanted_and_there(os.environ.get(_ENVIRONMENT, ""))


def has_scanners() -> bool:
    """Return whether the native scanners, which split text into words, can be used. They can be used if the native kernels
    are in use and have the same character classes as the installed ``tokenizers`` library.
    """
    return is_native() and classes_agree()


def describe() -> str:
    """Return the name of the kernels in use. If the native kernels are not used, or only in part, the reason follows."""
    if is_native():
        return "native" if classes_agree() else "native, without scanners: tokenizers uses another version of Unicode"
    forced = os.environ.get(_ENVIRONMENT) == "python"
    return f"python ({_ENVIRONMENT}=python)" if forced else f"python ({_why_not_native()}: see README)"


def note_slow_use(characters: int) -> None:
    """Warn once that the readable kernels are slow, if they process much text and the user has not chosen them. The warning
    contains a remedy.

    Args:
        characters: Number of characters in this call. Characters of earlier calls count, too.
    """
    global _slow_characters
    if _slow_characters > _LITTLE_TEXT:
        return
    _slow_characters += characters
    if _slow_characters <= _LITTLE_TEXT or os.environ.get(_ENVIRONMENT) == "python":
        return
    if is_native():
        if not classes_agree():
            logger.warning(
                "the installed tokenizers library has another version of Unicode than the native kernels, so readable "
                "Python splits text into words, about a dozen times slower: install another version of tokenizers"
            )
    elif not _is_pure():
        logger.warning(
            "%s, so this runs in readable Python, about a dozen times slower: install a C++ compiler, and then install this "
            "package again (in a clone: pip install --force-reinstall --no-deps .)",
            _why_not_native(),
        )


def leave_slow_use_to_others() -> None:
    """Turn off the warning of `note_slow_use` in a worker process, because its parent already warns."""
    global _slow_characters
    _slow_characters = _LITTLE_TEXT + 1


def stay_readable() -> None:
    """Turn off the native kernels in a worker process, because its parent does not use them."""
    os.environ[_ENVIRONMENT] = "python"


@cache
def classes_agree() -> bool:
    """Return whether the native kernels have the same character classes as ``tokenizers``. Return True if the classes of
    ``tokenizers`` cannot be read.
    """
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
        raise SGPEError(f"{_ENVIRONMENT} is {wanted!r}: set it to native or python")
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
    """Return whether ``HF_SGPE_PURE`` excludes the native kernels, at installation or now."""
    return importlib.util.find_spec("hf_sgpe._pure") is not None or os.environ.get(_AT_INSTALLATION, "0") not in ("", "0")
