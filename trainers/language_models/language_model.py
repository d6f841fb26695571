"""Conversion of texts into training examples (rows of token ids), and a small language model to train.

A text is a string or, if it is too large for one string, a sequence of its parts in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy

from hf_sgpe.corpora.text_files import Text
from hf_sgpe.counts.counters import in_batches
from hf_sgpe.errors import SGPEError
from hf_sgpe.weights.model_loading import encode_texts

if TYPE_CHECKING:
    import torch
    from transformers import LlamaConfig, PreTrainedTokenizerBase

# Enough text to occupy all threads of the kernel, and small compared with the ids.
_BATCH_CHARACTERS = 1 << 20


def pack(texts: Iterable[Text], tokenizer: PreTrainedTokenizerBase, length: int) -> Iterator[list[int]]:
    """Encode texts, and yield rows of exactly ``length`` ids for training. The rows contain all texts one after another.

    The ids of `text_start` precede each text. A row can begin and end anywhere in a text. An incomplete last row is dropped.
    Only the ids of about a megabyte of text are in memory at a time. Text that spells a special token is encoded as that
    token.

    >>> from trainers import TokenizerTrainer, TrainingConfig
    >>> config = TrainingConfig(vocab_size=259, recipe="bpe", special_tokens=("<|endoftext|>",))
    >>> tokenizer = TokenizerTrainer(config).train(text="low low low")
    >>> [tokenizer.convert_ids_to_tokens(row) for row in pack(["low", "slow"], tokenizer, 2)]
    [['<|endoftext|>', 'low'], ['<|endoftext|>', 's']]
    """
    if length < 1:
        raise SGPEError(f"a row needs at least 1 token, not {length}")
    before_text = text_start(tokenizer)
    ids: list[int] = []
    for batch in in_batches(_parts(texts), _BATCH_CHARACTERS, lambda part: len(part or "")):
        encoded = iter(encode_texts([part for part in batch if part is not None], tokenizer))
        for part in batch:
            ids += before_text if part is None else next(encoded)
        end = len(ids) - len(ids) % length
        for start in range(0, end, length):
            yield ids[start : start + length]
        del ids[:end]


def _parts(texts: Iterable[Text]) -> Iterator[str | None]:
    """Yield the parts of all texts, and None before each text."""
    for text in texts:
        yield None
        yield from [text] if isinstance(text, str) else text


def collate(rows: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """Make a training batch (input ids and labels) from rows of `pack`. The collator of transformers excludes the padding
    token from the loss, and this may be the end-of-text token. Here, all tokens are labels.
    """
    import torch

    ids = torch.from_numpy(numpy.array(rows, numpy.int64))
    return {"input_ids": ids, "labels": ids.clone()}


def text_start(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids that precede each text in a row: eos or, if there is no eos, bos or sep; and bos, if the tokenizer puts
    it before each text.
    """
    bos = tokenizer.bos_token_id
    ends = (tokenizer.eos_token_id, bos, tokenizer.sep_token_id)
    separator = next((id for id in ends if id is not None), None)
    if separator is None:
        raise SGPEError(
            "the tokenizer has no eos token to put between texts: train it with special_tokens=('<|endoftext|>',)"
        )
    if bos in (None, separator) or tokenizer("", return_attention_mask=False)["input_ids"][:1] != [bos]:
        return [int(separator)]
    return [int(separator), int(bos)]


def check_shape(*, width: int, heads: int, head_width_multiple: int = 1, **others: int) -> None:
    """Check that a model can have the given sizes, and heads whose width is a multiple of ``head_width_multiple``."""
    for name, number in {"width": width, "heads": heads, **others}.items():
        if number < 1:
            raise SGPEError(f"{name} must be at least 1, not {number}")
    if width % (head_width_multiple * heads):
        raise SGPEError(
            f"{heads} heads cannot share a width of {width}: give a width that is a multiple of "
            f"{head_width_multiple * heads}"
        )


def small_llama(vocab_size: int, *, layers: int, width: int, heads: int, length: int) -> LlamaConfig:
    """Return the configuration of a Llama model that trains in minutes. Its input and output embeddings are tied, its
    feed-forward layers are 8/3 as wide as the model, and its context has ``length`` tokens.
    """
    check_shape(width=width, heads=heads, head_width_multiple=2, layers=layers, length=length)
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
        bos_token_id=None,  # the defaults are those of Llama 2
        eos_token_id=None,
    )
