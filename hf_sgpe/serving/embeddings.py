"""Embeddings of texts in the format of OpenAI's API."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect, Request

from hf_sgpe.serving.answers import long_json
from hf_sgpe.serving.parameters import Parameters, RequestError, about, wrong
from hf_sgpe.serving.request_queue import QueuedRequest
from hf_sgpe.serving.requests import Served
from hf_sgpe.serving.served_models import Model
from hf_sgpe.splitting.normalization import well_formed

Embedding = NDArray[np.float32]

_MOST_INPUTS = 2048


@dataclass(frozen=True)
class EmbeddingsRequest:
    """The content of a request for embeddings. ``inputs`` has the token ids of each text; ``dimensions`` None means all."""

    inputs: list[list[int]]
    dimensions: int | None
    is_base64: bool

    @property
    def tokens(self) -> int:
        return sum(map(len, self.inputs))

    def formatted(self, embedding: Embedding) -> list[float] | str:
        """Return the first dimensions of an embedding, scaled to length 1, as a list or as 32-bit floats in base64."""
        short = embedding[: self.dimensions].astype(np.float64)
        scaled = (short / (np.linalg.norm(short) or 1.0)).astype("<f4")
        return base64.b64encode(scaled.tobytes()).decode() if self.is_base64 else [float(number) for number in scaled]


def read_embeddings(record: Mapping[str, Any], served: Served) -> EmbeddingsRequest:
    """Return the content of a request for ``/v1/embeddings``."""
    given = Parameters(record, {"model", "input", "dimensions", "encoding_format"}, {})
    engine = served.generator.engine
    if not engine.embedding_length:
        message = f"the engine {engine.name} has no embeddings: serve the model with another engine, such as transformers"
        raise RequestError(message, param="model", code="unsupported_engine")
    form = "float" if given.get("encoding_format") is None else given.get("encoding_format")
    if form not in ("float", "base64"):
        raise wrong("encoding_format", "must be float or base64")
    dimensions = None if given.get("dimensions") is None else given.whole_number("dimensions", 1)
    if dimensions is not None and dimensions > engine.embedding_length:
        raise wrong("dimensions", f"must be at most {engine.embedding_length:,}, the number of dimensions of this model")
    return EmbeddingsRequest(_read_inputs(given, served), dimensions, form == "base64")


def _read_inputs(given: Parameters, served: Served) -> list[list[int]]:
    parts, engine = given.texts_or_ids("input"), served.generator.engine
    if len(parts) > _MOST_INPUTS:
        raise wrong("input", f"has {len(parts):,} texts, and the maximum is {_MOST_INPUTS:,}: send several requests")
    with about("input"):
        inputs = [served.generator.encode(well_formed(part)) if isinstance(part, str) else part for part in parts]
    for place, ids in enumerate(inputs):
        name = f"input[{place}]" if parts is given.get("input") else "input"
        if not ids:
            raise wrong(name, "is empty: leave it out")
        if unknown := [id for id in ids if not 0 <= id < engine.vocab_size]:
            raise wrong(name, f"has the id {unknown[0]}, which the model does not have")
        if engine.context_length is not None and len(ids) > engine.context_length:
            message = f"{name} has {len(ids):,} tokens, and the context of this model has only {engine.context_length:,}"
            raise RequestError(f"{message}: shorten the text", param=name, code="context_length_exceeded")
    return inputs


async def answer_embeddings(request: Request, wanted: EmbeddingsRequest, model: Model) -> bytes:
    """Return the response to a request for embeddings, as JSON. Other requests may be served between two of its texts."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[Embedding | Exception] = asyncio.Queue()

    def receive(number: int, item: Embedding | Exception) -> None:
        loop.call_soon_threadsafe(arrived.put_nowait, item)

    queued = QueuedRequest(receive)
    queued.texts = [_embedding_of(ids, model) for ids in wanted.inputs]
    model.queue.add(queued)
    gone = asyncio.create_task(_disconnected(request, arrived))
    found: list[Embedding] = []
    try:
        while len(found) < len(wanted.inputs):
            item = await arrived.get()
            if isinstance(item, Exception):
                raise item
            found.append(item)
    finally:
        model.queue.cancel(queued)
        gone.cancel()
    # Many embeddings take seconds; the thread leaves the event loop free for other requests.
    return await asyncio.to_thread(_json_of, found, wanted, model)


def _json_of(found: list[Embedding], wanted: EmbeddingsRequest, model: Model) -> bytes:
    data = [
        long_json({"object": "embedding", "index": place, "embedding": wanted.formatted(embedding)})
        for place, embedding in enumerate(found)
    ]
    usage = {"prompt_tokens": wanted.tokens, "total_tokens": wanted.tokens}
    return long_json({"data": data, "object": "list", "model": model.served.name, "usage": usage})


def _embedding_of(ids: list[int], model: Model) -> Iterator[Embedding]:
    yield model.served.generator.engine.embed(ids)


async def _disconnected(request: Request, arrived: asyncio.Queue[Embedding | Exception]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    arrived.put_nowait(ClientDisconnect())
