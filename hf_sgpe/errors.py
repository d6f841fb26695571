"""The errors that bad input raises, and optional modules, whose absence is one."""

from importlib import import_module
from typing import Any


class SGPEError(ValueError):
    """Bad input, described in one line that names the input and says what to do.

    The command line prints the message and exits with code 2; anything else that escapes is a bug.
    """


class NotByteLevelError(SGPEError):
    """A valid tokenizer with a part that `BPETokenizer` cannot reproduce exactly."""


class NotInstalledError(SGPEError, ImportError):
    """A library is missing that is needed only for what was asked."""


def not_installed(need: str, *packages: str, extra: str = "") -> NotInstalledError:
    """Return the error for a missing optional package, with the command that installs it.

    It names the package and not just our extra, so that the command works even if hf_sgpe is not on an index.

    Args:
        need: The feature and the package it needs.
        packages: Packages to install.
        extra: The extra of hf_sgpe that includes them.

    >>> str(not_installed("pictures need matplotlib", "matplotlib", extra="plots"))
    'pictures need matplotlib: pip install matplotlib (or the extra [plots])'
    """
    return NotInstalledError(f"{need}: pip install {' '.join(packages)}" + (f" (or the extra [{extra}])" if extra else ""))


def optional(module: str, need: str, *packages: str, extra: str = "") -> Any:
    """Import a module that need not be installed.

    Args:
        need: As for `not_installed`, as is ``extra``.
        packages: The same; none for one that is called like the module.

    Raises:
        NotInstalledError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise not_installed(need, *(packages or (module,)), extra=extra) from None


def check_matplotlib() -> None:
    """Make sure that a script can draw, before it takes an hour.

    Raises:
        NotInstalledError: matplotlib is not installed.
    """
    optional("matplotlib", "pictures need matplotlib", extra="plots")
