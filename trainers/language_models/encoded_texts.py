"""Held-out texts as ids, in the form in which a model of any kind is measured on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

MEASURED_TOKENS = 2048
"""Number of tokens in one forward pass of a measurement. The logits of these tokens take most of the memory."""


@dataclass(frozen=True)
class ForwardPass:
    """The inputs of one forward pass, and the ids that the model must predict in it.

    Attributes:
        inputs: Keyword arguments of the model.
        counted: Mask over the logits (rows × tokens). It is true where a prediction is counted.
        targets: The id to predict at each counted place.
    """

    inputs: Mapping[str, Any]
    counted: torch.Tensor
    targets: torch.Tensor

    def to(self, device: torch.device) -> ForwardPass:
        moved = {name: one.to(device) if hasattr(one, "to") else one for name, one in self.inputs.items()}
        return ForwardPass(moved, self.counted.to(device), self.targets.to(device))


@dataclass(frozen=True)
class EncodedTexts:
    """Texts on which a model can be measured several times.

    Attributes:
        bytes: Number of bytes of the text to predict, in UTF-8.
        tokens: Number of ids to predict. Each id is counted once.
        repetitions: How often the model reads each token, on average.
        passes: Functions that return the forward passes.
        unknown_bytes: Bytes of the text that the tokenizer replaces by unknown tokens. A model cannot predict them, so each
            costs eight bits.
    """

    bytes: int
    tokens: int
    largest_id: int
    repetitions: float
    passes: Sequence[Callable[[], ForwardPass]]
    unknown_bytes: int = 0


def count_unknown_bytes(text: str, encoding: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> int:
    """Count the bytes of a text that its encoding, which has offsets, replaces by unknown tokens."""
    size = 0
    for id, (start, end) in zip(encoding["input_ids"], encoding["offset_mapping"], strict=True):
        if id == tokenizer.unk_token_id:
            size += len(text[start:end].encode())
    return size
