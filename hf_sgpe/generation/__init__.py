"""Generation with the same token ids on transformers, OpenVINO, MLX and llama.cpp.

`TextGenerator` is text in and text out, `load_engine` ids in and ids out. Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_sgpe.generation.detection import EngineInfo, Machine, available_engines, best_engine, load_engine
    from hf_sgpe.generation.engine import Engine
    from hf_sgpe.generation.options import GenerationOptions
    from hf_sgpe.generation.text import Chat, TextGenerator

_HOMES = {
    "Chat": "text",
    "Engine": "engine",
    "EngineInfo": "detection",
    "GenerationOptions": "options",
    "Machine": "detection",
    "TextGenerator": "text",
    "available_engines": "detection",
    "best_engine": "detection",
    "load_engine": "detection",
}

__all__ = [
    "Chat",
    "Engine",
    "EngineInfo",
    "GenerationOptions",
    "Machine",
    "TextGenerator",
    "available_engines",
    "best_engine",
    "load_engine",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hf_sgpe.generation' has no attribute {name!r}")
    return getattr(import_module(f"hf_sgpe.generation.{_HOMES[name]}"), name)
