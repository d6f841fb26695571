"""The weights in a model's folder, read one at a time without PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_sgpe.errors import SGPEError
from hf_sgpe.json_files import read_json

Weights = NDArray[np.float32]

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


@dataclass(frozen=True)
class Stored:
    """A tensor in a file of safetensors: its type, by GGUF's name, and where its bytes begin."""

    file: Path
    type: str
    shape: tuple[int, ...]
    start: int

    def read(self) -> Weights:
        """Its numbers, in 32 bits.

        Raises:
            SGPEError: not all are finite.
        """
        kind = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}[self.type]
        values = np.memmap(self.file, kind, "r", self.start, self.shape) if prod(self.shape) else np.zeros(self.shape, kind)
        # BF16 is the upper half of 32 bits.
        is_half = self.type == "BF16"
        numbers: Weights = (values.astype(np.uint32) << 16).view(np.float32) if is_half else values.astype(np.float32)
        if not np.isfinite(numbers).all():
            raise SGPEError(f"{self.file}: damaged: not all weights are finite numbers")
        return numbers


def weight_files(folder: Path) -> list[Path]:
    """The files with a model's weights: one, or those that an index names.

    Raises:
        SGPEError: there are none, or not all of them.
    """
    index = folder / INDEX_FILE
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    if not index.exists():
        raise SGPEError(f"{folder}: holds no {WEIGHTS_FILE}")
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise SGPEError(f"{index}: damaged: names no files")
    files = [folder / name for name in sorted(set(names.values()))]
    for file in files:
        if not file.is_file():
            raise SGPEError(f"{file}: not there, though {INDEX_FILE} names it")
    return files


def stored(folder: Path) -> dict[str, Stored]:
    """Name → where that tensor is.

    Raises:
        SGPEError: there are no weights, damaged ones or ones of an unknown type.
    """
    tensors = {}
    for file in weight_files(folder):
        try:
            with file.open("rb") as opened:
                size = int.from_bytes(opened.read(8), "little")
                if size > file.stat().st_size:
                    raise ValueError
                header = json.loads(opened.read(size))
            for name, tensor in header.items():
                if name != "__metadata__":
                    start, stop = (8 + size + offset for offset in tensor["data_offsets"])
                    if stop > file.stat().st_size:
                        raise ValueError
                    tensors[name] = Stored(file, tensor["dtype"], tuple(tensor["shape"]), start)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SGPEError(f"{file}: damaged: not a file of safetensors") from None
    for name, one in tensors.items():
        if one.type not in ("F32", "F16", "BF16"):
            raise SGPEError(f"{one.file}: {name} is of type {one.type}: only F32, F16 and BF16 are known")
    return tensors


def check_head(folder: Path, weights: Mapping[str, Stored], config: Mapping[str, Any], embedding: str) -> None:
    """Makes sure that a tied head, if it is stored too, is the embedding.

    Raises:
        SGPEError: it is another one, which transformers keeps and other engines pass over.
    """
    head, rows = weights.get("lm_head.weight"), weights.get(embedding)
    if not config.get("tie_word_embeddings") or head is None or rows is None:
        return
    if head.shape != rows.shape or not np.array_equal(head.read(), rows.read()):
        raise SGPEError(
            f"{folder}: lm_head.weight is not {embedding}, though config.json says tie_word_embeddings: set that to false"
        )
