"""Errors for bad input, and functions that import optional modules."""

from importlib import import_module
from typing import Any


class SGPEError(ValueError):
    """The error for bad input. Its message is one line that names the input and the remedy.

    Commands print the message and exit with code 2. Any other uncaught error is a bug.
    """


class NotByteLevelError(SGPEError):
    """The error for a valid tokenizer that `BPETokenizer` cannot reproduce exactly."""


class BusyError(SGPEError):
    """The error for a request that must be sent again later, because too many others are waiting."""


class NotInstalledError(SGPEError, ImportError):
    """The error for a missing optional library that a call needs."""


def not_installed(need: str, *packages: str, extra: str = "") -> NotInstalledError:
    """Return the error for a missing optional package, with the command that installs it.

    The command names the package itself instead of the extra of hf_sgpe. It therefore works even if hf_sgpe is not on a
    package index.

    Args:
        need: A clause that names the feature and the package that the feature needs.
        packages: Packages to install.
        extra: The extra of hf_sgpe that includes these packages.

    >>> str(not_installed("pictures need matplotlib", "matplotlib", extra="plots"))
    'pictures need matplotlib: pip install matplotlib (or the extra [plots])'
    """
    return NotInstalledError(f"{need}: pip install {' '.join(packages)}" + (f" (or the extra [{extra}])" if extra else ""))


def optional(module: str, need: str, *packages: str, extra: str = "") -> Any:
    """Import and return an optional module.

    Args:
        module: Name of the module.
        need: See `not_installed`.
        packages: Packages to install (default: the package with the same name as the module).
        extra: See `not_installed`.

    Raises:
        NotInstalledError: the module is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise not_installed(need, *(packages or (module,)), extra=extra) from None


def no_words(purpose: str, corpus: str = "") -> SGPEError:
    """Return the error for a corpus without words.

    >>> str(no_words("count")), str(no_words("learn from", "si.txt"))
    ('the corpus is empty: it has no words to count', 'si.txt: no words to learn from')
    """
    return SGPEError(f"{corpus}: no words to {purpose}" if corpus else f"the corpus is empty: it has no words to {purpose}")


def check_matplotlib() -> None:
    """Check that matplotlib is installed. Scripts call this function first, so that they do not fail after an hour of work.

    Raises:
        NotInstalledError: matplotlib is not installed.
    """
    optional("matplotlib", "pictures need matplotlib", extra="plots")
