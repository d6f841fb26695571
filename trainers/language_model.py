"""Language models: text → rows of ids for training, a small model to train, and bits per byte.

What the training scripts share. A text is a string or, where it is too large for one, its parts in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log
from typing import TYPE_CHECKING

import numpy
from tqdm import tqdm

from hf_sgpe.errors import SGPEError
from hf_sgpe.quiet import somebody_watches
from hf_sgpe.splitting.normalization import prepare
from trainers.corpora import TEXT, CorpusFile, kind_of, read_texts

if TYPE_CHECKING:
    import torch
    from transformers import LlamaConfig, PreTrainedModel, PreTrainedTokenizerBase

Text = str | Iterable[str]

# Enough for all threads of the kernel, and little beside the ids.
_BATCH_CHARACTERS = 1 << 20
# Tokens in one forward pass of a measurement: their logits are the largest thing in memory.
_MEASURED_TOKENS = 2048
_LONGEST_WINDOW = 1024


def pack(texts: Iterable[Text], tokenizer: PreTrainedTokenizerBase, length: int) -> Iterator[list[int]]:
    """Rows of exactly ``length`` ids for training: the texts one after another, each after the token that ends texts.

    A row may begin and end anywhere, and what remains of the last one is dropped. Streams: only the ids of some texts, about
    a megabyte, are in memory at a time. Special tokens written in the text count as such.

    Raises:
        SGPEError: ``length`` is below 1, or the tokenizer has no token that ends or begins a text.

    >>> from trainers import TokenizerTrainer, TrainingConfig
    >>> config = TrainingConfig(vocab_size=259, recipe="bpe", special_tokens=("<|endoftext|>",))
    >>> tokenizer = TokenizerTrainer(config).train(text="low low low")
    >>> [tokenizer.convert_ids_to_tokens(row) for row in pack(["low", "slow"], tokenizer, 2)]
    [['<|endoftext|>', 'low'], ['<|endoftext|>', 's']]
    """
    if length < 1:
        raise SGPEError(f"a row must hold at least 1 token, not {length}")
    separator = separator_id(tokenizer)
    row: list[int] = []
    for batch in _batches(texts):
        encoded = iter(_encode([part for part in batch if part is not None], tokenizer))
        row += chain.from_iterable([separator] if part is None else next(encoded) for part in batch)
        whole = len(row) - len(row) % length
        yield from (row[start : start + length] for start in range(0, whole, length))
        del row[:whole]


def collate(rows: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """A batch of rows as `pack` makes them. Each token of them is learned: transformers' collator would leave out the token
    for padding, which may be the one that ends texts.

    >>> collate([[1, 2], [3, 4]])["labels"].tolist()
    [[1, 2], [3, 4]]
    """
    import torch

    ids = torch.from_numpy(numpy.array(rows, numpy.int64))
    return {"input_ids": ids, "labels": ids.clone()}


def separator_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that stands between texts: eos or, without one, bos.

    Raises:
        SGPEError: the tokenizer has neither.
    """
    for id in (tokenizer.eos_token_id, tokenizer.bos_token_id):
        if id is not None:
            return int(id)
    raise SGPEError("the tokenizer has no eos token to put between texts: train it with special_tokens=('<|endoftext|>',)")


