"""The engines, each a class in a module of its own, by their names."""

from __future__ import annotations

from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.engines.engine import Engine
from hf_sgpe.generation.engines.llama_cpp import LlamaCppEngine
from hf_sgpe.generation.engines.mlx import MLXEngine
from hf_sgpe.generation.engines.openvino import OpenVINOEngine
from hf_sgpe.generation.engines.transformers import TransformersEngine

ENGINES: dict[str, type[Engine]] = {}
"""Name → class. Add to it by `add_engine`."""


def add_engine(engine: type[Engine]) -> None:
    """Make an engine known by its name wherever one is named, listed or chosen.

    Raises:
        SGPEError: there is one of that name.
    """
    if engine.name in ENGINES:
        raise SGPEError(f"an engine cannot be called {engine.name!r}: there is one of that name")
    ENGINES[engine.name] = engine


for _engine in (MLXEngine, OpenVINOEngine, LlamaCppEngine, TransformersEngine):
    add_engine(_engine)
