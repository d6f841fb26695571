"""The registry of engines. Each engine is a class in its own module."""

from __future__ import annotations

from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.engines.engine import Engine
from hf_sgpe.generation.engines.llama_cpp import LlamaCppEngine
from hf_sgpe.generation.engines.mlx import MLXEngine
from hf_sgpe.generation.engines.openvino import OpenVINOEngine
from hf_sgpe.generation.engines.transformers import TransformersEngine

ENGINES: dict[str, type[Engine]] = {}
"""The classes of the engines, keyed by name. `add_engine` adds a class."""


def add_engine(engine: type[Engine]) -> None:
    """Register an engine under its name.

    Raises:
        SGPEError: another engine has this name.
    """
    if engine.name in ENGINES:
        raise SGPEError(f"an engine {engine.name!r} already exists: choose another name")
    ENGINES[engine.name] = engine


for _engine in (MLXEngine, OpenVINOEngine, LlamaCppEngine, TransformersEngine):
    add_engine(_engine)
