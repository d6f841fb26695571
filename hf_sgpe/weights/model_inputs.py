"""Conversion of texts to the ids that models read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hf_sgpe.splitting.normalization import NONE, prepare

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def encode_texts(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Return the ids of each text, without the special tokens that the tokenizer's template adds."""
    if not texts:
        return []
    well_formed = [prepare(text, NONE) for text in texts]
    options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
    rows: list[list[int]] = tokenizer(well_formed, **options)["input_ids"]
    return rows
