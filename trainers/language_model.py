"""Language models: text → rows of ids → a model that fits the tokenizer → training → bits per byte.

What the training scripts share. A text is a string or, where it is too large for one, its parts in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import log
from typing import TYPE_CHECKING, Any

import numpy

from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.normalization import prepare
from trainers.corpora import TEXT, CorpusFile, kind_of, read_texts
from trainers.embeddings import RowMap, map_rows

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


def fit_embeddings(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, old: PreTrainedTokenizerBase, *, multiple: int = 64
) -> RowMap:
    """Replaces the embedding and the output of a model that was trained with the tokenizer ``old`` by those for another.

    Rows follow their tokens, and those of new tokens begin at the mean of their old pieces (`trainers.embeddings`). So do
    ids in the configuration and the generation configuration; bos, eos and pad become the tokenizer's, None where it has
    none. If tokens and ids of both tokenizers are the same, the weights stay as they are, padded or not.

    Args:
        multiple: Rows are added up to the next multiple of it, for which matrix multiplication is faster on GPUs.

    Returns:
        What became of the rows, which `str` puts in words.

    Raises:
        SGPEError: ``multiple`` is below 1, the model's rows are not those of ``old``, one of two different tokenizers is not
            byte-level, or the model has more than one embedding.
    """
    if multiple < 1:
        raise SGPEError(f"the embedding is padded to a multiple of at least 1, not {multiple}")
    present, needed = len(model.get_input_embeddings().weight), embedding_rows(old, multiple=1)
    if not needed <= present <= 2 * needed + multiple:  # it may have spare ones, but not as many as tokens
        raise SGPEError(
            f"the model has {present:,} rows for tokens, but {needed:,} ids are in the tokenizer given as its own: "
            "give the one that it was trained with"
        )
    row_map = map_rows(tokenizer, old, rows=embedding_rows(tokenizer, multiple=multiple))
    if not row_map.changes_nothing:
        _apply(row_map, model, tokenizer)
    for config in filter(None, (model.config, model.generation_config)):
        _move_ids(config, row_map, tokenizer)
    return row_map


def _apply(row_map: RowMap, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    import torch

    rows = [row_map.apply(table) for table in _tables(model)]
    try:
        model.resize_token_embeddings(row_map.rows, mean_resizing=False)
    except NotImplementedError:
        raise SGPEError(f"{type(model).__name__} has embeddings that cannot be fitted to another tokenizer") from None
    with torch.no_grad():
        for table, new in zip(_tables(model), rows, strict=True):
            table.copy_(new)
    for module in model.modules():
        # The row of a padding_idx gets no gradient.
        if getattr(module, "weight", None) is model.get_input_embeddings().weight and hasattr(module, "padding_idx"):
            module.padding_idx = None if module.padding_idx is None else tokenizer.pad_token_id


def _tables(model: PreTrainedModel) -> list[torch.Tensor]:
    """The tensors with a row for each id: the embedding, the output if it is not tied, and the output's biases."""
    embedding, output = model.get_input_embeddings().weight, model.get_output_embeddings()
    tables = [embedding]
    if output is not None:
        tables += [output.weight] * (output.weight is not embedding)
        tables += [output.bias] * (getattr(output, "bias", None) is not None)
    if (bias := getattr(model, "final_logits_bias", None)) is not None:  # BART's, of one row
        tables.append(bias[0])
    return [table.detach() for table in tables]


def _move_ids(config: Any, row_map: RowMap, tokenizer: PreTrainedTokenizerBase) -> None:
    moved = {old: new for new, old in row_map.kept.items()}
    for name, value in () if row_map.changes_nothing else list(vars(config).items()):
        if name.endswith("_token_id") and isinstance(value, int):
            setattr(config, name, moved.get(value))
        elif name.endswith(("_token_id", "_token_ids", "suppress_tokens")) and isinstance(value, list):
            setattr(config, name, [moved[id] for id in value if id in moved] or None)
    for role in ("bos_token_id", "eos_token_id", "pad_token_id"):
        id, present = getattr(tokenizer, role), getattr(config, role, None)
        if not (isinstance(present, list) and id in present):  # of several that end texts all do
            setattr(config, role, id)
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = tokenizer.pad_token_id


def embedding_rows(tokenizer: PreTrainedTokenizerBase, *, multiple: int = 64) -> int:
    """How many rows an embedding needs for a tokenizer's ids, gaps between them included, rounded up to ``multiple``."""
    last: int = max(tokenizer.get_vocab().values())
    return (last // multiple + 1) * multiple


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


def bits_per_byte(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, length: int | None = None
) -> float:
    """How many bits a causal model needs for each UTF-8 byte of some held-out texts; comparable between tokenizers.

    Exact: each token of each text is predicted once, and the bits of all add up. The texts stand one after another as
    `pack` has them, so the first token is predicted from the separator alone, and the separators, which are no part of the
    texts, are context and cost nothing. The model looks at ``length`` tokens at a time and moves on by half of that, so each
    token is predicted from the ``length / 2`` tokens before it at least, or from all there are. Bytes are those of ``texts``
    as given: a tokenizer that normalizes is measured on what it makes of them, so to compare it give normalized text.

    Args:
        length: The most tokens that the model looks at; None for as many as it can, but no more than 1,024.

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
    nats = 0.0
    per_pass = max(_MEASURED_TOKENS // length, 1)
    with torch.inference_mode():
        for first in range(0, len(windows), per_pass):
            window, mask = (rows[first : first + per_pass].to(model.device) for rows in (windows, counted))
            logits = model(input_ids=window[:, :-1], use_cache=False).logits[mask]
            nats += cross_entropy(logits.float(), window[:, 1:][mask], reduction="none").double().sum().item()
    model.train(was_training)
    return nats / log(2) / size
