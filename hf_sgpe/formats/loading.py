"""Reading a tokenizer by what a user calls it: a file, a folder, or a repository on the Hub."""

from __future__ import annotations

import os
from typing import Any

from hf_sgpe import kernel
from hf_sgpe.bpe.tokenizer_data import TokenizerData
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import gguf_reading, tokenizer_json


def load(path_or_repo: str | os.PathLike[str], *, revision: str | None = None, **hub_options: Any) -> TokenizerData:
    """Reads a ``tokenizer.json``, a folder with one, a repository on the Hub, or a model's GGUF file.

    Args:
        hub_options: ``token`` and ``cache_dir``, as `hf_sgpe.hub.download` takes them.

    Raises:
        SGPEError: it is not a byte-level BPE tokenizer, damaged, or cannot be found.
    """
    kernel.is_native()  # a wrong HF_SGPE_KERNEL is not the file's fault
    path = tokenizer_json.find(path_or_repo, revision=revision, **hub_options)
    if path.suffix.lower() == ".gguf":
        return gguf_reading.read_tokenizer(path)
    if path.suffix == ".tiktoken":
        raise SGPEError(f"{path}: a .tiktoken file: turn it into a folder first by hf-sgpe export, with its --pattern")
    return tokenizer_json.read(path)
