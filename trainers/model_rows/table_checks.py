"""Checks that a model can be fitted to a new tokenizer. All tables with a row for each token must be known, and the model
must not use the id of a new token for something else.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.command import one_line
from hf_sgpe.terminal.progress import without_remarks
from trainers.model_rows.embedding_rows import RowMap

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

PER_LAYER_SIZE = "vocab_size_per_layer_input"
"""The field for the number of rows of the per-layer embeddings in configurations of Gemma 3n and Gemma 4."""
_ONE_ROW = "final_logits_bias"  # BART's; its only row is among the tables
_ID = ("_token_id", "_token_index")


def check_tables(model: PreTrainedModel, tables: Sequence[torch.Tensor]) -> None:
    """Check that the size of each of ``tables``, which begin with the embedding, depends on the size of the vocabulary, and
    that the size of no other tensor does.

    Such a tensor has another shape in a copy of the model with twice the number of tokens, which is built without weights.
    """
    kind, rows = type(model).__name__, len(tables[0])
    stored = model.state_dict(keep_vars=True)
    names = {id(tensor): name for name, tensor in reversed(stored.items())}
    larger = _with_twice_the_tokens(model, rows).state_dict(keep_vars=True)
    changed = {name for name, tensor in stored.items() if name not in larger or larger[name].shape != tensor.shape}
    known = {id(table) for table in tables}
    for name in sorted(changed):
        if id(stored[name]) not in known and name != _ONE_ROW:
            shape, type_ = list(stored[name].shape), str(stored[name].dtype).removeprefix("torch.")
            raise SGPEError(
                f"{kind}: {name} ({type_}, shape {shape}) has an entry for each token, but only embeddings, outputs and "
                "their biases can be changed for another tokenizer: use another model"
            )
    for table in tables:
        name = names.get(id(table), _ONE_ROW)
        is_per_layer = "per_layer" in name
        if name not in changed or (len(table) != rows and not is_per_layer):
            size = getattr(model.config.get_text_config(), PER_LAYER_SIZE if is_per_layer else "vocab_size", 0)
            raise SGPEError(
                f"{kind}: {name} has {len(table):,} rows, but the configuration has {size:,} tokens (vocab_size), so the "
                "table cannot be changed for another tokenizer: use another model"
            )


def _with_twice_the_tokens(model: PreTrainedModel, rows: int) -> PreTrainedModel:
    import torch

    config = deepcopy(model.config)
    for part in _parts(config):
        sizes = {name: size for name, size in vars(part).items() if name.endswith("vocab_size") or name == PER_LAYER_SIZE}
        is_text = rows in sizes.values()
        for name, size in sizes.items():
            # A second size of the same vocabulary has some tokens fewer or more.
            is_second = is_text and isinstance(size, int) and rows / 2 <= size <= 2 * rows
            if isinstance(size, int) and (size == rows or name == PER_LAYER_SIZE or is_second):
                setattr(part, name, 2 * size)
    try:
        with without_remarks(), torch.device("meta"):
            larger: PreTrainedModel = type(model)(config)
    except Exception as error:  # whatever its checks raise
        raise SGPEError(f"{type(model).__name__} cannot have more tokens ({one_line(error).split('. ')[0]})") from None
    return larger


def _parts(config: Any) -> Iterator[Any]:
    """Yield a configuration and the configurations within it, such as the text configuration of an image model."""
    from transformers import PreTrainedConfig

    yield config
    for value in vars(config).values():
        if isinstance(value, PreTrainedConfig):
            yield from _parts(value)


def check_ids(config: Any, row_map: RowMap, present: int, added: Container[int]) -> None:
    """Check that a model does not use the id of any new token for something else, such as for the position of an image.

    Args:
        present: Number of embedding rows before the change.
        added: Ids of special and added tokens of the new tokenizer. The configuration may refer to these ids.
    """
    kind = next(iter(getattr(config, "architectures", None) or ()), config.model_type)
    offsets = [offset for part in _parts(config) if (offset := vars(part).get("vocab_offset")) is not None]
    if offsets:  # Gemma 3n: all ids from the first offset on are images or sounds, without an end
        first = min(offsets)
        moved = {id for pair in row_map.kept.items() for id in pair if pair[0] != pair[1]}
        last = max((id for id in (*row_map.pieces, *moved) if id >= first), default=None)
        if last is not None or row_map.rows != present:
            raise SGPEError(
                f"{kind} uses all ids from {first:,} on for images and sounds (vocab_offset), so it cannot have "
                f"{f'a token with the id {last:,}' if last is not None else f'{row_map.rows:,} rows'}: load only the "
                f"text model with {kind.replace('ForConditionalGeneration', 'ForCausalLM')}, save it, and give that model"
            )
    for part in _parts(config) if row_map.keeps_ids else ():
        for name, value in vars(part).items():
            ids = value if isinstance(value, (list, tuple)) else [value]
            taken = [id for id in ids if isinstance(id, int) and id in row_map.pieces and id not in added]
            if taken and name.endswith((*_ID, "_token_ids")):
                raise SGPEError(
                    f"config.json: {name} is {taken[0]}, but a new token has this id: add the missing old token to the "
                    "model's tokenizer, then extend that tokenizer again"
                )
