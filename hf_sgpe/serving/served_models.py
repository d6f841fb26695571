"""The models of a running server. Each has its own queue of requests, and can be replaced while requests are answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from hf_sgpe.serving.parameters import RequestError, kind, wrong
from hf_sgpe.serving.request_queue import RequestQueue
from hf_sgpe.serving.requests import Served


class Model:
    """A served model and its queue of requests."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.queue = RequestQueue(served.limits.max_waiting)
        self._created = int(time.time())

    @property
    def card(self) -> dict[str, Any]:
        """The entry of the model in the response of ``/v1/models``."""
        return {
            "id": self.served.name,
            "object": "model",
            "created": self._created,
            "owned_by": "hf_sgpe",
            "max_model_len": self.served.generator.engine.context_length,
        }


class Models:
    """The models of a server. All methods except `join` must be called in its event loop, and return at once."""

    def __init__(self, served: Iterable[Served]) -> None:
        self._current = {one.name: Model(one) for one in served}
        self._leaving: list[tuple[Model, threading.Thread]] = []

    def __iter__(self) -> Iterator[Model]:
        return iter(self._current.values())

    def pick(self, name: Any) -> Model:
        """Return the model that a request names. If the server has only one model, the name may be None."""
        names = [*self._current]
        if name is None and len(names) != 1:
            raise wrong("model", f"is missing: choose from {', '.join(map(repr, names))}")
        if name is not None and not isinstance(name, str):
            raise wrong("model", f"must be a string, not {kind(name)}")
        if name is not None and name not in names:
            message = f"unknown model {name[:200]!r}: this server has {', '.join(map(repr, names))}"
            raise RequestError(message, status=404, param="model", code="model_not_found")
        return self._current[names[0] if name is None else name]

    def has(self, model: Model) -> bool:
        """Return whether a model has been neither replaced nor removed."""
        return model in self._current.values()

    def replace(self, served: Iterable[Served]) -> None:
        """Replace the models. One that stays keeps its queue; one that is removed answers its requests and is closed."""
        before = self._current
        kept = {id(model.served): model for model in before.values()}
        self._current = {one.name: kept[id(one)] if id(one) in kept else Model(one) for one in served}
        self._leaving = [(model, thread) for model, thread in self._leaving if thread.is_alive()]
        for model in before.values():
            if not self.has(model):
                model.queue.finish()
                thread = threading.Thread(target=_leave, args=(model,), name="hf_sgpe-leaving", daemon=True)
                self._leaving.append((model, thread))
                thread.start()

    @property
    def running(self) -> int:
        return sum(max(len(model.queue) - model.queue.waiting, 0) for model in self._models())

    @property
    def waiting(self) -> int:
        return sum(model.queue.waiting for model in self._models())

    def close(self) -> None:
        """End all requests with an error."""
        for model in self._models():
            model.queue.close()
            model.served.generator.end_trials()

    def join(self) -> None:
        """Wait for the threads of the queues to end, after `close`."""
        for model in self:
            model.queue.join()
        for _, thread in self._leaving:
            thread.join()

    def _models(self) -> list[Model]:
        return [*self, *(model for model, _ in self._leaving)]


def _leave(model: Model) -> None:
    """Answer the requests in the queue of a model, and free its memory."""
    model.queue.join()
    model.served.generator.close()
