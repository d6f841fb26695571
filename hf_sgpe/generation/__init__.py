"""Generation with the same token ids on transformers, OpenVINO, MLX and llama.cpp.

`TextGenerator` is text in and text out, `load_engine` ids in and ids out. Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hf_sgpe.lazy import lazily

if TYPE_CHECKING:
    from hf_sgpe.generation.detection import EngineInfo, Machine, available_engines, best_engine, load_engine
    from hf_sgpe.generation.engine import Engine, ScoredToken
    from hf_sgpe.generation.engines import add_engine
    from hf_sgpe.generation.options import GenerationOptions
    from hf_sgpe.generation.text import Chat, Score, TextGenerator

__all__ = [
    "Chat",
    "Engine",
    "EngineInfo",
    "GenerationOptions",
    "Machine",
    "Score",
    "ScoredToken",
    "TextGenerator",
    "add_engine",
    "available_engines",
    "best_engine",
    "load_engine",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "detection": "EngineInfo Machine available_engines best_engine load_engine",
        "engine": "Engine ScoredToken",
        "engines": "add_engine",
        "options": "GenerationOptions",
        "text": "Chat Score TextGenerator",
    },
)