def _batches(texts: Iterable[Text]) -> Iterator[list[str | None]]:
    """The parts of the texts, some at a time, with None where a text begins."""
    batch: list[str | None] = []
    size = 0
    for text in texts:
        batch.append(None)
        for part in [text] if isinstance(text, str) else text:
            batch.append(part)
            size += len(part)
            if size >= _BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _encode(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    if not texts:
        return []
    well_formed = [prepare(text, "none") for text in texts]
    options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
    rows: list[list[int]] = tokenizer(well_formed, **options)["input_ids"]
    return rows


def read_documents(
    files: Iterable[CorpusFile], *, text_field: str = "text", special_tokens: Iterable[str] = ()
) -> Iterator[Text]:
    """The texts of files, as `pack` takes them: a text file is one, JSON Lines and Parquet hold one in each line or row.

    Arguments and errors as for `trainers.read_texts`.
    """
    for file in files:
        texts = read_texts(file, text_field=text_field, special_tokens=special_tokens)
        if kind_of(file) == TEXT:
            yield texts
        else:
            yield from texts


def small_llama(vocab_size: int, *, layers: int, width: int, heads: int, length: int) -> LlamaConfig:
    """The configuration of a Llama that trains in minutes: embedding and output tied, a hidden layer of 8/3 of the width.

    Args:
        length: The most tokens that it can look at, ``max_position_embeddings``.

    Raises:
        SGPEError: a number is below 1, or the heads do not divide the width evenly.

    >>> small_llama(16_000, layers=4, width=192, heads=6, length=256).intermediate_size
    512
    """
    for name, number in {"layers": layers, "width": width, "heads": heads, "length": length}.items():
        if number < 1:
            raise SGPEError(f"{name} must be at least 1, not {number}")
    if width % (2 * heads):
        raise SGPEError(f"a width of {width} cannot be shared by {heads} heads: give a multiple of {2 * heads}")
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=-(-8 * width // 24) * 8,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=length,
        tie_word_embeddings=True,
        bos_token_id=None,  # its own are Llama 2's
        eos_token_id=None,
    )


@dataclass(frozen=True)
class Score:
    """What a causal model makes of some texts.

    Attributes:
        bits: That it needs for all of them.
        bytes: Of the texts in UTF-8.
        characters: Code points of the texts.
        tokens: That were predicted, each once.
        seconds: That the measurement took, in which most tokens are read twice.
        watched: Mean share of the probability that goes to the tokens that were watched.
    """

    bits: float
    bytes: int
    characters: int
    tokens: int
    seconds: float
    watched: float

    @property
    def bits_per_byte(self) -> float:
        return self.bits / self.bytes


def bits_per_byte(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, length: int | None = None
) -> float:
    """How many bits a causal model needs for each UTF-8 byte of some held-out texts; see `score_texts`."""
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
    """How well a causal model predicts some held-out texts; its bits per byte are comparable between tokenizers.

    Exact: each token of each text is predicted once, and the bits of all add up. The texts stand one after another as
    `pack` has them, so the first token is predicted from the separator alone, and the separators, which are no part of the
    texts, are context and cost nothing. The model looks at ``length`` tokens at a time and moves on by half of that, so each
    token is predicted from the ``length / 2`` tokens before it at least, or from all there are. Bytes are those of ``texts``
    as given: a tokenizer that normalizes is measured on what it makes of them, so to compare it give normalized text.

    Args:
        length: The most tokens that the model looks at; None for as many as it can, but no more than 1,024.
        watched: Ids whose share of the probability is of interest.
        progress: What a bar on stderr is called, on a terminal.

    Raises:
        SGPEError: there is no text.
    """
    import torch
    from torch.nn.functional import cross_entropy

    size = sum(len(text.encode()) for text in texts)
    if not size:
        raise SGPEError("there is no text to measure bits per byte on")
    length = length or min(getattr(model.config, "max_position_embeddings", None) or _LONGEST_WINDOW, _LONGEST_WINDOW)
    stride = max(length // 2, 1)
    encoded = _encode(list(texts), tokenizer)
    separator = separator_id(tokenizer)
    ids = [id for text in encoded for id in (separator, *text)]
    counts = [counted for text in encoded for counted in (False, *[True] * len(text))]
    # Windows of `length` ids and the one after; their last reaches beyond the end.
    starts = range(0, max(len(ids) - 1 - length, 0) + stride, stride)
    beyond = starts[-1] + length + 1 - len(ids)
    windows = torch.tensor(ids + [separator] * beyond).unfold(0, length + 1, stride)
    counted = torch.tensor(counts + [False] * beyond).unfold(0, length + 1, stride)[:, 1:].clone()
    counted[1:, : length - stride] = False  # by the window before

    was_training = model.training
    model.eval()
    nats = share = 0.0
    index = torch.tensor(list(watched), dtype=torch.long, device=model.device)
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
    seconds = time.perf_counter() - started
    return Score(nats / log(2), size, sum(map(len, texts)), tokens, seconds, share / max(tokens, 1))
