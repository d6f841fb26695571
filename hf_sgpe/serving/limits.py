"""What clients may ask a served model for."""

from __future__ import annotations

from dataclasses import dataclass, field

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import as_option


@dataclass(frozen=True)
class Limits:
    """What one request may ask for.

    Args:
        max_new_tokens: In each answer; a chat that names no number gets as many, or as the context has room for.
        max_choices: Answers in all: prompts times ``n``.
        max_waiting: Requests that may wait while another is worked on.
        max_body: Bytes in its body.

    Raises:
        SGPEError: a number is too small.
    """

    max_new_tokens: int = field(default=4096, metadata=as_option("The most tokens in an answer that a request may ask for."))
    max_choices: int = field(default=16, metadata=as_option("The most answers that a request may ask for."))
    max_waiting: int = field(default=128, metadata=as_option("Requests that may wait while another is answered."))
    max_body: int = field(default=4 << 20, metadata=as_option("The most bytes in the body of a request."))

    def __post_init__(self) -> None:
        for name, least in (("max_body", 1), ("max_new_tokens", 1), ("max_choices", 1), ("max_waiting", 0)):
            if getattr(self, name) < least:
                raise SGPEError(f"{name} must be at least {least}, not {getattr(self, name)}")
