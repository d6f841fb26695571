"""Reading the parameters of a request in OpenAI's format. Each error names the wrong parameter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

from hf_sgpe.errors import SGPEError


class RequestError(Exception):
    """An error that the server sends to the client.

    Args:
        message: Message for people.
        status: HTTP status.
        type: OpenAI's name for this type of error.
        param: Name of the wrong parameter.
        code: Error code for programs.
        headers: HTTP headers of the response.
    """

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
        record: The JSON object that contains the parameters.
        known: Names of the supported parameters.
        without_effect: Dict from unsupported parameters to values that have no effect. An unsupported parameter is accepted
            only with one of these values or with null.
        where: Prefix for the names of parameters in error messages, such as ``stream_options.``.

    Raises:
        RequestError: the request has an unknown or unsupported parameter.
    """

    def __init__(
        self, record: Mapping[str, Any], known: set[str], without_effect: Mapping[str, tuple[Any, ...]], where: str = ""
    ) -> None:
        self.record = record
        self._where = where
        for name, value in record.items():
            if name in known or name in _LABELS or (name in without_effect and value in (None, *without_effect[name])):
                continue
            if name in without_effect:
                message = f"{where}{name} is not supported by this server: leave it out"
                raise RequestError(message, param=where + name, code="unsupported_parameter")
            raise RequestError(
                f"unknown parameter {where}{name}: leave it out", param=where + name, code="unknown_parameter"
            )

    def get(self, name: str) -> Any:
        return self.record.get(name)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise RequestError(f"{self._where}{name} must be true or false, not {kind(value)}", param=self._where + name)
        return default if value is None else value

    def whole_number(self, name: str, default: int, most: int | None = None, *, least: int = 1) -> int:
        value = self.get(name)
        if value is None:
            return default
        if type(value) is not int or value < least or (most is not None and value > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise RequestError(f"{name} must be a whole number {bounds}, not {json.dumps(value)[:40]}", param=name)
        return value

    def one_of(self, names: tuple[str, ...]) -> str:
        """Return the name under which the request gives a parameter that has several names. If the request does not give the
        parameter, return the first name.
        """
        used = [name for name in names if self.get(name) is not None]
        if len(used) > 1:
            raise RequestError(f"{' and '.join(used)} mean the same: give only one", param=used[1])
        return (*used, *names)[0]


def busy(error: SGPEError) -> RequestError:
    """Return the error for a request that must be sent again later."""
    code = "rate_limit_exceeded"
    return RequestError(str(error), status=429, type="rate_limit_error", code=code, headers={"Retry-After": "1"})


@contextmanager
def about(name: str) -> Iterator[None]:
    """Convert an SGPEError raised in the ``with`` block into a RequestError about the parameter ``name``.

    Raises:
        RequestError: the block raised an SGPEError.
    """
    try:
        yield
    except SGPEError as error:
        raise RequestError(str(error), param=name) from None


def kind(value: Any) -> str:
    """Return the JSON type of a value, for messages."""
    kinds: list[tuple[Callable[[Any], bool], str]] = [
        (lambda value: value is None, "null"),
        (lambda value: isinstance(value, bool), "true or false"),
        (lambda value: isinstance(value, (int, float)), "a number"),
        (lambda value: isinstance(value, str), "a string"),
        (lambda value: isinstance(value, list), "a list"),
    ]
    return next((name for matches, name in kinds if matches(value)), "an object")


def is_too_deep(value: Any) -> bool:
    """Return whether a JSON value has more than `MOST_LEVELS` lists and objects inside one another. Python's recursive
    functions, such as `json.dumps`, fail at about ten times as many.
    """
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        nested = [item for item in level if isinstance(item, (dict, list))]
        level = [*chain.from_iterable(item.values() if isinstance(item, dict) else item for item in nested)]
    return bool(nested)


def _shortened(text: str) -> str:
    """Shorten a message to at most `_MOST_SHOWN` characters, because it may quote a very long value of the request."""
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"


def are_ids(value: Any) -> bool:
    """Return whether a value is a list of whole numbers."""
    return isinstance(value, list) and all(type(id) is int for id in value)


MOST_LEVELS = 100
_MOST_SHOWN = 1000

_LABELS = ("user", "metadata", "safety_identifier", "prompt_cache_key")
"""Labels that clients attach for OpenAI. They have no effect on an answer."""
