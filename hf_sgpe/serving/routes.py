"""The routes of the server as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hf_sgpe.errors import BusyError, SGPEError
from hf_sgpe.generation.pieces import Piece
from hf_sgpe.generation.structured_output import RuleError
from hf_sgpe.serving.access import check_host, check_key, for_web_pages
from hf_sgpe.serving.answers import DONE, ChatCompletion, Completion, event, long_json, to_json
from hf_sgpe.serving.embeddings import answer_embeddings, read_embeddings
from hf_sgpe.serving.limits import THREADS
from hf_sgpe.serving.monitoring import CLIENT_GONE, CONTENT_TYPE, Metrics, Monitor, Observed
from hf_sgpe.serving.parameters import RequestError, about
from hf_sgpe.serving.request_queue import QueueClosedError, QueuedRequest, RequestQueue
from hf_sgpe.serving.requests import (
    CompletionRequest,
    Served,
    read_chat,
    read_completion,
    read_detokenize,
    read_json,
    read_tokenize,
)
from hf_sgpe.serving.served_models import Model, Models

logger = logging.getLogger(__name__)

Content = TypeVar("Content")


def create_app(
    *served: Served,
    api_keys: Collection[str] = (),
    body_seconds: float = 60.0,
    origins: Sequence[str] = (),
    hosts: Collection[str] = (),
    log: Callable[[str], None] | None = None,
) -> Starlette:
    """Return the ASGI application that serves models. While the application runs, ``app.state.models`` is a
    `hf_sgpe.serving.served_models.Models`.

    Args:
        served: The models. The first model's limit on the size of a body applies to all requests.
        api_keys: Keys, one of which each request must send. The collection may change while the server runs.
        body_seconds: Time limit for the body of a request to arrive.
        origins: Origins of the web pages that may use the server. ``*`` means all web pages.
        hosts: Names of the server; see `hf_sgpe.serving.access.check_host`. With keys, any name is allowed.
    """
    metrics = Metrics()
    most_in_body = served[0].limits.max_body

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.models = models = Models(served)
        # Requests with rules may wait for one another; with few threads, all other requests would wait, too.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
        yield
        models.close()
        await asyncio.to_thread(models.join)

    def route(path: str, endpoint: Callable[[Request], Awaitable[Response]], method: str = "POST") -> Route:
        async def checked(request: Request) -> Response:
            request.state.observed.route = path.replace(":path", "")
            check_key(request, api_keys)
            if not api_keys:
                check_host(request, hosts)
            return await endpoint(request)

        return Route(path, checked, methods=[method])

    async def read(request: Request) -> dict[str, Any]:
        try:
            body = await asyncio.wait_for(_body(request, most_in_body), body_seconds)
        except asyncio.TimeoutError:
            message = f"the body did not arrive within {body_seconds:g} seconds"
            raise RequestError(message, status=408, headers=_CLOSE) from None
        # A long body takes time; the thread leaves the event loop free for other requests.
        return read_json(body) if len(body) < _SHORT else await asyncio.to_thread(read_json, body)

    async def read_for_model(
        request: Request, read_request: Callable[[Mapping[str, Any], Served], Content]
    ) -> tuple[Content, Model]:
        models: Models = request.app.state.models
        record = await read(request)
        while True:
            model = models.pick(record.get("model"))
            # Encoding a long prompt takes time; the thread leaves the event loop free for other requests.
            wanted = await asyncio.to_thread(read_request, record, model.served)
            if models.has(model):
                return wanted, model
            # The model was replaced in the meantime: read the request again for the new model.

    async def completions(request: Request) -> Response:
        wanted, model = await read_for_model(request, read_completion)
        return _queue(request, wanted, Completion(wanted, model.served), model)

    async def chat_completions(request: Request) -> Response:
        wanted, model = await read_for_model(request, read_chat)
        return _queue(request, wanted, ChatCompletion(wanted, model.served), model)

    async def embeddings(request: Request) -> Response:
        wanted, model = await read_for_model(request, read_embeddings)
        request.state.observed.prompt_tokens = wanted.tokens
        return Response(await answer_embeddings(request, wanted, model), media_type="application/json")

    async def tokenize(request: Request) -> Response:
        (ids, with_spellings), model = await read_for_model(request, read_tokenize)
        generator = model.served.generator

        def written() -> bytes:
            spellings = generator.tokenizer.convert_ids_to_tokens(ids) if with_spellings else None
            context = generator.engine.context_length
            return long_json({"count": len(ids), "max_model_len": context, "tokens": ids, "token_strs": spellings})

        return Response(await asyncio.to_thread(written), media_type="application/json")

    async def detokenize(request: Request) -> Response:
        text, _ = await read_for_model(request, read_detokenize)
        return Response(await asyncio.to_thread(long_json, {"prompt": text}), media_type="application/json")

    async def list_models(request: Request) -> Response:
        return _json({"object": "list", "data": [model.card for model in request.app.state.models]})

    async def show_model(request: Request) -> Response:
        return _json(request.app.state.models.pick(request.path_params["name"]).card)

    async def show_metrics(request: Request) -> Response:
        models: Models = request.app.state.models
        engines = {model.served.name: model.served.generator.engine.name for model in models}
        text = metrics.text(engines, running=models.running, waiting=models.waiting)
        return Response(text, media_type=CONTENT_TYPE)

    async def health(request: Request) -> Response:
        request.state.observed.route = "/health"
        return _json({"status": "ok"})

    async def not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path
        messages = {404: f"unknown path {path}", 405: f"{path} does not accept {request.method}"}
        try:
            if not api_keys:
                check_host(request, hosts)
        except RequestError as refusal:
            return _refusal(refusal)
        message = messages.get(error.status_code, error.detail)
        return _refusal(RequestError(message, status=error.status_code, headers=error.headers))

    app = Starlette(
        routes=[
            route("/v1/completions", completions),
            route("/v1/chat/completions", chat_completions),
            route("/v1/embeddings", embeddings),
            route("/v1/models", list_models, "GET"),
            route("/v1/models/{name:path}", show_model, "GET"),
            route("/tokenize", tokenize),
            route("/detokenize", detokenize),
            route("/metrics", show_metrics, "GET"),
            Route("/health", health),  # needs no key, so that monitoring can use it
        ],
        exception_handlers={
            RequestError: _refused,
            SGPEError: _refused,  # of a queue or an engine
            HTTPException: not_found,
            ClientDisconnect: _gone,
            Exception: _failed,
        },
        middleware=[Middleware(Monitor, metrics, log), *for_web_pages(origins)],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # the location would have any name that the client sends as Host
    return app


async def _body(request: Request, most: int) -> bytes:
    # With other content types, a web page could make a browser send requests to any server without a preflight request.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError("the body must be JSON: send Content-Type: application/json", status=415, headers=_CLOSE)
    body = bytearray()
    too_long = RequestError(f"the body has more than {most:,} bytes", status=413, headers=_CLOSE)
    if int(request.headers.get("content-length", "0")) > most:
        raise too_long
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_long
    return bytes(body)


def _queue(request: Request, wanted: CompletionRequest, form: Completion, model: Model) -> Response:
    answer = _Answer(form, request.state.observed, model.queue)
    with about("messages" if isinstance(form, ChatCompletion) else "prompt"):
        answer.queued.texts = [
            _pieces(model.served, wanted, ids, choice, answer.queued) for ids in wanted.prompts for choice in range(wanted.n)
        ]
    model.queue.add(answer.queued)
    request.state.observed.prompt_tokens = sum(map(len, wanted.prompts))
    return answer


def _pieces(
    served: Served, wanted: CompletionRequest, ids: list[int], choice: int, queued: QueuedRequest
) -> Iterator[Piece]:
    generator = served.generator
    options = wanted.options_of(choice) if wanted.has_answers else None
    if wanted.scores_prompts:
        return generator.pieces_with_prompt(ids, options, top=wanted.top or 0, is_over=queued.is_cancelled)
    if options is None:
        return (nothing for nothing in (Piece("", 0, "length"),))  # a generator, because the queue closes it
    pieces = generator.pieces(
        ids,
        options,
        top=wanted.top,
        is_over=queued.is_cancelled,
        is_message=not wanted.continues,
        marks=wanted.marks,
        watch=wanted.watch(generator),
    )
    return wanted.reading(pieces, partial(generator.tokenizer.decode, ids))


class _Answer(Response):
    """A response that waits for the answers to a request, and sends them whole or as a stream of events."""

    def __init__(self, form: Completion, observed: Observed, queue: RequestQueue) -> None:
        super().__init__()
        self.queued = QueuedRequest(self._put)
        self._form = form
        self._observed = observed
        self._queue = queue
        # The number of items is not limited, so that a slow client does not block the thread of the queue.
        self._items: deque[tuple[int, Piece | Exception]] = deque()
        self._loop = asyncio.get_running_loop()
        self._has_items = asyncio.Event()

    def _put(self, number: int, item: Piece | Exception) -> None:
        self._items.append((number, item))
        if isinstance(item, Piece):
            self._observed.arrived(number, item.generated, item.reused)
        # If the answer is sent as a whole, the event loop is not woken up for each token.
        if self._form.wanted.is_streamed or isinstance(item, Exception) or item.finish_reason is not None:
            self._loop.call_soon_threadsafe(self._has_items.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watching = asyncio.create_task(self._watch(receive))
        try:
            with suppress(ClientDisconnect):
                if self._form.wanted.is_streamed:
                    await self._send_events(send)
                else:
                    response = await self._whole()
                    await response(scope, receive, send)
        finally:
            self._queue.cancel(self.queued)
            watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._queue.cancel(self.queued)
        self._items.appendleft((0, ClientDisconnect()))
        self._has_items.set()

    async def _pieces(self) -> AsyncIterator[tuple[int, Piece]]:
        """Yield each piece as it arrives, with the number of its choice, until all choices are complete."""
        choices = len(self.queued.texts)
        while choices:
            await self._has_items.wait()
            self._has_items.clear()
            # Let other tasks run: with fast tokens, neither this loop nor sending may ever have to wait.
            await asyncio.sleep(0)
            for _ in range(len(self._items)):
                number, item = self._items.popleft()
                if isinstance(item, Exception):
                    raise item
                choices -= item.finish_reason is not None
                yield number, item

    async def _whole(self) -> Response:
        answers: list[list[Piece]] = [[] for _ in self.queued.texts]
        try:
            async for number, piece in self._pieces():
                answers[number].append(piece)
        except ClientDisconnect:
            raise
        except Exception as error:
            return _refusal(_error_of(error))
        # Thousands of log-probabilities take seconds; the thread leaves the event loop free for other requests.
        body = await asyncio.to_thread(self._form.whole, answers)
        return Response(body, headers=_about_rule(self._form.wanted), media_type="application/json")

    async def _send_events(self, send: Send) -> None:
        fields = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        headers = Headers({**fields, **_about_rule(self._form.wanted)})
        await send({"type": "http.response.start", "status": 200, "headers": headers.raw})
        async for body in self._events():
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body"})

    async def _events(self) -> AsyncIterator[bytes]:
        try:
            for part in self._form.first_parts():
                yield event(part)
            async for number, piece in self._pieces():
                if len(piece.tokens) > _MANY_TOKENS:  # a scored prompt
                    part = await asyncio.to_thread(self._form.part, number, piece)
                    yield await asyncio.to_thread(event, part, long_json)
                else:
                    yield event(self._form.part(number, piece))
            for part in self._form.last_parts():
                yield event(part)
        except ClientDisconnect:
            raise
        except Exception as error:
            # The status is already sent; clients recognize the error by its JSON.
            yield event(_error_of(error).body)
        else:
            yield DONE


def _about_rule(wanted: CompletionRequest) -> dict[str, str]:
    # The names are the client's. A line end in one would begin another header, and HTTP allows no space at the end.
    left_out = "; ".join(wanted.left_out).encode("unicode_escape").decode()[:_MOST_IN_HEADER].strip()
    return {"X-Constraints-Left-Out": left_out} if left_out else {}


def _error_of(error: Exception) -> RequestError:
    """Convert a failure while a request is answered to the error that the server sends to the client."""
    if isinstance(error, BusyError):
        code, headers = "rate_limit_exceeded", {"Retry-After": "1"}
        return RequestError(str(error), status=429, type="rate_limit_error", code=code, headers=headers)
    if isinstance(error, QueueClosedError):
        return RequestError(str(error), status=503, type="server_error", code="shutting_down")
    if isinstance(error, RuleError):
        return RequestError(str(error))
    if isinstance(error, SGPEError):
        logger.error("%s", error)
        return RequestError(str(error), status=500, type="server_error")
    logger.error("an answer failed", exc_info=error)
    return _failure()


def _failure() -> RequestError:
    return RequestError("the server failed: see the server's output for the error", status=500, type="server_error")


_MOST_IN_HEADER = 1000  # characters of a response header that a client can make long
_MANY_TOKENS = 100  # in a piece whose event is not built in the event loop
_SHORT = 1 << 15  # bytes; a shorter body is parsed in the event loop
_CLOSE = {"Connection": "close"}  # if the body of the request has not been read


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(value), status, headers, "application/json")


def _refusal(error: RequestError) -> Response:
    return _json(error.body, error.status, error.headers)


async def _refused(request: Request, error: Exception) -> Response:
    return _refusal(error if isinstance(error, RequestError) else _error_of(error))


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_GONE)


async def _failed(request: Request, error: Exception) -> Response:
    return _refusal(_failure())  # the ASGI server prints the exception
