"""Text generation with transformers, OpenVINO, MLX and llama.cpp, with the same token ids on all of them.

`TextGenerator` continues text. An engine from `load_engine` takes token ids and generates the next ids. Modules are imported
on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hf_sgpe.package import lazily

if TYPE_CHECKING:
    from hf_sgpe.generation.conversation import Chat
    from hf_sgpe.generation.engines.detection import (
        EngineInfo,
        Machine,
        add_engine,
        available_engines,
        best_engine,
        load_engine,
    )
    from hf_sgpe.generation.engines.engine import Engine, ScoredToken
    from hf_sgpe.generation.engines.sampling_options import GenerationOptions
    from hf_sgpe.generation.pieces import Score
    from hf_sgpe.generation.text_generator import TextGenerator

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
        "hf_sgpe.generation.engines.detection": "EngineInfo Machine add_engine available_engines best_engine load_engine",
        "hf_sgpe.generation.engines.engine": "Engine ScoredToken",
        "hf_sgpe.generation.engines.sampling_options": "GenerationOptions",
        "hf_sgpe.generation.conversation": "Chat",
        "hf_sgpe.generation.pieces": "Score",
        "hf_sgpe.generation.text_generator": "TextGenerator",
    },
)
