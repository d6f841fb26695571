"""The tables of a model that have a row for each token: the embeddings, the output and its biases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.renumbering import moved_field
from hf_sgpe.learning.adaptation import PARTS
from trainers.model_rows.embedding_rows import RowMap, map_rows
from trainers.model_rows.table_checks import PER_LAYER_SIZE, check_ids, check_tables

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


MOST_MULTIPLE = 4096
"""The greatest value of ``multiple``. A greater value is treated as a mistake."""


def fit_embeddings(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    old: PreTrainedTokenizerBase,
    *,
    multiple: int = 64,
    start: Callable[[RowMap], RowMap] | None = None,
) -> RowMap:
    """Change the embedding and the output of a model that was trained with the tokenizer ``old``, so that the model works
    with a new tokenizer.

    The row of each old token moves to the new id of the token. The row of a new token starts at the mean of the rows of its
    old pieces (see `trainers.model_rows.embedding_rows`). Token ids in the configuration and in the generation configuration
    change in the same way. The ids of bos, eos and pad become those of the new tokenizer, or None if the new tokenizer has
    no such token. If the new tokenizer only adds tokens, no id in a configuration changes. If both tokenizers have the same
    tokens and ids, the weights stay unchanged, even if they have padding rows.

    Args:
        multiple: The number of rows is rounded up to a multiple of this number, so that GPUs multiply matrices faster.
        start: Function that weights the old rows from which a new row starts, as in `trainers.model_rows.row_starts`.
    """
    present = len(model.get_input_embeddings().weight)
    row_map = fitting_rows(present, tokenizer, old, multiple=multiple)
    if start is not None:
        row_map = start(row_map)
    if not row_map.changes_nothing:
        check_tables(model, tables_of(model))
        check_ids(model.config, row_map, present, tokenizer.added_tokens_decoder)
        _apply(row_map, model, tokenizer)
    text = model.config.get_text_config()  # image models have a separate one
    configs = [model.config, *[text] * (text is not model.config), getattr(model, "generation_config", None)]
    for config in filter(None, configs):
        for name, value in moved_ids(vars(config), row_map, tokenizer).items():
            setattr(config, name, value)
    return row_map


def fitting_rows(
    present: int, tokenizer: PreTrainedTokenizerBase, old: PreTrainedTokenizerBase, *, multiple: int = 1
) -> RowMap:
    """Return the `RowMap` of `map_rows` for a model with ``present`` rows. If all old tokens keep their ids, the model keeps
    its spare rows.
    """
    if not 1 <= multiple <= MOST_MULTIPLE:
        raise SGPEError(f"the multiple of rows must be from 1 to {MOST_MULTIPLE:,}, not {multiple:,}")
    needed = embedding_rows(old, multiple=1)
    if present < needed and _are_rowless(range(present, needed), old):
        needed = present
    if not needed <= present <= 2 * needed + max(multiple, 64):  # spare rows are fine, but not more than tokens
        raise SGPEError(
            f"the model has {present:,} rows for tokens, but its own tokenizer has {needed:,} ids: give the tokenizer that "
            "the model was trained with"
        )
    row_map = map_rows(tokenizer, old, rows=embedding_rows(tokenizer, multiple=1))
    if not row_map.keeps_ids:
        return replace(row_map, rows=-(-row_map.rows // multiple) * multiple)
    rows = -(-max(present, 1 + max(row_map.pieces, default=-1)) // multiple) * multiple
    known = [id for id in row_map.known if id < rows]
    return replace(row_map, rows=rows, known=known, kept={id: id for id in known})


def _are_rowless(ids: Iterable[int], tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether all ids are of special tokens without a role. Gemma 3's text models have no row for the image token."""
    added = tokenizer.added_tokens_decoder
    roles = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id)
    return all(id in added and added[id].special and id not in roles for id in ids)


