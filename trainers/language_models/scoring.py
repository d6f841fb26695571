"""Measurement of language models on text: bits per byte, tokens, time and cache size.

`hf_sgpe.corpora.held_out` defines the texts, and the normalization that is applied before their bytes are counted.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite, log
from typing import TYPE_CHECKING, Any

import numpy
from tqdm import tqdm

from hf_sgpe.corpora.measured_text import normalized
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.weights.model_loading import load_predicting_model
from trainers.language_models.causal_objective import CausalObjective
from trainers.language_models.encoded_texts import EncodedTexts
from trainers.language_models.objectives import objective_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

# Number of tokens with which the cache is measured. It is large enough to make the fixed part of a cache negligible, and
# smaller than any sliding window.
_CACHED_TOKENS = 16


# Bits for a byte of unknown text, as for a byte that nothing predicts.
_UNKNOWN_BITS = 8


class NotFiniteError(SGPEError):
    """The error for a model whose predictions or weights are infinite or NaN."""


@dataclass(frozen=True)
class Score:
    """The score of a model on some texts.

    Attributes:
        bits: Bits that the model needs to encode all texts.
        bytes: Number of bytes of the texts in UTF-8. For a causal model, they include line ends.
        tokens: Number of predicted tokens. Each token is counted once.
        seconds: Time that the model takes to read the texts once.
        cache_bytes: Bytes that the model's cache needs for all tokens of the texts; None if the model caches no keys and
            values.
        watched: Total probability that the model assigns to the watched tokens of `score_texts`, from 0 to 1, averaged over
            all predictions.
        watched_tokens: How many of the predicted tokens are watched tokens.
        watched_bits: Bits that the model needs to encode the watched tokens.
        characters: Number of characters that the model read. If the time was limited, they are the beginning of the texts.
    """

    bits: float
    bytes: int
    tokens: int
    seconds: float
    cache_bytes: int | None
    watched: float
    watched_tokens: int
    watched_bits: float
    characters: int = 0

    @property
    def bits_per_byte(self) -> float:
        return self.bits / self.bytes

    def losses(self) -> dict[str, float]:
        """Return the mean losses per token in nats, as trainers report them: of the watched tokens (``new``), the other
        tokens (``old``) and ``all`` tokens. A group without tokens is missing.
        """
        old = self.tokens - self.watched_tokens, self.bits - self.watched_bits
        parts = {"all": (self.tokens, self.bits), "old": old, "new": (self.watched_tokens, self.watched_bits)}
        return {name: bits * log(2) / tokens for name, (tokens, bits) in parts.items() if tokens}

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"bits_per_byte": self.bits_per_byte}


def bits_per_byte(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, length: int | None = None
) -> float:
    """Return the number of bits that a model needs for each UTF-8 byte of held-out texts (see `score_texts`)."""
    return score_texts(model, tokenizer, texts, length=length).bits_per_byte


def encode_held_out(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, length: int | None = None
) -> EncodedTexts:
    """Encode held-out texts for a model (see `score_texts`)."""
    texts = list(map(normalized, texts))
    encoded = objective_of(model.config, type(model).__name__).encode(model, tokenizer, texts, length)
    if not encoded.tokens:
        raise SGPEError("there is no text to measure bits per byte on")
    rows = len(model.get_input_embeddings().weight)
    if encoded.largest_id >= rows:
        raise SGPEError(
            f"the tokenizer has the id {encoded.largest_id:,}, but the model has only {rows:,} rows: give the tokenizer "
            "that the model was trained with"
        )
    return encoded


def score_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    length: int | None = None,
    watched: Sequence[int] = (),
    progress: str | None = None,
    minutes: float | None = None,
) -> Score:
    """Measure how well a model predicts held-out texts. The resulting bits per byte are comparable between models of the
    same kind with different tokenizers.

    Each token is predicted once, and the bits of all tokens are added up. The objective of the model defines from what a
    token is predicted: see `CausalObjective.encode`, `MaskedObjective.encode` and `PairObjective.encode`. Text that spells a
    special token is scored as that token. Bytes are counted in the NFC form of the texts, even if the tokenizer changes the
    texts.

    Args:
        texts: Texts, such as the result of `hf_sgpe.corpora.held_out.HeldOut.texts`.
        length: Number of tokens that the model reads at a time; None for the model's greatest length, but at most 1,024
            (causal), or 128 (masked). All commands use None, because the bits per byte of a model depend on the length.
        watched: Ids of the tokens whose total probability is measured.
        progress: Label of the progress bar, which is only shown on a terminal. None shows no bar.
        minutes: Greatest time for the measurement, estimated from the first tokens. If all texts would take longer, only
            their beginning is read. None means no limit.
    """
    encoded = encode_held_out(model, tokenizer, texts, length=length)
    if minutes is not None and (share := 60 * minutes / _estimated_seconds(model, encoded)) < 1:
        texts = beginning_of(texts, int(share * sum(map(len, texts))))
        encoded = encode_held_out(model, tokenizer, texts, length=length)
    score = score_encoded(model, encoded, watched=watched, progress=progress)
    return replace(score, characters=sum(map(len, texts)))


def beginning_of(texts: Iterable[str], characters: int) -> list[str]:
    """Return the beginning of texts, with at most a given number of characters. The last text ends with a whole line, unless
    the first line is longer.

    >>> beginning_of(["one\\ntwo\\n", "three\\nfour"], 15), beginning_of(["one\\n"], 2)
    (['one\\ntwo\\n', 'three\\n'], ['on'])
    """
    taken: list[str] = []
    for text in texts:
        if len(text) > characters:
            part = text[: max(characters, 0)]
            whole = part[: part.rfind("\n") + 1]
            return [*taken, *filter(None, [whole or ("" if taken else part)])]
        taken.append(text)
        characters -= len(text)
    return taken


def _estimated_seconds(model: PreTrainedModel, encoded: EncodedTexts) -> float:
    """Return the time that a measurement of the texts would take, estimated from its first pass."""
    started = time.perf_counter()
    score_encoded(model, replace(encoded, passes=encoded.passes[:1]), with_cache=False)
    return (time.perf_counter() - started) * len(encoded.passes)


def score_encoded(
    model: PreTrainedModel,
    encoded: EncodedTexts,
    *,
    watched: Sequence[int] = (),
    progress: str | None = None,
    with_cache: bool = True,
    shared: bool = False,
) -> Score:
    """Measure how well a model predicts texts from `encode_held_out`, and leave the model and all random states as
    they were. See `score_texts`.

    Args:
        with_cache: Whether to measure the size of a causal model's cache; otherwise ``cache_bytes`` is None.
        shared: Whether the processes of accelerate share the work. All processes must make this call, and each process
            returns the score on all texts.
    """
    import torch
    from torch.nn.functional import cross_entropy

    process, processes = 0, 1
    if shared:
        from accelerate import PartialState
        from accelerate.utils import gather_object

        process, processes = PartialState().process_index, PartialState().num_processes
    passes = encoded.passes
    # A model can be spread over processes, and its parts wait for each other. Therefore, each process makes the same number
    # of passes. A process without work repeats a pass.
    rounds = range(-(-len(passes) // processes))
    sums = [0.0] * 4
    with undisturbed(model), torch.no_grad():
        model.eval()
        index = torch.tensor(list(watched), dtype=torch.long, device=model.device)
        kept = _cache_bytes(model) if with_cache else None  # before the clock starts: the very first pass takes longer
        started = time.perf_counter()
        hidden = progress is None or not somebody_watches()
        for turn in tqdm(rounds, desc=progress, unit=" parts", disable=hidden, leave=False):
            number = turn * processes + process
            one = passes[min(number, len(passes) - 1)]().to(model.device)
            logits, targets = model(**one.inputs).logits[one.counted].float(), one.targets
            if number >= len(passes):
                continue
            losses = cross_entropy(logits, targets, reduction="none")
            sums[0] += losses.double().sum().item()
            if len(index):
                sums[1] += (logits[:, index].logsumexp(1) - logits.logsumexp(1)).exp().double().sum().item()
                hits = torch.isin(targets, index)
                sums[2] += int(hits.sum())
                sums[3] += losses[hits].double().sum().item()
    if shared:
        sums = [sum(column) for column in zip(*gather_object([sums]), strict=True)]
    nats, share, watched_tokens, watched_nats = sums
    tokens = encoded.tokens
    seconds = (time.perf_counter() - started) / encoded.repetitions
    if not isfinite(nats):
        raise NotFiniteError("the model's predictions are not finite numbers: its weights are damaged")
    return Score(
        bits=nats / log(2) + _UNKNOWN_BITS * encoded.unknown_bytes,
        bytes=encoded.bytes,
        tokens=tokens,
        seconds=seconds,
        cache_bytes=None if kept is None else round(kept * tokens),
        watched=share / max(tokens, 1),
        watched_tokens=int(watched_tokens),
        watched_bits=watched_nats / log(2),
    )


@contextmanager
def undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """After a ``with`` block, restore the random states of PyTorch (on all devices of a model), NumPy and Python, and the
    mode (training or evaluation) of each module of the model.
    """
    import torch

    modes = {module: module.training for module in model.modules()}
    of_python, of_numpy = random.getstate(), numpy.random.get_state()
    devices = {parameter.device for parameter in model.parameters() if parameter.device.type not in ("cpu", "meta")}
    kind = next(iter(devices)).type if devices else "cuda"
    # MPS has one device, whose number is not known.
    indices = [0 if device.index is None else device.index for device in devices]
    try:
        with torch.random.fork_rng(indices, device_type=kind):
            yield
    finally:
        random.setstate(of_python)
        numpy.random.set_state(of_numpy)
        model.train(modes[model])  # some modules do more than set their mode
        for module, mode in modes.items():
            module.training = mode


def _cache_bytes(model: PreTrainedModel) -> float | None:
    """Return the number of bytes that a causal model caches for each token of a text (in its sliding window), or None if the
    model has no cache of keys and values.
    """
    import torch

    if not isinstance(objective_of(model.config, type(model).__name__), CausalObjective):
        return None

    ids = torch.zeros((1, _CACHED_TOKENS), dtype=torch.long, device=model.device)
    with torch.inference_mode():
        output = model(input_ids=ids, use_cache=True)
    # Layers of linear attention and state-space models have a state of fixed size instead of keys and values.
    layers = getattr(getattr(output, "past_key_values", None), "layers", ())
    kept = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
    return sum(tensor.nbytes for tensor in kept if tensor is not None) / _CACHED_TOKENS or None


def score_model(
    path_or_repo: str,
    tokenizer: PreTrainedTokenizerBase,
    texts: Mapping[str, Sequence[str]],
    *,
    watched: Sequence[int] = (),
    minutes: float = 0,
    tell: Callable[[str], None] = logger.warning,
) -> dict[str, Score]:
    """Load a model from a folder or the Hub, and return its score on each named text (see `score_texts`). All
    measurements together take at most about ``minutes``, if it is not 0. ``tell`` is called with a line about each text of
    which only the beginning was measured.

    On a CPU, the model computes in 32 bits, so that rounding does not cause small differences. On a GPU, it computes in the
    number type of the weights' file.
    """
    import torch

    if minutes < 0:
        raise SGPEError(f"eval_minutes must be at least 0, not {minutes:g}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_predicting_model(path_or_repo, dtype="auto" if device == "cuda" else None).to(device)
    limit = minutes / max(len(texts), 1) if minutes else None
    try:
        scores = {
            name: score_texts(model, tokenizer, some, watched=watched, progress=f"Reading {name}", minutes=limit)
            for name, some in texts.items()
        }
    except SGPEError as error:
        raise SGPEError(f"{path_or_repo}: {error}") from None
    for line in limits_of(texts, scores):
        tell(line)
    return scores


def limits_of(texts: Mapping[str, Sequence[str]], scores: Mapping[str, Score]) -> list[str]:
    """Return a line for each named text of which only the beginning was measured."""
    sizes = {name: sum(map(len, some)) for name, some in texts.items()}
    return [
        f"{name}: bits per byte of the first {scores[name].characters / size:.0%} of the text (all with --eval-minutes 0)"
        for name, size in sizes.items()
        if scores[name].characters < size
    ]
