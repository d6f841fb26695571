"""Reading the parameters of a request in OpenAI's format. Each error names the wrong parameter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

from hf_sgpe.errors import BusyError, SGPEError


class RequestError(Exception):
    """An error that the server sends to the client, with the fields of OpenAI's errors."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        message = _shortened(message)
        param = param if param is None else _shortened(param)
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body = {"error": {"message": message, "type": type, "param": param, "code": code}}


# Why not pydantic: for a wrong prompt, pydantic reports an error for each alternative of the union, without OpenAI's name
# for the parameter; it accepts true as 1; and the server's limits would still need separate checks.
class Parameters:
    """The parameters of a request.

    Args:
        known: Names of the supported parameters.
        without_effect: The values of unsupported parameters that are accepted, because they have no effect; also null.
        where: Prefix for the names of parameters in error messages, such as ``stream_options.``.
    """

    def __init__(
        self, record: Mapping[str, Any], known: set[str], without_effect: Mapping[str, tuple[Any, ...]], where: str = ""
    ) -> None:
        self.record = record
        self._where = where
        for name, value in record.items():
            if name in known or name in _LABELS:
                continue
            param = where + name
            if name not in without_effect:
                raise RequestError(f"unknown parameter {param}: leave it out", param=param, code="unknown_parameter")
            if value not in (None, *without_effect[name]):
                message = f"{param} is not supported by this server: leave it out"
                raise RequestError(message, param=param, code="unsupported_parameter")

    def get(self, name: str) -> Any:
        return self.record.get(name)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise wrong(self._where + name, f"must be true or false, not {kind(value)}")
        return default if value is None else value

    def whole_number(self, name: str, default: int, most: int | None = None, *, least: int = 1) -> int:
        value = self.get(name)
        if value is None:
            return default
        if type(value) is not int or value < least or (most is not None and value > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise wrong(name, f"must be a whole number {bounds}, not {json.dumps(value)[:40]}")
        return value

    def texts_or_ids(self, name: str) -> list[str | list[int]]:
        """Return the texts of a parameter that is a string, a list of token ids, or a list of such texts."""
        value = self.get(name)
        texts = [value] if isinstance(value, str) or (are_ids(value) and value) else value
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) or are_ids(text) for text in texts):
            raise wrong(name, "must be a string, token ids, or a non-empty list of either")
        return texts

    def one_of(self, names: tuple[str, ...]) -> str:
        """Return the name under which the request gives a parameter with several names, or the first name."""
        used = [name for name in names if self.get(name) is not None]
        if len(used) > 1:
            raise RequestError(f"{' and '.join(used)} mean the same: give only one", param=used[1])
        return (*used, *names)[0]


def wrong(param: str, problem: str) -> RequestError:
    """Return the error for a parameter with a wrong value. Its message begins with the parameter's name."""
    return RequestError(f"{param} {problem}", param=param)


@contextmanager
def about(name: str) -> Iterator[None]:
    """Convert an SGPEError of the ``with`` block, except a BusyError, into a RequestError about the parameter ``name``."""
    try:
        yield
    except BusyError:
        raise
    except SGPEError as error:
        raise RequestError(str(error), param=name) from None


def kind(value: Any) -> str:
    """Return the JSON type of a value, for messages."""
    return _KINDS.get(type(value), "an object")


def parse_json(text: str | bytes, name: str, param: str | None = None, **hooks: Any) -> Any:
    """Return the value of a JSON text. ``name`` is that of the text in messages, and ``hooks`` are those of `json.loads`.

    Raises:
        ValueError: the text is not JSON.
    """
    # Python's recursive functions, such as json.dumps, fail at about ten times as many levels.
    too_deep = RequestError(f"{name} is nested too deeply: send JSON with at most {_MOST_LEVELS} levels", param=param)
    try:
        value = json.loads(text, **hooks)
    except RecursionError:
        raise too_deep from None
    level = [value]
    for _ in range(_MOST_LEVELS + 1):
        nested = [item for item in level if isinstance(item, (dict, list))]
        level = [*chain.from_iterable(item.values() if isinstance(item, dict) else item for item in nested)]
    if nested:
        raise too_deep
    return value


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"


def are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(id) is int for id in value)


_MOST_LEVELS = 100
_MOST_SHOWN = 1000
"""Characters of a message, which may quote a very long value of the request."""

_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
}

_LABELS = ("user", "metadata", "safety_identifier", "prompt_cache_key")
"""Labels that clients attach for OpenAI. They have no effect on an answer."""
