"""Running the application by uvicorn, until it is told to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette

from hf_sgpe.errors import SGPEError


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that has a port, and does not listen yet: until a model is loaded, clients are to be turned away.

    Args:
        port: 0 for any that is free.

    Raises:
        SGPEError: there is no such host, or the port is taken.
    """
    if not 0 <= port < 1 << 16:
        raise SGPEError(f"--port must be from 0 to 65535, not {port}")
    bound = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":  # elsewhere two servers could then have the same port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError) as error:
        if bound is not None:
            bound.close()
        reason = getattr(error, "strerror", None) or error
        raise SGPEError(f"{host} port {port}: cannot listen there ({reason}): name others by --host and --port") from None
    return bound


def url_of(bound: socket.socket) -> str:
    """Return the address where clients find it."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def is_open_to_others(bound: socket.socket) -> bool:
    """Return whether other machines may reach it."""
    return not ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


def server_of(app: Starlette, on_start: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """Return what runs an application, until Ctrl-C or SIGTERM: those who wait then are told so, and what is generated ends.

    Args:
        on_start: Called when it takes requests.
    """
    # What is wrong with a request its client is told; only errors of ours are printed.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    return _Server(uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="on"), on_start)


class _Server(uvicorn.Server):
    """Ends what the line holds as soon as it is told to stop; uvicorn would wait for it."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._on_start()

    def handle_exit(self, sig: int, frame: Any) -> None:
        # Its own would send the signal again after all is done, and the exit code would not be 0.
        self.force_exit = self.should_exit
        self.should_exit = True
        assert isinstance(self.config.app, Starlette)
        if hasattr(self.config.app.state, "line"):
            # Not here: what the signal has interrupted may hold the line's lock.
            self._loop.call_soon_threadsafe(self.config.app.state.line.close)
