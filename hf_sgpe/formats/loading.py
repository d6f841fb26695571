"""Reading a tokenizer by name: a file, a folder, or a repository on the Hub."""

from __future__ import annotations

import os
from typing import Any

from hf_sgpe import kernels
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import gguf_tokenizer, tokenizer_json
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


def load(path_or_repo: str | os.PathLike[str], *, revision: str | None = None, **hub_options: Any) -> TokenizerData:
    """Read a ``tokenizer.json``, a folder with one, a repository on the Hub, or a model's GGUF file.

    Args:
        hub_options: ``token`` and ``cache_dir``, as `hf_sgpe.files.hub.download` takes them.

    Raises:
        SGPEError: the tokenizer cannot be found, is damaged, or is not byte-level BPE.
    """
    kernels.is_native()  # reports a wrong HF_SGPE_KERNEL before the file is read
    path = tokenizer_json.find(path_or_repo, revision=revision, **hub_options)
    if path.suffix.lower() == ".gguf":
        return gguf_tokenizer.read_tokenizer(path)
    if path.suffix == ".tiktoken":
        raise SGPEError(f"{path}: is a .tiktoken file: convert it first with hf-sgpe export and its --pattern")
    return tokenizer_json.read(path)
