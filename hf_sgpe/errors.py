"""The exceptions that bad input raises."""


class SGPEError(ValueError):
    """Bad input, described in one line that names the input and says what to do.

    The command line prints the message and exits with code 2; anything else that escapes is a bug.
    """


class NotByteLevelError(SGPEError):
    """A sound tokenizer with a part that `BPETokenizer` could not follow exactly."""


def not_installed(need: str, *packages: str, extra: str = "") -> SGPEError:
    """The error for a missing optional package.

    It names them, and not only the extra of this package that brings them, so that it works wherever this package came from.

    Args:
        need: What needs what.
        packages: What to install.
        extra: Of this package, that has them.

    >>> str(not_installed("pictures need matplotlib", "matplotlib", extra="plots"))
    'pictures need matplotlib: pip install matplotlib (or the extra [plots])'
    """
    return SGPEError(f"{need}: pip install {' '.join(packages)}" + (f" (or the extra [{extra}])" if extra else ""))
