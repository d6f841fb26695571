"""Batches of encoded texts: truncation, padding and conversion to tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from hf_sgpe.errors import SGPEError, optional

Padding = bool | Literal["longest", "max_length"]
"""The padding of rows. True or ``longest`` pads to the longest row, and ``max_length`` to the maximum length of the call."""


class EncodingResult(list[int]):
    """The encoding of one text in a batch: its ids, with its attention mask (0 for padding) and its vocabulary strings."""

    def __init__(self, ids: Sequence[int], attention_mask: list[int], tokens: list[str]) -> None:
        super().__init__(ids)
        self.attention_mask = attention_mask
        self.tokens = tokens

    @property
    def input_ids(self) -> list[int]:
        """The ids as a plain list."""
        return list(self)


def results(batch: dict[str, Any], tokens_of: Callable[[list[int]], list[str]]) -> list[EncodingResult]:
    """Return the rows of a batch from `make_batch`. ``tokens_of`` converts ids to vocabulary strings."""
    pairs = zip(batch["input_ids"], batch["attention_mask"], strict=True)
    return [EncodingResult(ids, mask, tokens_of(ids)) for ids, mask in pairs]


def make_batch(
    rows: Sequence[list[int]],
    *,
    pad_id: int | None,
    padding: Padding = False,
    truncation: bool = False,
    max_length: int | None = None,
    return_tensors: str | None = None,
) -> dict[str, Any]:
    """Return the ``input_ids`` and the ``attention_mask`` (0 for padding) of several rows.

    Args:
        pad_id: The id that fills short rows on the right. If None, 0 is used; the model ignores padding because of
            ``attention_mask``.
        padding: True or ``"longest"`` pads to the length of the longest row, and ``"max_length"`` pads to the length
            ``max_length``. Longer rows are not cut. False does not pad.
        return_tensors: ``"np"`` for int64 arrays, ``"pt"`` for torch tensors, both of shape (rows, length), or None for
            lists.

    >>> make_batch([[1, 2], [3]], pad_id=9, padding=True)
    {'input_ids': [[1, 2], [3, 9]], 'attention_mask': [[1, 1], [1, 0]]}
    """
    if not isinstance(padding, bool) and padding not in ("longest", "max_length"):
        raise SGPEError(f"padding must be True, False, 'longest' or 'max_length', not {padding!r}")
    if not isinstance(truncation, bool):
        raise SGPEError(f"truncation must be True or False, not {truncation!r}")
    needed_by = {"truncation": truncation, "padding='max_length'": padding == "max_length"}
    for name, is_asked_for in needed_by.items():
        if is_asked_for and (not isinstance(max_length, int) or max_length < 0):
            raise SGPEError(f"{name} needs max_length: give a whole number of at least 0, not {max_length!r}")
    if return_tensors not in (None, "np", "pt"):
        raise SGPEError(f"unknown return_tensors {return_tensors!r}: choose 'np' or 'pt'")
    ids = [row[:max_length] if truncation else list(row) for row in rows]
    mask = [[1] * len(row) for row in ids]
    length = max(map(len, ids), default=0)
    if padding:
        length = max_length if padding == "max_length" and max_length is not None else length
        for row, ones in zip(ids, mask, strict=True):
            missing = length - len(row)
            row += [0 if pad_id is None else pad_id] * missing
            ones += [0] * missing
    if return_tensors and any(len(row) != len(ids[0]) for row in ids):
        also = "truncation=True" if padding else "padding=True"
        raise SGPEError(f"rows have different lengths and cannot be one tensor: set {also}")
    return {"input_ids": _tensor(ids, return_tensors), "attention_mask": _tensor(mask, return_tensors)}


def _tensor(rows: list[list[int]], kind: str | None) -> Any:
    if kind is None:
        return rows
    import numpy as np

    array = np.array(rows, dtype=np.int64).reshape(len(rows), -1 if rows else 0)
    if kind == "np":
        return array
    return optional("torch", "return_tensors='pt' needs PyTorch").from_numpy(array)
