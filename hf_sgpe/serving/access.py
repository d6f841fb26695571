"""Access control of the server: API keys, names of the server, and the web pages that may send requests (CORS)."""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import read_utf8
from hf_sgpe.serving.parameters import RequestError

_ORIGIN = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?")


def read_keys(path: Path) -> list[str]:
    """Return the API keys from a file with one key per line. Blank lines are skipped."""
    try:
        keys = [key for line in read_utf8(path).splitlines() if (key := line.strip())]
    except FileNotFoundError:
        raise SGPEError(f"--api-key-file {path}: no such file") from None
    if not keys:
        raise SGPEError(f"--api-key-file {path}: the file has no key: write one key per line")
    for number, key in enumerate(keys, 1):
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise SGPEError(f"--api-key-file {path}: key {number} must be printable ASCII without spaces")
    return keys


def check_key(request: Request, keys: Collection[str]) -> None:
    """Check that a request sends one of the server's API keys. If the server has no keys, allow every request."""
    if not keys:
        return
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    given = key.strip().encode("latin-1")
    # All keys are compared, so that the response time does not reveal a similar key.
    matches = [hmac.compare_digest(given, known.encode()) for known in keys]
    if scheme.lower() != "bearer" or not any(matches):
        message = "the API key is missing or wrong: send it as Authorization: Bearer KEY"
        raise RequestError(message, status=401, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})


def check_host(request: Request, hosts: Collection[str]) -> None:
    """Check that the header ``Host`` of a request is one of the server's names, with any port. No names allow all requests.

    A web page can let its own domain lead to this machine (DNS rebinding). The browser then sends requests without asking
    for permission, but with this domain as ``Host``. Names are in lower case, and IP addresses have no brackets.
    """
    given = request.headers.get("host", "")
    host = re.sub(r":[0-9]*$", "", given).removeprefix("[").removesuffix("]").lower()
    if hosts and host not in hosts:
        message = (
            f"the Host header is {given!r}, which is not a name of this server: send requests to localhost, or start the "
            "server with a key (HF_SGPE_API_KEY)"
        )
        raise RequestError(message, status=403, code="unknown_host")


def check_origins(origins: Sequence[str]) -> None:
    """Check that each string is ``*`` or an origin as browsers send it, such as ``https://example.org``."""
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise SGPEError(
                f"--cors-origin {origin}: not an origin: write it as https://example.org or http://localhost:3000, without "
                "a path, or * for all web pages"
            )


def for_web_pages(origins: Sequence[str]) -> list[Middleware]:
    """Return the middleware (CORS) that lets web pages of these origins use the server, if there are any."""
    settings: dict[str, Any] = {
        "allow_origins": list(origins),
        "allow_methods": ["GET", "POST"],
        "allow_headers": ["*"],  # clients in browsers send headers of their own, such as x-stainless-lang
        "expose_headers": ["Retry-After"],
    }
    return [Middleware(CORSMiddleware, **settings)] if origins else []
