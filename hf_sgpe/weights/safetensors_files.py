"""Safetensors files: reading of single weights without PyTorch, and copying of files with some weights replaced."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import why_no_model
from hf_sgpe.files.json_files import read_json
from hf_sgpe.files.unreadable import check_no_pointer

Weights = NDArray[np.float32]
# The package safetensors hides the position of a tensor in its file, needs PyTorch for BF16, and writes only from memory.
# This module maps tensors into memory, and writes them part by part.
KNOWN_TYPES = ("F32", "F16", "BF16")
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_PART = 1 << 24  # bytes of a tensor that are in memory while it is copied

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


@dataclass(frozen=True)
class Stored:
    """The location of a tensor. ``type`` is a name such as ``BF16``; ``start`` and ``size`` are in bytes."""

    file: Path
    type: str
    shape: tuple[int, ...]
    start: int
    size: int

    def read(self) -> Weights:
        """Return the tensor's values as 32-bit numbers."""
        kind = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}[self.type]
        values = np.memmap(self.file, kind, "r", self.start, self.shape) if prod(self.shape) else np.zeros(self.shape, kind)
        # BF16 is the upper half of 32 bits.
        is_half = self.type == "BF16"
        numbers: Weights = (values.astype(np.uint32) << 16).view(np.float32) if is_half else values.astype(np.float32)
        if not np.isfinite(numbers).all():
            raise SGPEError(f"{self.file} is damaged: some weights are not finite numbers")
        return numbers


def weight_files(folder: Path) -> list[Path]:
    """Return the files with a model's weights: a single file, or the files listed in an index."""
    index = folder / INDEX_FILE
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    if not index.exists():
        pickled = next(iter(sorted(folder.glob("*.bin"))), None)
        if pickled is None:
            parts = f"and no {INDEX_FILE} that names its parts"
            raise SGPEError(f"{folder} has no {WEIGHTS_FILE}, {why_no_model(folder).removeprefix(', ') or parts}")
        raise SGPEError(
            f"{folder} has {pickled.name} but no {WEIGHTS_FILE}: load the model with transformers and save it again"
        )
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) and name == Path(name).name for name in names.values()):
        raise SGPEError(f"{index} is damaged: 'weight_map' must name files of the same folder")
    files = [folder / name for name in sorted(set(names.values()))]
    for file in files:
        if not file.is_file():
            raise SGPEError(f"{file} is missing, but listed in {INDEX_FILE}")
    return files


def stored(folder: Path, *, any_type: bool = False) -> dict[str, Stored]:
    """Return the location of each tensor in a model, keyed by name, ordered by file and then by byte offset.

    Args:
        any_type: Whether to include tensors that `Stored.read` cannot read, such as those of quantized models.
    """
    tensors: dict[str, Stored] = {}
    for file in weight_files(folder):
        tensors |= _tensors_in(file)
    for name, tensor in () if any_type else tensors.items():
        if tensor.type not in KNOWN_TYPES:
            raise SGPEError(f"{tensor.file}: {name} has the type {tensor.type}: only {', '.join(KNOWN_TYPES)} can be read")
    index = folder / INDEX_FILE
    if index.exists() and not (folder / WEIGHTS_FILE).is_file():
        for name, file_name in read_json(index)["weight_map"].items():
            if name not in tensors or tensors[name].file.name != file_name:
                raise SGPEError(
                    f"{folder / file_name} is damaged: {name} is missing, but {INDEX_FILE} lists it in this file"
                )
    return tensors


@dataclass(frozen=True)
class ModelSize:
    """The number of a model's parameters, and the size of its weight files in bytes."""

    parameters: int
    bytes: int


def size_of_model(folder: Path, copies: Iterable[str] = ()) -> ModelSize:
    """Return the size of the model in a folder. The parameters of ``copies``, such as a tied output, do not count."""
    tensors = stored(folder, any_type=True)
    parameters = sum(prod(tensor.shape) for name, tensor in tensors.items() if name not in set(copies))
    return ModelSize(parameters, sum(file.stat().st_size for file in weight_files(folder)))


def _tensors_in(file: Path) -> dict[str, Stored]:
    """Return the location of each tensor in a file, ordered by byte offset."""
    tensors = {}
    try:
        length = file.stat().st_size
        size, header = _header(file)
        for name, entry in header.items():
            if name != "__metadata__":
                start, stop = (8 + size + offset for offset in entry["data_offsets"])
                if not 8 + size <= start <= stop <= length:
                    raise ValueError
                tensor = Stored(file, entry["dtype"], tuple(entry["shape"]), start, stop - start)
                if tensor.type in _BYTES and tensor.size != prod(tensor.shape) * _BYTES[tensor.type]:
                    raise ValueError
                tensors[name] = tensor
    except (ValueError, KeyError, TypeError, AttributeError):
        check_no_pointer(file)
        raise SGPEError(f"{file} is damaged or not a safetensors file") from None
    return dict(sorted(tensors.items(), key=lambda item: item[1].start))


def _header(file: Path) -> tuple[int, dict[str, Any]]:
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        if size > file.stat().st_size:
            raise ValueError
        header: dict[str, Any] = json.loads(opened.read(size))
    return size, header


@dataclass(frozen=True)
class Made:
    """A tensor to write. ``size`` is in bytes. The parts are computed while the file is written."""

    type: str
    shape: tuple[int, ...]
    size: int
    parts: Iterable[memoryview]


def rewrite(source: Path, target: Path, made: Mapping[str, Made]) -> None:
    """Write a copy of a safetensors file in which the tensors ``made`` replace those with the same names. All other tensors
    stay the same, bit for bit.

    Only a few megabytes are in memory at a time. Parts that are all zeros are not written, so sparse files stay sparse.
    """
    tensors = _tensors_in(source)
    header: dict[str, Any] = {}
    if metadata := _header(source)[1].get("__metadata__"):
        header["__metadata__"] = metadata
    end = 0
    for name, old in tensors.items():
        new = made.get(name, old)
        header[name] = {"dtype": new.type, "shape": list(new.shape), "data_offsets": [end, end + new.size]}
        end += new.size
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the same alignment of the data as in the package safetensors
    with target.open("wb") as written:
        written.write(len(text).to_bytes(8, "little") + text)
        for name, old in tensors.items():
            for part in made[name].parts if name in made else _parts(old):
                if np.frombuffer(part, np.bool_).any():
                    written.write(part)
                else:
                    written.seek(part.nbytes, 1)
        written.truncate(8 + len(text) + end)


def _parts(tensor: Stored) -> Iterator[memoryview]:
    with tensor.file.open("rb") as opened:
        opened.seek(tensor.start)
        for done in range(0, tensor.size, _PART):
            yield memoryview(opened.read(min(_PART, tensor.size - done)))


def check_head(folder: Path, weights: Mapping[str, Stored], config: Mapping[str, Any], embedding: str) -> None:
    """Check that a stored output head equals the embedding, if the configuration ties the two."""
    head, rows = weights.get("lm_head.weight"), weights.get(embedding)
    if not config.get("tie_word_embeddings") or head is None or rows is None:
        return
    if head.shape != rows.shape or not np.array_equal(head.read(), rows.read()):
        raise SGPEError(
            f"{folder}: lm_head.weight differs from {embedding}, but config.json sets tie_word_embeddings to true: "
            "change it to false"
        )
