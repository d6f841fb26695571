"""Batches from rows of ids: truncation, padding and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hf_sgpe.errors import SGPEError, not_installed


def make_batch(
    rows: Sequence[list[int]],
    *,
    pad_id: int | None,
    padding: bool = False,
    truncation: bool = False,
    max_length: int | None = None,
    return_tensors: str | None = None,
) -> dict[str, Any]:
    """Returns ``input_ids`` and ``attention_mask`` (1 for an id, 0 for padding), with one entry for each row.

    Args:
        pad_id: Fills up short rows on the right; None for 0, which the mask hides.
        padding: Fill up to the longest row. Never cuts a row.
        truncation: Cut rows after ``max_length`` ids.
        return_tensors: ``"np"`` for int64 arrays, ``"pt"`` for torch's, both of shape (rows, length); None for lists.

    Raises:
        SGPEError: ``max_length`` is missing, ``return_tensors`` is unknown, or rows of a tensor have different lengths.

    >>> make_batch([[1, 2], [3]], pad_id=9, padding=True)
    {'input_ids': [[1, 2], [3, 9]], 'attention_mask': [[1, 1], [1, 0]]}
    """
    for name, value in {"padding": padding, "truncation": truncation}.items():
        if not isinstance(value, bool):
            raise SGPEError(f"{name} must be True or False, not {value!r}")
    if truncation and (not isinstance(max_length, int) or max_length < 0):
        raise SGPEError(f"truncation needs max_length, a whole number from 0 up, not {max_length!r}")
    if return_tensors not in (None, "np", "pt"):
        raise SGPEError(f"unknown return_tensors {return_tensors!r}: known are 'np' and 'pt'")
    ids = [row[:max_length] if truncation else list(row) for row in rows]
    longest = max(map(len, ids), default=0)
    mask = [[1] * len(row) for row in ids]
    if padding:
        for row, ones in zip(ids, mask, strict=True):
            missing = longest - len(row)
            row += [0 if pad_id is None else pad_id] * missing
            ones += [0] * missing
    if return_tensors and any(len(row) != longest for row in ids):
        raise SGPEError("rows have different lengths and cannot be one tensor: set padding=True")
    return {"input_ids": _tensor(ids, return_tensors), "attention_mask": _tensor(mask, return_tensors)}


def _tensor(rows: list[list[int]], kind: str | None) -> Any:
    if kind is None:
        return rows
    import numpy as np

    array = np.array(rows, dtype=np.int64).reshape(len(rows), -1 if rows else 0)
    if kind == "np":
        return array
    try:
        import torch
    except ImportError:
        raise not_installed("return_tensors='pt' needs PyTorch", "torch") from None
    return torch.from_numpy(array)
