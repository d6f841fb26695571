"""The queue of requests for an engine. Requests wait in order, and a single thread generates one text at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from hf_sgpe.errors import BusyError, SGPEError


class QueueClosedError(SGPEError):
    """An error for requests while the server is shutting down."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


class QueuedRequest:
    """A request for one or more texts, each of which is an iterator.

    Args:
        receive: Callback that gets the index of a text, and an item from its iterator or the error that ended the request.
            It usually runs in the thread of the queue. It must raise no exception, and ignore calls after an error.
    """

    def __init__(self, receive: Callable[[int, Any], None]) -> None:
        self.texts: Sequence[Iterator[Any]] = ()
        self.receive = receive
        self._next = 0
        self._is_cancelled = False

    def is_cancelled(self) -> bool:
        """Return whether the iterators in `texts` should end."""
        return self._is_cancelled


class RequestQueue:
    """A queue of requests, and the thread that serves them. After each text, a request with remaining texts moves to the end
    of the queue, so that a request for many texts does not delay other requests. At most ``most`` requests wait.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: deque[QueuedRequest] = deque()
        self._running: QueuedRequest | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="hf_sgpe-queue", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        with self._changed:
            return len(self._waiting) + (self._running is not None)

    @property
    def waiting(self) -> int:
        with self._changed:
            return len(self._waiting)

    def add(self, request: QueuedRequest) -> None:
        """Add a request at the end of the queue, or raise a `BusyError` or `QueueClosedError`."""
        with self._changed:
            if self._is_closed:
                raise QueueClosedError
            if len(self._waiting) + (self._running is not None) > self.most:
                raise BusyError(f"{self.most:,} requests are already waiting: try again later")
            self._waiting.append(request)
            self._changed.notify()

    def cancel(self, request: QueuedRequest) -> None:
        """Remove a request from the queue, or end it before its next token."""
        with self._changed:
            request._is_cancelled = True
            if request in self._waiting:
                self._waiting.remove(request)

    def close(self) -> None:
        """Accept no more requests, and end all requests with a `QueueClosedError`."""
        with self._changed:
            self._is_closed = True
            ended = [*self._waiting, *([self._running] if self._running else [])]
            self._waiting.clear()
            for request in ended:
                if not request._is_cancelled:
                    request._is_cancelled = True
                    request.receive(request._next, QueueClosedError())
            self._changed.notify()

    def finish(self) -> None:
        """Accept no more requests, but serve those that are already in the queue."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def join(self) -> None:
        """Wait for the thread to end, after `close` or `finish`."""
        self._thread.join()

    def _work(self) -> None:
        while (request := self._first()) is not None:
            number = request._next
            request._next += 1
            try:
                with closing(request.texts[number]) as text:  # type: ignore[type-var]
                    for item in text:
                        if request.is_cancelled():
                            break
                        request.receive(number, item)
            except Exception as error:
                self._end(request, error, number)
            else:
                self._end(request)

    def _first(self) -> QueuedRequest | None:
        with self._changed:
            while not self._waiting:
                if self._is_closed:
                    return None
                self._changed.wait()
            self._running = self._waiting.popleft()
            return self._running

    def _end(self, request: QueuedRequest, error: Exception | None = None, number: int = 0) -> None:
        with self._changed:
            self._running = None
            if request.is_cancelled():
                return
            if error is not None:
                request._is_cancelled = True
                request.receive(number, error)
            elif request._next < len(request.texts):
                self._waiting.append(request)
