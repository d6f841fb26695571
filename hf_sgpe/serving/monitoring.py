"""Monitoring of requests: metrics in the text format of Prometheus, and a log line for each request."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"  # of Prometheus's text format

CLIENT_GONE = 499  # as nginx reports a client that disconnected before the response began

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


@dataclass
class Observed:
    """The measurements of one request, collected while it is answered.

    Attributes:
        route: Path of the route. Unknown paths are all called ``other``, so that clients cannot create new metrics.
        generated: Number of generated tokens of each choice.
        reused: Number of prompt tokens of each choice that were reused from an earlier text.
        begun: Time of `time.perf_counter`; also ``first``, when the first part of an answer was ready.
    """

    route: str = "other"
    status: int = CLIENT_GONE
    prompt_tokens: int = 0
    generated: dict[int, int] = field(default_factory=dict)
    reused: dict[int, int] = field(default_factory=dict)
    begun: float = field(default_factory=time.perf_counter)
    first: float | None = None

    def arrived(self, number: int, generated: int, reused: int = 0) -> None:
        """Record the number of tokens that a choice has after a piece of it has arrived."""
        self.generated[number] = generated
        self.reused[number] = reused
        if self.first is None:
            self.first = time.perf_counter()


class _Histogram:
    def __init__(self) -> None:
        self._counts = [0] * (len(_SECONDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(_SECONDS, seconds)] += 1
        self._sum += seconds

    def samples(self, name: str, labels: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*map(str, _SECONDS), "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}le="{bound}"}} {total}'
        suffix = f"{{{labels.rstrip(',')}}}" if labels else ""
        yield f"{name}_sum{suffix} {self._sum:.6f}"
        yield f"{name}_count{suffix} {total}"


class Metrics:
    """The totals over all requests since the start of the server."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, _Histogram] = {}
        self._first_seconds = _Histogram()
        self._prompt_tokens = self._generated_tokens = self._reused_tokens = 0

    def add(self, observed: Observed) -> None:
        self._requests[observed.route, observed.status] += 1
        self._seconds.setdefault(observed.route, _Histogram()).add(time.perf_counter() - observed.begun)
        if observed.first is not None:
            self._first_seconds.add(observed.first - observed.begun)
        self._prompt_tokens += observed.prompt_tokens
        self._reused_tokens += sum(observed.reused.values())
        self._generated_tokens += sum(observed.generated.values())

    def text(self, engines: Mapping[str, str], *, running: int, waiting: int) -> str:
        """Return the metrics in the text format of Prometheus. ``engines`` has the engine of each served model."""
        info = {f"model={_quoted(model)},engine={_quoted(engine)}": 1 for model, engine in engines.items()}
        counts = {f'route="{route}",status="{status}"': count for (route, status), count in sorted(self._requests.items())}
        seconds = [
            sample
            for route, histogram in sorted(self._seconds.items())
            for sample in histogram.samples("hf_sgpe_request_seconds", f'route="{route}",')
        ]
        first_seconds = self._first_seconds.samples("hf_sgpe_first_token_seconds", "")
        return "".join(
            (
                _metric("info", "gauge", "The served models and their engines.", info),
                _metric("requests_total", "counter", "Requests that have ended, by route and HTTP status.", counts),
                _metric("requests_running", "gauge", "Requests that the engine is answering.", {"": running}),
                _metric("requests_waiting", "gauge", "Requests that wait for the engine.", {"": waiting}),
                _metric("prompt_tokens_total", "counter", "Tokens in prompts.", {"": self._prompt_tokens}),
                _metric("reused_tokens_total", "counter", "Tokens in prompts that were kept.", {"": self._reused_tokens}),
                _metric("generated_tokens_total", "counter", "Generated tokens.", {"": self._generated_tokens}),
                _described("request_seconds", "histogram", "Seconds to the end of a response.", seconds),
                _described("first_token_seconds", "histogram", "Seconds to the first part of an answer.", first_seconds),
            )
        )


def _metric(name: str, kind: str, help: str, values: Mapping[str, int]) -> str:
    samples = (f"hf_sgpe_{name}{f'{{{labels}}}' if labels else ''} {value}" for labels, value in values.items())
    return _described(name, kind, help, samples)


def _described(name: str, kind: str, help: str, samples: Iterable[str]) -> str:
    return "\n".join((f"# HELP hf_sgpe_{name} {help}", f"# TYPE hf_sgpe_{name} {kind}", *samples, ""))


class Monitor:
    """An ASGI middleware that measures requests. Routes add measurements to ``request.state.observed``."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: Callable[[str], None] | None = None) -> None:
        self._app = app
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        observed = Observed()
        scope.setdefault("state", {})["observed"] = observed

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                observed.status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            observed.status = 500
            raise
        finally:
            self._metrics.add(observed)
            if self._log is not None:
                self._log(_line_of(scope, observed))


def _line_of(scope: Mapping[str, Any], observed: Observed) -> str:
    """Return the log line of a request: time, client, method, path, status, seconds, numbers of prompt and answer tokens."""
    host = scope["client"][0] if scope.get("client") else "-"
    # The raw path, as the client sent it, is ASCII without spaces and line ends.
    path = scope.get("raw_path", b"-").decode("ascii", "replace").partition("?")[0]
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    seconds = time.perf_counter() - observed.begun
    tokens = f"{observed.prompt_tokens}+{sum(observed.generated.values())}"
    return f"{moment} {host} {scope['method']} {path} {observed.status} {seconds:.3f} {tokens}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
