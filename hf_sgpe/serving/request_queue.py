"""The line in front of an engine: requests wait in order, and one thread works on them, one text at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from hf_sgpe.errors import SGPEError


class LineFullError(SGPEError):
    """As many requests wait as may."""


class LineClosedError(SGPEError):
    """The server is shutting down."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


class Ticket:
    """A place in the line, for one or more texts.

    Attributes:
        texts: Of each, an iterator that does the work; the line's thread runs them one after another.
        receive: Called with the number of the text and what its iterator gave, or the error that ended the ticket; what
            comes after one does not count. Mostly in the line's thread, and it must not raise.
    """

    def __init__(self, receive: Callable[[int, Any], None]) -> None:
        self.texts: Sequence[Iterator[Any]] = ()
        self.receive = receive
        self._next = 0
        self._is_cancelled = False

    def is_cancelled(self) -> bool:
        """Return whether nobody waits for it any more. An iterator that can ask should, and end."""
        return self._is_cancelled


class Line:
    """Tickets that wait for their turn, and the thread that works on them.

    After one text of a ticket comes the next ticket, and it goes to the end of the line with the rest of its texts:
    a client that asks for many does not hold up the others.

    Args:
        most: Tickets that may wait, besides the one that is worked on.
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
        """Return the number of tickets in it, with the one that is worked on."""
        with self._changed:
            return len(self._waiting) + (self._running is not None)

    def add(self, ticket: Ticket) -> None:
        """Put a ticket at the end.

        Raises:
            LineFullError: as many wait as may.
            LineClosedError: it is closed.
        """
        with self._changed:
            if self._is_closed:
                raise LineClosedError
            if len(self._waiting) + (self._running is not None) > self.most:
                raise LineFullError(f"{self.most:,} requests wait already: try again later")
            self._waiting.append(ticket)
            self._changed.notify()

    def cancel(self, ticket: Ticket) -> None:
        """Take a ticket out; where it is worked on, that ends before the next token."""
        with self._changed:
            ticket._is_cancelled = True
            if ticket in self._waiting:
                self._waiting.remove(ticket)

    def close(self) -> None:
        """Take no more, and end all that there is with a `LineClosedError`; `join` waits for that."""
        with self._changed:
            self._is_closed = True
            ended = [*self._waiting, *([self._running] if self._running else [])]
            self._waiting.clear()
            for ticket in ended:
                if not ticket._is_cancelled:
                    ticket._is_cancelled = True
                    ticket.receive(ticket._next, LineClosedError())
            self._changed.notify()

    def join(self) -> None:
        """Wait until nothing is worked on any more, after `close`."""
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
