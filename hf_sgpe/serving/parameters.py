"""The parameters of a request, each looked at once, and the errors that name them, in OpenAI's form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hf_sgpe.errors import SGPEError


class RequestError(Exception):
    """A request that is refused.

    Args:
        message: For the writer of the request.
        status: Of HTTP.
        type: As OpenAI calls this kind of error.
        param: Name of the parameter that it is about.
        code: For programs.
        headers: To answer with.
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
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body = {"error": {"message": message, "type": type, "param": param, "code": code}}


# Not by pydantic: of a wrong prompt it tells an error for each alternative of the union, none of which names the parameter
# as OpenAI does, true passes for 1, and what a server refuses by its limits would still be looked at here.
class Parameters:
    """The parameters of a request.

    Args:
        known: Those that have a meaning here.
        without_effect: Others that may come, each with the values that ask for nothing; None and no value always do.
        where: What to put before a name in a message.

    Raises:
        RequestError: it has others.
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
            raise RequestError(f"there is no parameter {where}{name} here", param=where + name, code="unknown_parameter")

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
            raise RequestError(f"{name} must be a whole number {bounds}, not {str(value)[:40]}", param=name)
        return value

    def one_of(self, names: tuple[str, ...]) -> str:
        """Return, of several names for the same, the one that is used; the first if none is."""
        used = [name for name in names if self.get(name) is not None]
        if len(used) > 1:
            raise RequestError(f"{' and '.join(used)} mean the same: give one of them", param=used[1])
        return (*used, *names)[0]


@contextmanager
def about(name: str) -> Iterator[None]:
    """Run a block whose errors are about one parameter.

    Raises:
        RequestError: it has one.
    """
    try:
        yield
    except SGPEError as error:
        raise RequestError(str(error), param=name) from None


def kind(value: Any) -> str:
    """Return what JSON calls a value."""
    kinds: list[tuple[Callable[[Any], bool], str]] = [
        (lambda value: value is None, "null"),
        (lambda value: isinstance(value, bool), "true or false"),
        (lambda value: isinstance(value, (int, float)), "a number"),
        (lambda value: isinstance(value, str), "a text"),
        (lambda value: isinstance(value, list), "a list"),
    ]
    return next((name for is_it, name in kinds if is_it(value)), "an object")


_LABELS = ("user", "metadata", "safety_identifier", "prompt_cache_key")
"""Labels of the client's own, which are for OpenAI and change no answer."""
