"""Limits for the clients of a server. `hf_sgpe.generation.json_schemas.LIMITS` has those for the rules of an answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import as_option

HEADER_SECONDS = 15.0  # for the headers of a request to arrive
SEND_SECONDS = 60.0  # in which a client must take at least one byte of its response
FREE_CHUNKS = 1000  # number of chunks of a body that may have any size
LEAST_IN_CHUNK = 64  # bytes that each chunk must have on average if there are more
THREADS = 64  # maximum number of requests that are read at the same time


def most_connections() -> int:
    """Return the maximum number of open connections, so that the process can open 64 files for models and libraries."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        return max(min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64), 8)
    return 1000


@dataclass(frozen=True)
class Limits:
    """The limits for one request.

    Args:
        max_new_tokens: Maximum number of tokens in an answer. If a chat request sets no maximum, an answer may have this
            number of tokens, or fewer if the model's context is full before.
        max_choices: Maximum number of answers to one request. A request asks for ``n`` answers to each of its prompts.
    """

    max_new_tokens: int = field(default=4096, metadata=as_option("Maximum number of tokens in an answer."))
    max_choices: int = field(default=16, metadata=as_option("Maximum number of answers to one request."))
    max_waiting: int = field(
        default=128, metadata=as_option("Maximum number of requests that wait while another request is answered.")
    )
    max_body: int = field(default=4 << 20, metadata=as_option("Maximum size of a request's body, in bytes."))

    def __post_init__(self) -> None:
        for name, least in (("max_body", 1), ("max_new_tokens", 1), ("max_choices", 1), ("max_waiting", 0)):
            if getattr(self, name) < least:
                option = "--" + name.replace("_", "-")
                raise SGPEError(f"{option} must be at least {least}, not {getattr(self, name)}")
