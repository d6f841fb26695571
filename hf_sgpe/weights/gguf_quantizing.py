"""Weights of four to six bits in GGUF files. llama.cpp itself makes them of a file with whole ones."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from tqdm import tqdm

from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.weights.llama_log import silence

QUANTIZED_TYPES = ("Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0")
"""From the largest to the smallest. Where rows are not multiples of 256, llama.cpp takes larger ones for the first three."""

# "[  12/ 291] token_embd.weight - ...": one line for each tensor.
_PROGRESS = re.compile(rb"\[ *(\d+)/ *(\d+)\]")


def check_installed() -> None:
    """Make sure that `quantize` can begin.

    Raises:
        NotInstalledError: llama-cpp-python is missing.
    """
    need = f"weights in {', '.join(QUANTIZED_TYPES)} are made by llama.cpp"
    optional("llama_cpp", need, "llama-cpp-python", extra="llama-cpp")


def quantize(source: Path, target: Path, weight_type: str) -> None:
    """Write a GGUF file again with smaller weights and all else as it is. Takes minutes for a model of some billions.

    Args:
        source: A file with weights in F32, F16 or BF16.
        weight_type: One of `QUANTIZED_TYPES`.

    Raises:
        SGPEError: llama.cpp cannot; the message has its reason.
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
        raise SGPEError(f"llama.cpp cannot make {weight_type} of these weights ({last_line.decode(errors='replace')})")
