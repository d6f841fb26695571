"""What bad input raises."""


class SGPEError(ValueError):
    """Bad input, described in one line that names the input and says what to do.

    The command line prints the message and exits with code 2; anything else that escapes is a bug.
    """


class NotByteLevelError(SGPEError):
    """A sound tokenizer with a part that `BPETokenizer` could not follow exactly."""
