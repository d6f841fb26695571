"""How well a causal language model predicts text, and what it costs to read: bits per byte, tokens, time, cache.

What the texts are, and in which form their bytes are counted, is in `hf_sgpe.corpora.held_out`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from hf_sgpe.corpora.measured_text import normalized
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.weights.model_loading import load_causal_model
from trainers.language_models.language_model import encode_texts, text_start

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Tokens in one forward pass of a measurement: their logits are the largest thing in memory.
_MEASURED_TOKENS = 2048
_LONGEST_WINDOW = 1024
# Enough that what a cache holds once does not count, and less than any sliding window.
_CACHED_TOKENS = 16


@dataclass(frozen=True)
class Score:
    """What a causal model makes of some texts.

    Attributes:
        bits: That it needs for all of them.
        bytes: Of the texts in UTF-8, line ends included.
        tokens: That were predicted, each once; those of line ends are among them.
        seconds: That the model takes to read the texts once.
        cache_bytes: That the model keeps of the texts while it reads them; None if it keeps no keys and values.
        watched: Mean share of the probability that goes to the tokens that were watched, 0 to 1.
    """

    bits: float
    bytes: int
    tokens: int
    seconds: float
    cache_bytes: int | None
    watched: float

    @property
    def bits_per_byte(self) -> float:
        return self.bits / self.bytes

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return vars(self) | {"bits_per_byte": self.bits_per_byte}


def bits_per_byte(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, length: int | None = None
) -> float:
    """Return how many bits a causal model needs for each UTF-8 byte of some held-out texts; see `score_texts`."""
    return score_texts(model, tokenizer, texts, length=length).bits_per_byte


def score_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    length: int | None = None,
    watched: Sequence[int] = (),
    progress: str | None = None,
) -> Score:
    """Measure how well a causal model predicts some held-out texts; bits per byte are comparable between tokenizers.

    Exact: each token of each text is predicted once, and the bits of all add up. The texts come one after another as
    `pack` has them, so the first token is predicted from what is between texts alone, and that, which is no part of the
    texts, is context and costs nothing. The model looks at ``length`` tokens at a time and moves on by half of that, so each
    token is predicted from the ``length / 2`` tokens before it at least, or from all there are. Special tokens written in a
    text count as such. Bytes are those of the texts in NFC, whatever the tokenizer makes of them.

    Args:
        texts: As `hf_sgpe.corpora.held_out.HeldOut.texts` gives them.
        length: The most tokens that the model looks at; None for as many as it can, but no more than 1,024. Every command
            leaves it at that, for with another length the same model has other bits per byte.
        watched: Ids whose share of the probability is of interest.
        progress: What a bar on stderr is called, on a terminal.

    Raises:
        SGPEError: there is no text, or the model has no rows for some of the tokenizer's ids.
    """
    import torch
    from torch.nn.functional import cross_entropy

    texts = list(map(normalized, texts))
    size = sum(len(text.encode()) for text in texts)
    if not size:
        raise SGPEError("there is no text to measure bits per byte on")
    length = length or min(getattr(model.config, "max_position_embeddings", None) or _LONGEST_WINDOW, _LONGEST_WINDOW)
    encoded, start = encode_texts(texts, tokenizer), text_start(tokenizer)
    windows, counted = _windows(encoded, start, length)
    rows, largest = len(model.get_input_embeddings().weight), int(windows.max())
    if largest >= rows:
        raise SGPEError(f"the tokenizer has id {largest:,}, and the model {rows:,} rows: they do not belong together")

    was_training = model.training
    model.eval()
    nats = share = 0.0
    index = torch.tensor(list(watched), dtype=torch.long, device=model.device)
    kept = cache_bytes(model)  # before the clock starts: the first pass of all takes longer
    started = time.perf_counter()
    per_pass = max(_MEASURED_TOKENS // length, 1)
    with torch.inference_mode():
        for first in tqdm(
            range(0, len(windows), per_pass), desc=progress, disable=progress is None or not somebody_watches(), leave=False
        ):
            window, mask = (rows[first : first + per_pass].to(model.device) for rows in (windows, counted))
            logits = model(input_ids=window[:, :-1], use_cache=False).logits[mask].float()
            losses = cross_entropy(logits, window[:, 1:][mask], reduction="none")
            nats += losses.double().sum().item()
            if len(index):
                share += (logits[:, index].logsumexp(1) - logits.logsumexp(1)).exp().double().sum().item()
    model.train(was_training)
    tokens = int(counted.sum())
    # Windows overlap, so that most tokens are read twice.
    all_tokens = sum(len(start) + len(text) for text in encoded)
    seconds = (time.perf_counter() - started) * all_tokens / (len(windows) * length)
    if not isfinite(nats):
        raise SGPEError("what the model predicts is no number: its weights are damaged")
    return Score(
        bits=nats / log(2),
        bytes=size,
        tokens=tokens,
        seconds=seconds,
        cache_bytes=None if kept is None else round(kept * tokens),
        watched=share / max(tokens, 1),
    )


def _windows(encoded: list[list[int]], start: list[int], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return windows of ``length`` ids of the texts and the one after, and which of their ids but the first are counted."""
    import torch

    stride = max(length // 2, 1)
    ids = [id for text in encoded for id in (*start, *text)]
    counts = [counted for text in encoded for counted in (*[False] * len(start), *[True] * len(text))]
    # The last window reaches beyond the end.
    starts = range(0, max(len(ids) - 1 - length, 0) + stride, stride)
    beyond = starts[-1] + length + 1 - len(ids)
    windows = torch.tensor(ids + start[:1] * beyond).unfold(0, length + 1, stride)
    counted = torch.tensor(counts + [False] * beyond).unfold(0, length + 1, stride)[:, 1:].clone()
    counted[1:, : length - stride] = False  # by the window before
    return windows, counted


def cache_bytes(model: PreTrainedModel) -> float | None:
    """Return what a model keeps in its cache for each token of a text, in bytes; None if it has no keys and values to keep.

    With a sliding window this is what a token takes until it leaves the window.
    """
    import torch

    ids = torch.zeros((1, _CACHED_TOKENS), dtype=torch.long, device=model.device)
    with torch.inference_mode():
        cache = model(input_ids=ids, use_cache=True).past_key_values
    kept = [tensor for layer in getattr(cache, "layers", ()) for tensor in (layer.keys, layer.values)]
    return sum(tensor.nbytes for tensor in kept) / _CACHED_TOKENS or None


def score_model(
    path_or_repo: str,
    tokenizer: PreTrainedTokenizerBase,
    texts: Mapping[str, Sequence[str]],
    *,
    watched: Sequence[int] = (),
) -> dict[str, Score]:
    """Measure a causal model of a folder or of the Hub on texts by name; see `score_texts`.

    Computes in 32 bits, so that small differences are none of rounding; on a GPU, if there is one, as the file has it.

    Raises:
        SGPEError: there is no such model, it is no causal one, or it has not enough rows for the tokenizer.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_causal_model(path_or_repo, dtype="auto" if device == "cuda" else None).to(device)
    scores = {}
    for name, some in texts.items():
        try:
            scores[name] = score_texts(model, tokenizer, some, watched=watched, progress=f"Reading {name}")
        except SGPEError as error:
            raise SGPEError(f"{path_or_repo}: {error}") from None
    return scores
