"""A uvicorn server that runs the application until a signal ends it."""

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
    """Return a socket that is bound to a port but does not listen, so that connections fail until the model is loaded.

    Args:
        port: 0 for any free port.

    Raises:
        SGPEError: there is no such host, or the port is in use.
    """
    if not 0 <= port < 1 << 16:
        raise SGPEError(f"--port must be from 0 to 65535, not {port}")
    bound = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":  # on Windows this would let two servers share a port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError) as error:
        if bound is not None:
            bound.close()
        reason = getattr(error, "strerror", None) or error
        raise SGPEError(
            f"{host} port {port}: cannot listen there ({reason}): choose another host with --host, or another port with "
            "--port"
        ) from None
    return bound


def url_of(bound: socket.socket) -> str:
    """Return the URL of the API for clients."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def is_open_to_others(bound: socket.socket) -> bool:
    """Return whether other machines may reach the socket."""
    return not ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


def server_of(app: Starlette, on_start: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """Return a uvicorn server for an application. On Ctrl-C or SIGTERM, the server ends the generation and answers waiting
    clients.

    Args:
        on_start: Function that is called as soon as the server accepts requests.
    """
    # Errors in requests go to the client; only errors of the server are printed.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    return _Server(uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="on"), on_start)


class _Server(uvicorn.Server):
    """A uvicorn server that ends all tickets of the line when a signal arrives; uvicorn's own server would wait for the
    tickets.
    """

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._on_start()

    def handle_exit(self, sig: int, frame: Any) -> None:
        # uvicorn's own method raises the signal again at the end, and the exit code would not be 0.
        self.force_exit = self.should_exit
        self.should_exit = True
        assert isinstance(self.config.app, Starlette)
        if hasattr(self.config.app.state, "line"):
            # Close the line later: the interrupted code may hold its lock.
            self._loop.call_soon_threadsafe(self.config.app.state.line.close)
