"""The queue of requests for an engine. Requests wait in order, and a single thread generates one text at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from hf_sgpe.errors import SGPEError


class LineFullError(SGPEError):
    """An error for a request when too many others are already waiting."""


class LineClosedError(SGPEError):
    """An error for requests while the server is shutting down."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


class Ticket:
    """A request for one or more texts, each of which is an iterator.

    Args:
        receive: Callback that gets the index of a text, and an item from its iterator or the error that ended the ticket.
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


class Line:
    """A queue of tickets, and the thread that serves them. After each text, a ticket with remaining texts moves to the end
    of the queue, so that a request for many texts does not delay other requests. At most ``most`` tickets wait.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="hf_sgpe-line", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        with self._changed:
            return len(self._waiting) + (self._running is not None)

    @property
    def waiting(self) -> int:
        with self._changed:
            return len(self._waiting)

    def add(self, ticket: Ticket) -> None:
        """Add a ticket at the end of the queue, or raise a `LineFullError` or `LineClosedError`."""
        with self._changed:
            if self._is_closed:
                raise LineClosedError
            if len(self._waiting) + (self._running is not None) > self.most:
                raise LineFullError(f"{self.most:,} requests are already waiting: try again later")
            self._waiting.append(ticket)
            self._changed.notify()

    def cancel(self, ticket: Ticket) -> None:
        """Remove a ticket from the queue, or end it before its next token."""
        with self._changed:
            ticket._is_cancelled = True
            if ticket in self._waiting:
                self._waiting.remove(ticket)

    def close(self) -> None:
        """Accept no more tickets, and end all tickets with a `LineClosedError`."""
        with self._changed:
            self._is_closed = True
            ended = [*self._waiting, *([self._running] if self._running else [])]
            self._waiting.clear()
            for ticket in ended:
                if not ticket._is_cancelled:
                    ticket._is_cancelled = True
                    ticket.receive(ticket._next, LineClosedError())
            self._changed.notify()

    def finish(self) -> None:
        """Accept no more tickets, but serve those that are already in the queue."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def join(self) -> None:
        """Wait for the thread to end, after `close` or `finish`."""
        self._thread.join()

    def _work(self) -> None:
        while (ticket := self._first()) is not None:
            number = ticket._next
            ticket._next += 1
            try:
                with closing(ticket.texts[number]) as text:  # type: ignore[type-var]
                    for item in text:
                        if ticket.is_cancelled():
                            break
                        ticket.receive(number, item)
            except Exception as error:
                self._end(ticket, error, number)
            else:
                self._end(ticket)

    def _first(self) -> Ticket | None:
        with self._changed:
            while not self._waiting:
                if self._is_closed:
                    return None
                self._changed.wait()
            self._running = self._waiting.popleft()
            return self._running

    def _end(self, ticket: Ticket, error: Exception | None = None, number: int = 0) -> None:
        with self._changed:
            self._running = None
            if ticket.is_cancelled():
                return
            if error is not None:
                ticket._is_cancelled = True
                ticket.receive(number, error)
            elif ticket._next < len(ticket.texts):
                self._waiting.append(ticket)
