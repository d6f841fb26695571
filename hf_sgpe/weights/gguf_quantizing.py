"""Quantization of GGUF files by llama.cpp, to four to six bits per weight."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from tqdm import tqdm

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.weights.llama_log import silence

QUANTIZED_TYPES = ("Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0")
"""Types of quantized weights. If a row length is not a multiple of 256, llama.cpp uses larger types for the first three."""

# "[  12/ 291] token_embd.weight - ...": one line for each tensor.
_PROGRESS = re.compile(rb"\[ *(\d+)/ *(\d+)\]")


def quantize(source: Path, target: Path, weight_type: str) -> None:
    """Write a copy of a GGUF file with quantized weights. The weights of ``source`` are in F32, F16 or BF16. This takes
    minutes for a model of a few billion weights.
    """
    import llama_cpp
    from gguf import LlamaFileType

    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = int(LlamaFileType[f"MOSTLY_{weight_type}"])
    last_line = b""
    with tqdm(desc=f"Making {weight_type}", unit=" tensors", disable=not somebody_watches(), leave=False) as bar:

        @llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
        def log(level: int, text: bytes, data: object) -> None:
            nonlocal last_line
            last_line = text.strip() or last_line
            if progress := _PROGRESS.match(text):
                bar.total = int(progress[2])
                bar.update(int(progress[1]) - bar.n)

        llama_cpp.llama_backend_init()
        llama_cpp.llama_log_set(log, None)
        try:
            failed = llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(options))
        finally:
            silence()
    if failed:
        raise SGPEError(f"llama.cpp cannot convert these weights to {weight_type} ({last_line.decode(errors='replace')})")