def _apply(row_map: RowMap, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    import torch

    present = len(model.get_input_embeddings().weight)
    rows = [row_map.within(len(table), present).apply(table, ids=present) for table in tables_of(model)]
    try:
        model.resize_token_embeddings(row_map.rows, mean_resizing=False)
    except NotImplementedError:
        raise SGPEError(
            f"the embeddings of {type(model).__name__} cannot be resized for another tokenizer: use another model"
        ) from None
    if (bias := getattr(model, "final_logits_bias", None)) is not None:  # resizing makes it a tensor in 32 bits
        model.final_logits_bias = bias.to(rows[-1].dtype)
    if (per_layer := _per_layer(model)) is not None:  # transformers before 5.24 does not resize it
        per_layer.weight = torch.nn.Parameter(rows[-1], requires_grad=per_layer.weight.requires_grad)
        per_layer.num_embeddings = len(rows[-1])
        for one in (model.config.get_text_config(), *model.modules()):
            if hasattr(one, PER_LAYER_SIZE):
                setattr(one, PER_LAYER_SIZE, len(rows[-1]))
    with torch.no_grad():
        for table, new in zip(tables_of(model), rows, strict=True):
            table.copy_(new)
    embeddings = [model.get_input_embeddings().weight, *([] if per_layer is None else [per_layer.weight])]
    for module in model.modules():
        # The row of padding_idx gets no gradient.
        if any(getattr(module, "weight", None) is one for one in embeddings) and hasattr(module, "padding_idx"):
            module.padding_idx = None if module.padding_idx is None else tokenizer.pad_token_id


def tables_of(model: PreTrainedModel) -> list[torch.Tensor]:
    """Return the tensors that have a row for each id: the embedding, the output (if it is not the same table), the biases of
    the output, and the per-layer embeddings (of Gemma 3n and Gemma 4).
    """
    embedding, output = model.get_input_embeddings().weight, model.get_output_embeddings()
    tables = [embedding]
    if output is not None:
        tables += [output.weight] * (output.weight is not embedding)
        tables += [output.bias] * (getattr(output, "bias", None) is not None)
    if (bias := getattr(model, "final_logits_bias", None)) is not None:  # BART's, which has one row
        tables.append(bias[0])
    if (per_layer := _per_layer(model)) is not None:
        tables.append(per_layer.weight)
    return tables


def _per_layer(model: PreTrainedModel) -> Any:
    return next((one for name, one in model.named_modules() if name.split(".")[-1] == "embed_tokens_per_layer"), None)


def moved_ids(config: Mapping[str, Any], row_map: RowMap, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Return the new values of the fields of a configuration that change.

    Every id becomes the new id of its token. The ids of bos, eos and pad become those of the new tokenizer, or None if the
    new tokenizer has no such token. With a trimmed tokenizer, or if an extension moved special tokens, these ids become the
    new ids of their old tokens instead. Nothing changes if the tokenizer is an extended one in which all old tokens keep
    their ids.
    """
    if row_map.keeps_ids and not row_map.changes_nothing:
        return {}
    moved = {old: new for new, old in row_map.kept.items()}
    changed = {} if row_map.keeps_ids else {name: moved_field(name, value, moved) for name, value in config.items()}
    metadata = tokenizer.init_kwargs.get("sgpe") or {}
    is_moved = bool(metadata.get("trimmed")) or any("moved_by" in note for note in metadata.get("extensions", ()))
    for role in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if is_moved and changed.get(role) is not None:
            continue  # the model's own token, which may have no role in its tokenizer
        id, present = getattr(tokenizer, role), changed.get(role, config.get(role))
        if not (isinstance(present, list) and id in present):  # keep a list of ids that includes the token
            changed[role] = id
    if config.get("is_encoder_decoder") and changed.get(start := "decoder_start_token_id", config.get(start)) is None:
        changed[start] = tokenizer.pad_token_id
    return {name: value for name, value in changed.items() if value != config.get(name)}


def embedding_rows(tokenizer: PreTrainedTokenizerBase, *, multiple: int = 64) -> int:
    """Return the number of embedding rows that a tokenizer's ids need, including gaps, rounded up to a multiple."""
    last: int = max(tokenizer.get_vocab().values())
    return (last // multiple + 1) * multiple


def extended_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids of added language codes, and the ids that the last extension of a tokenizer added."""
    given = tokenizer.init_kwargs.get("sgpe")
    metadata = given if isinstance(given, dict) else {}
    extensions = metadata.get("extensions")
    ranges = extensions[-1].get("new_ids", []) if extensions else []
    codes = sorted(tokenizer.convert_tokens_to_ids(list(metadata.get("languages", ()))))
    return [*codes, *(id for first, last in ranges for id in range(first, last + 1))]


class NewRows:
    """Some rows of a model's tables as separate parameters, so that the rest of a table can have a different learning rate,
    or be frozen. The model must be on the device where it is trained.

    Before each step of the attached optimizer, the gradients of the rows are moved to these parameters. After the step, the
    parameters are written back into the table.
    """

    def __init__(self, model: PreTrainedModel, ids: Sequence[int]) -> None:
        import torch

        self._tables = [table for table in tables_of(model) if table.requires_grad]
        self._index = torch.tensor(list(ids), dtype=torch.long, device=self._tables[0].device)
        self.parameters = [torch.nn.Parameter(table.detach()[self._index].clone()) for table in self._tables]

    def set(self, rows: Sequence[torch.Tensor]) -> None:
        """Replace the rows by one tensor for each table."""
        for parameter, given in zip(self.parameters, rows, strict=True):
            parameter.data.copy_(given)
        self._write_back()

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.register_step_pre_hook(lambda *_: self._take_gradients())
        optimizer.register_step_post_hook(lambda *_: self._write_back())

    def _take_gradients(self) -> None:
        for table, rows in zip(self._tables, self.parameters, strict=True):
            rows.data.copy_(table.detach()[self._index])  # a checkpoint may have been loaded meanwhile
            rows.grad = None
            if table.grad is not None:
                rows.grad = table.grad[self._index]
                table.grad[self._index] = 0

    def _write_back(self) -> None:
        for table, rows in zip(self._tables, self.parameters, strict=True):
            table.detach()[self._index] = rows.detach()


def parameter_groups(
    model: PreTrainedModel, parts: str, ids: Sequence[int], *, learning_rate: float, rows_learning_rate: float | None = None
) -> tuple[list[dict[str, Any]], NewRows | None]:
    """Return the parameters to train, in groups for an optimizer, and freeze all others. If new rows are trained separately,
    also return a `NewRows` that must be attached to the optimizer.

    Args:
        parts: The part of the model to train, one of `hf_sgpe.learning.adaptation.PARTS`.
        ids: Ids of the new rows, used only for ``new-rows`` or with ``rows_learning_rate``.
        rows_learning_rate: Learning rate of the new rows. None for the learning rate of the other parameters.
    """
    if parts not in PARTS:
        raise SGPEError(f"unknown parts to train {parts!r}: choose from {', '.join(PARTS)}")
    if not ids and (parts == "new-rows" or rows_learning_rate is not None):
        raise SGPEError("there are no new rows to train: extend the tokenizer first, or leave out the options for new rows")
    tables = [table for table in tables_of(model) if table.requires_grad]
    if parts != "all":
        ends = [layers_of(model)[0], layers_of(model)[-1]] if parts == "ends" else []
        kept = [*tables, *(parameter for layer in ends for parameter in layer.parameters())]
        for parameter in model.parameters():
            parameter.requires_grad_(any(parameter is one for one in kept))
    others = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if parts != "new-rows" and rows_learning_rate is None:
        return [{"params": others}], None
    rows = NewRows(model, ids)
    new = {"params": rows.parameters, "lr": rows_learning_rate or learning_rate}
    return ([new] if parts == "new-rows" else [{"params": others, "lr": learning_rate}, new]), rows


def layers_of(model: PreTrainedModel) -> Sequence[torch.nn.Module]:
    """Return the layers of a model, from the first to the last. The layers of an encoder precede those of its decoder."""
    from torch.nn import ModuleList

    if model.config.is_encoder_decoder:
        layers: list[torch.nn.Module] = []
        for part in (model.get_encoder(), model.get_decoder()):
            layers += next(child for child in part.children() if isinstance(child, ModuleList))
        return layers
    number = getattr(model.config.get_text_config(), "num_hidden_layers", 0)
    for module in model.modules():
        if isinstance(module, ModuleList) and len(module) == number > 0:
            return list(module)
    raise SGPEError(f"{type(model).__name__} has no list of layers, so its layers cannot be chosen")
