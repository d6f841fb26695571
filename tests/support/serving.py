"""A server in a thread of the test process, on a free port."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hf_sgpe.serving.request_queue import RequestQueue
from hf_sgpe.serving.requests import Served

for _package in ("starlette", "uvicorn"):
    pytest.importorskip(_package, reason="serving needs: pip install starlette uvicorn")


class Running:
    """A running server, until `stop`."""

    def __init__(self, *served: Served, **settings: Any) -> None:
        from hf_sgpe.serving import server
        from hf_sgpe.serving.routes import create_app

        self.served = served[0]
        self.app = create_app(*served, **settings)
        self._bound = server.bind("127.0.0.1", 0)
        self.host, self.port = self._bound.getsockname()
        self.url = server.url_of(self._bound)
        self.server = server.server_of(self.app)
        self._thread = threading.Thread(target=self.server.run, args=([self._bound],))
        self._thread.start()
        wait_until(lambda: self.server.started)

    @property
    def queue(self) -> RequestQueue:
        queue: RequestQueue = self.app.state.models.pick(None).queue
        return queue

    def stop(self) -> None:
        if self._thread.is_alive():
            self.server.handle_exit(signal.SIGINT, None)
        self._thread.join()
        self._bound.close()


@contextmanager
def serving(*served: Served, **settings: Any) -> Iterator[Running]:
    running = Running(*served, **settings)
    try:
        yield running
    finally:
        running.stop()


def wait_until(holds: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{holds} does not hold")
        time.sleep(0.005)
