"""The objective of causal language models: predict each token from the tokens before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hf_sgpe.corpora.text_files import Text
from hf_sgpe.weights.model_loading import encode_texts
from trainers.language_models.encoded_texts import MEASURED_TOKENS, EncodedTexts, ForwardPass
from trainers.language_models.language_model import collate, pack, text_start

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_LONGEST_WINDOW = 1024


class CausalObjective:
    """The training and the measurement of causal models."""

    options: Mapping[str, Any] = {"use_cache": False}

    def examples(self, texts: Iterable[Text], tokenizer: PreTrainedTokenizerBase, length: int) -> Iterator[list[int]]:
        return pack(texts, tokenizer, length)

    def collator(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Callable[[Any], dict[str, Any]]:
        return collate

    def encode(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], length: int | None
    ) -> EncodedTexts:
        """Encode texts as one row, and cut it into windows of ``length`` tokens. A window begins in the middle of the window
        before it. So each token is predicted from at least ``length / 2`` tokens or, near the start, from all of them.

        As in `pack`, there are separators between the texts. The first token of a text is predicted from them, but they are
        not counted themselves.
        """
        length = length or min(getattr(model.config, "max_position_embeddings", None) or _LONGEST_WINDOW, _LONGEST_WINDOW)
        encoded, start = encode_texts(list(texts), tokenizer), text_start(tokenizer)
        windows, counted = _windows(encoded, start, length)
        per_pass = max(MEASURED_TOKENS // length, 1)
        all_tokens = sum(len(start) + len(text) for text in encoded)

        def forward_pass(first: int) -> ForwardPass:
            window, mask = windows[first : first + per_pass], counted[first : first + per_pass]
            return ForwardPass({"input_ids": window[:, :-1], **self.options}, mask, window[:, 1:][mask])

        return EncodedTexts(
            bytes=sum(len(text.encode()) for text in texts),
            tokens=int(counted.sum()),
            largest_id=int(windows.max()),
            repetitions=len(windows) * length / max(all_tokens, 1),
            passes=[partial(forward_pass, first) for first in range(0, len(windows), per_pass)],
        )


def _windows(encoded: list[list[int]], start: list[int], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the windows (windows × length + 1), which overlap, and the mask of the predicted ids (windows × length). The
    mask counts each id once.
    """
    import torch

    stride = max(length // 2, 1)
    ids = [id for text in encoded for id in (*start, *text)]
    counts = [counted for text in encoded for counted in (*[False] * len(start), *[True] * len(text))]
    # The last window extends beyond the end.
    starts = range(0, max(len(ids) - 1 - length, 0) + stride, stride)
    beyond = starts[-1] + length + 1 - len(ids)
    windows = torch.tensor(ids + start[:1] * beyond).unfold(0, length + 1, stride)
    counted = torch.tensor(counts + [False] * beyond).unfold(0, length + 1, stride)[:, 1:].clone()
    counted[1:, : length - stride] = False  # these ids are counted in the previous window
    return windows, counted
