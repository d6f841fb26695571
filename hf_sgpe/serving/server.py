"""A uvicorn server that runs the application until a signal ends it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from hf_sgpe.errors import SGPEError
from hf_sgpe.serving.limits import FREE_CHUNKS, HEADER_SECONDS, LEAST_IN_CHUNK, SEND_SECONDS, most_connections
from hf_sgpe.serving.requests import Served

logger = logging.getLogger(__name__)

_NEWEST = 8  # connections that wait for their clients and stay open, however many requests are being answered
_SECONDS_TO_END = 5  # from a signal until all connections are closed, also those of clients that do not read their answers
_SECONDS_TO_EXIT = 10  # from a signal until the process ends, even if a thread still reads a request or computes a token


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound but does not listen, so that connections fail until the model is loaded."""
    if not 0 <= port < 1 << 16:
        raise SGPEError(f"--port must be from 0 to 65535, not {port}")
    bound = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":  # on Windows this would let two servers share a port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # With the megabytes of the system's own choice, a slow client would seem to take nothing for minutes.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
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
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def is_open_to_others(bound: socket.socket) -> bool:
    return not ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


def hosts_of(bound: socket.socket, host: str) -> set[str]:
    """Return the names by which this machine reaches the socket, or an empty set if others may reach it by any name."""
    if is_open_to_others(bound):
        return set()
    return {"localhost", "127.0.0.1", "::1", bound.getsockname()[0], host.lower()}


def server_of(
    app: Starlette, on_start: Callable[[], None] = lambda: None, reload: Callable[[], Sequence[Served]] | None = None
) -> uvicorn.Server:
    """Return a uvicorn server for an application. On Ctrl-C or SIGTERM, it ends all requests with an error. ``on_start`` is
    called as soon as it accepts requests; ``reload`` returns the models to serve after a SIGHUP, in a thread.
    """
    # Errors in requests go to the client; only errors of the server are printed.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app, http=_Protocol, ws="none", lifespan="on", log_config=None, access_log=False, server_header=False
    )
    return _Server(config, on_start, reload)


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, on_start: Callable[[], None], reload: Callable[[], Sequence[Served]] | None
    ) -> None:
        super().__init__(config)
        self._on_start = on_start
        self._reload = reload
        self._reloading: asyncio.Task[None] | None = None
        self._is_changed = False  # since the current reload began
        self._waits: dict[Any, tuple[Any, float]] = {}
        self._quiet_until = 0.0
        self._exit: threading.Timer | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._report)
        await super().startup(sockets)
        # Only the main thread may handle signals.
        if self._reload is not None and hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            self._loop.add_signal_handler(signal.SIGHUP, self.reload)
        self._on_start()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        finally:
            if self._exit is not None:
                self._exit.cancel()

    async def on_tick(self, counter: int) -> bool:
        self._close_waiting()
        return await super().on_tick(counter)

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "out of system resource" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif loop.time() > self._quiet_until:  # the event loop reports each attempt
            self._quiet_until = loop.time() + 60
            logger.error("too many connections: the system allows this process no more open files (ulimit -n)")

    def _close_waiting(self) -> None:
        """Close connections that wait for their clients: after a time or, if there are too many connections, at once."""
        now = self._loop.time()
        before, self._waits = self._waits, {}
        for connection in self.server_state.connections:
            if (awaited := _awaited(connection)) is not None:
                known = before.get(connection)
                self._waits[connection] = known if known is not None and known[0] == awaited else (awaited, now)
        longest_first = sorted(self._waits, key=lambda connection: self._waits[connection][1])
        busy = len(self.server_state.connections) - len(longest_first)
        excess = len(longest_first) - max(most_connections() - busy, _NEWEST)
        for place, connection in enumerate(longest_first):
            awaited, since = self._waits[connection]
            if place < excess or now - since > awaited[0]:
                connection.transport.abort()

    def reload(self) -> None:
        """Load changed models while the server runs. A call during a reload causes one more after it."""
        self._is_changed = True
        if self._reloading is None or self._reloading.done():
            self._reloading = self._loop.create_task(self._replace_models())

    async def _replace_models(self) -> None:
        assert self._reload is not None
        assert isinstance(self.config.app, Starlette)
        while self._is_changed and not self.should_exit:
            self._is_changed = False
            served = await asyncio.to_thread(self._reload)
            self.config.app.state.models.replace(served)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # The base class would wait for clients that do not read their answers, or that do not send the rest of a body.
        self._loop.call_later(_SECONDS_TO_END, self._close_connections)
        if threading.current_thread() is threading.main_thread():  # in another thread, the process is not the server's
            # Python and asyncio would wait for all threads.
            self._exit = threading.Timer(_SECONDS_TO_EXIT, os._exit, (0,))
            self._exit.daemon = True
            self._exit.start()
        await super().shutdown(sockets)

    def _close_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def handle_exit(self, sig: int, frame: Any) -> None:
        # uvicorn's own method raises the signal again at the end, and the exit code would not be 0.
        self.force_exit = self.should_exit
        self.should_exit = True
        assert isinstance(self.config.app, Starlette)
        if hasattr(self.config.app.state, "models"):
            # Close the lines later: the interrupted code may hold a lock.
            self._loop.call_soon_threadsafe(self.config.app.state.models.close)


class _Parser(h11.Connection):
    """A parser of requests that refuses bodies in tiny chunks: each chunk takes the time of some kilobytes."""

    _chunks = _bytes = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > FREE_CHUNKS and self._bytes < self._chunks * LEAST_IN_CHUNK:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        return event


class _Protocol(H11Protocol):
    def __init__(self, *settings: Any, **named_settings: Any) -> None:
        super().__init__(*settings, **named_settings)
        self.conn = _Parser(h11.SERVER)

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # a response has begun or ended
            self.transport.close()


def _awaited(connection: Any) -> tuple[float, Any, int] | None:
    """Return what a connection of uvicorn waits for its client to do, and first the seconds for it. The value stays equal
    while the client does nothing. While a request is being answered, return None.
    """
    request, unsent = connection.cycle, connection.transport.get_write_buffer_size()
    if unsent:
        return SEND_SECONDS, request, unsent
    if request is None or request.response_complete:
        return HEADER_SECONDS, request, 0
    return (inf, request, 0) if request.more_body else None  # the routes have a time limit for the body
