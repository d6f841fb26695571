"""Change of a model's tokenizer, directly in the model's files. Only the rows of tokens and the token ids change; everything
else stays bit for bit the same.

No model is loaded. Tables are read from their files and written to new files, a few thousand rows at a time; all other
tensors are copied. Time grows with the size of the model, but memory does not.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.folder_contents import MODULES_FILE, SENTENCES, module_folders, why_no_model
from hf_sgpe.files.hub import download_model
from hf_sgpe.files.json_files import read_json
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.formats.folder_of_any_kind import read_folder
from hf_sgpe.terminal.command import one_line
from hf_sgpe.terminal.progress import without_remarks
from hf_sgpe.weights.model_loading import auto_class, load_tokenizer
from hf_sgpe.weights.safetensors_files import (
    INDEX_FILE,
    WEIGHTS_FILE,
    Made,
    ModelSize,
    Stored,
    rewrite,
    size_of_model,
    stored,
    weight_files,
)
from trainers.model_rows.embedding_rows import RowMap
from trainers.model_rows.table_checks import PER_LAYER_SIZE, check_ids, check_tables
from trainers.model_rows.token_tables import fitting_rows, moved_ids, tables_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_CONFIG, _GENERATION = "config.json", "generation_config.json"
# Files copied in addition to weights, configuration and the new tokenizer: processors, code, licences.
_COPIED = ("*.json", "*.py", "LICENSE*", "NOTICE*")
_NOT_COPIED = {
    *(_CONFIG, _GENERATION, INDEX_FILE, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("vocab.json", "added_tokens.json", "settings.json", "tokenization_sgpe.py"),
}
_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors", INDEX_FILE)
_KINDS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "uint16"}


@dataclass(frozen=True)
class Transplant:
    """The result of `transplant`: the written model, and what has changed in it.

    Attributes:
        out: The folder of the written model.
        tables: Names of the tensors that have a row for each token, beginning with the embedding.
        auto_class: The transformers class that loads the model (`hf_sgpe.weights.model_loading.auto_class`), or
            ``SentenceTransformer``.
        tied: Whether the output uses the same tensor as the embedding.
        drafts: Names of further changed tensors. They have the shape of the embedding, but transformers does not use them.
            An example is a draft head for speculative decoding.
        sizes: The sizes of the model before and after the transplant.
    """

    out: Path
    row_map: RowMap
    tables: tuple[str, ...]
    auto_class: str
    tied: bool
    tokenizer: PreTrainedTokenizerBase
    old_tokenizer: PreTrainedTokenizerBase
    drafts: tuple[str, ...]
    sizes: tuple[ModelSize, ModelSize]

    @property
    def modules_to_save(self) -> list[str]:
        """The ``modules_to_save`` of PEFT's ``LoraConfig`` with which an adapter also trains and saves the new rows."""
        return list(dict.fromkeys(name.split(".")[-2] for name in self.tables if name.endswith(".weight")))

    @property
    def lora(self) -> str:
        """Keyword arguments for PEFT's ``LoraConfig``, as Python code. With ``ensure_weight_tying`` (new in PEFT 0.18), a
        tied output is also trained.
        """
        return f"modules_to_save={self.modules_to_save}" + ", ensure_weight_tying=True" * self.tied


def transplant(
    model: str | os.PathLike[str],
    tokenizer: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    start: Callable[[RowMap], RowMap] | None = None,
    learn: Callable[[RowMap], Sequence[torch.Tensor]] | None = None,
    overwrite: bool = False,
    multiple: int = 1,
    model_tokenizer: str | os.PathLike[str] | None = None,
    describe: Callable[[Transplant], Mapping[str, str]] | None = None,
) -> Transplant:
    """Copy a model and a new tokenizer into a folder, and change the copy so that it works with the tokenizer.

    Rows and token ids change as in `trainers.model_rows.token_tables.fit_embeddings`. This applies to the input embedding,
    to the output (unless it is tied), to the bias of the output, and to the per-layer embeddings (of Gemma 3n and Gemma 4).
    If there is an error, even in ``describe``, nothing is written.

    Args:
        model: Folder or repository on the Hub. The weights must be in safetensors, in one file or in shards.
        tokenizer: Folder or repository of the new tokenizer. It may be extended from the model's tokenizer, or be any other
            tokenizer.
        out: A new or empty folder to write to.
        overwrite: Whether ``out`` may already contain a model. Files with other names stay.
        start: Function that weights the old rows from which a new row starts (`trainers.model_rows.row_starts`). None uses
            the mean.
        learn: Function that computes the new rows of each table of the model, in 32 bits, like
            `trainers.model_rows.distillation.distilled_rows`. None uses the rows from ``start``.
        multiple: The number of rows is rounded up to a multiple of this number, so that GPUs multiply matrices faster.
        model_tokenizer: The tokenizer of the model, if it is not in the model's folder.
        describe: Function that returns the texts of additional files, keyed by file name. The function is called with the
            finished `Transplant`, whose ``out`` is a temporary folder at that time.
    """
    folder = _folder_of(model)
    target = Path(out)
    check_is_new(out, folder, tokenizer, overwrite=overwrite)
    config = read_json(folder / _CONFIG)
    tensors = stored(folder, any_type=True)
    new = replace(read_folder(tokenizer), model_type=config.get("model_type"))
    new.check_target(out)
    empty = _empty_model(folder)
    numbers = _tables_in(folder, tensors, empty)
    check_tables(empty, tables_of(empty))
    tables, drafts = tuple(numbers), tuple(_drafts_in(tensors, numbers, empty))
    present = _rows_of(tensors[tables[0]])
    try:
        old_tokenizer = load_tokenizer(os.fspath(model_tokenizer or folder))
    except SGPEError as error:
        if model_tokenizer is not None:
            raise
        raise SGPEError(f"{error}: give the model's own tokenizer with --model-tokenizer") from None
    new_tokenizer = load_tokenizer(os.fspath(tokenizer))
    try:
        row_map = fitting_rows(present, new_tokenizer, old_tokenizer, multiple=multiple)
    except SGPEError as error:
        raise SGPEError(f"{model}: {error}") from None
    if not row_map.changes_nothing:
        check_ids(empty.config, row_map, present, new_tokenizer.added_tokens_decoder)
    row_map = row_map if start is None else start(row_map)
    learned = [] if learn is None or not row_map.new else learn(row_map)
    with atomic_directory(target) as temporary:
        started = {name: learned[number] for name, number in numbers.items()} if learned else {}
        made = {name: _made(name, tensors[name], row_map, present, started.get(name)) for name in (*tables, *drafts)}
        _write_weights(folder, temporary, tensors, made)
        for file in sorted(set(chain.from_iterable(map(folder.glob, _COPIED)))):
            if file.is_file() and file.name not in _NOT_COPIED:
                shutil.copyfile(file, temporary / file.name)
        for module in module_folders(folder):
            shutil.copytree(folder / module, temporary / module)
        new.write(temporary)
        per_layer = next((made[name].shape[0] for name in tables if "embed_tokens_per_layer" in name), None)
        _write(temporary / _CONFIG, _with_rows(config, row_map, new_tokenizer, present, per_layer))
        if (folder / _GENERATION).exists():
            generation = read_json(folder / _GENERATION)
            _write(temporary / _GENERATION, generation | _moved(generation, row_map, new_tokenizer))
        output = empty.get_output_embeddings()
        tied = output is not None and output.weight is empty.get_input_embeddings().weight
        firsts = {number: name for name, number in reversed(numbers.items())}
        copies = set(tables).difference(firsts.values())
        sizes = size_of_model(folder, copies), size_of_model(temporary, copies)
        kind = SENTENCES if (folder / MODULES_FILE).is_file() else auto_class(empty.config)
        done = Transplant(target, row_map, tables, kind, tied, new_tokenizer, old_tokenizer, drafts, sizes)
        if describe is not None:
            for name, text in describe(replace(done, out=temporary)).items():
                (temporary / name).write_text(text, encoding="utf-8", newline="\n")
        # Loaders could mix up the old model's weights, in one file or in shards, with the new weights.
        there = {file.name for file in temporary.iterdir()}
        stale = [file for names in _WEIGHTS for file in target.glob(names) if file.name not in there]
    for file in stale:
        file.unlink()
    return done


def check_is_new(out: str | os.PathLike[str], *sources: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Check that a model can be written to the folder ``out``. Its sources are never replaced; other files only with
    ``overwrite``.
    """
    target = Path(out)
    if not os.fspath(out):
        raise SGPEError("the name of the output folder is empty: give a new or an empty folder")
    if target.is_dir() and target.resolve() in [Path(source).resolve() for source in sources]:
        raise SGPEError(f"{out} is a source of the model: give a new or an empty folder")
    check_new_folder(out, overwrite=overwrite, whole=True)


def _folder_of(model: str | os.PathLike[str]) -> Path:
    """Return the local folder of a model. If the model is on the Hub, download it first."""
    if not os.fspath(model):
        raise SGPEError("the name of the model is empty: give a folder, or a repository on the Hub")
    folder = Path(model) if Path(model).exists() else download_model(os.fspath(model))
    if not folder.is_dir() or not (folder / _CONFIG).exists():
        reason = why_no_model(folder)
        wanted = "give the folder of a model, with config.json and model.safetensors"
        raise SGPEError(f"{model}: {f'holds no model{reason}' if reason else wanted}")
    return folder


def _tables_in(folder: Path, tensors: Mapping[str, Stored], model: PreTrainedModel) -> dict[str, int]:
    """Find the stored tensors that have a row for each token. Return their indices in the result of `tables_of`, keyed by
    name and beginning with the embedding.
    """
    every = [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]
    tables = tables_of(model)
    # BART's bias is a tensor with one row.
    names = [[name for name, one in every if one is table or one is table._base] for table in tables]
    prefix = f"{model.base_model_prefix}."
    found: dict[str, int] = {}
    for number, ours in enumerate(names):
        without_prefix = {name.removeprefix(prefix) for name in ours}
        found |= {name: number for name in tensors if name.removeprefix(prefix) in without_prefix}
    for number in sorted(set(range(len(tables))).difference(found.values())):
        # In files of an older layout, for example of Gemma 3 and GPT-NeoX, tensors have other names than in transformers
        # now.
        shape = tuple(tables[number].shape)
        alike = [stored_name for stored_name, one in tensors.items() if stored_name not in found and one.shape == shape]
        if len(alike) > 1:
            alike = [stored_name for stored_name in alike if _ending(stored_name) in map(_ending, names[number])]
        if len(alike) != 1:
            raise SGPEError(f"{folder}: its weights have no {names[number][0]}, so there are no rows to start from")
        found[alike[0]] = number
    embedding, output = tables[0], model.get_output_embeddings()
    if output is not None and output.weight is embedding:
        # Some files also store a tied output.
        copies = [
            name for name in tensors if name.endswith("lm_head.weight") and tensors[name].shape == tuple(embedding.shape)
        ]
        found |= dict.fromkeys(copies, 0)
    for name, number in found.items():
        table, rows = tensors[name], len(tables[number])
        if table.type not in _KINDS:
            raise SGPEError(f"{table.file}: {name} is quantized ({table.type}): give the unquantized model")
        if _rows_of(table) != rows:
            raise SGPEError(f"{table.file}: {name} has shape {list(table.shape)}, but config.json asks for {rows:,} rows")
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _drafts_in(tensors: Mapping[str, Stored], tables: Mapping[str, int], model: PreTrainedModel) -> Iterator[str]:
    """Yield the stored tensors that have the shape of the embedding but are not part of the model's class."""
    embedding = model.get_input_embeddings().weight
    known = {id(table) for table in tables_of(model)}
    shapes = {tuple(tensor.shape) for tensor in model.state_dict(keep_vars=True).values() if id(tensor) not in known}
    for name, one in tensors.items():
        shape = tuple(one.shape)
        if name in tables or shape in shapes or len(embedding) not in (*shape[:1], *shape[-1:]):
            continue
        if shape != tuple(embedding.shape) or one.type not in _KINDS:
            raise SGPEError(
                f"{one.file}: {name} ({one.type}, shape {list(shape)}) may have an entry for each of the {len(embedding):,} "
                f"tokens, but {type(model).__name__} has no such tensor: use another model, or remove the tensor"
            )
        yield name


def _ending(name: str) -> list[str]:
    return name.split(".")[-2:]


def _empty_model(folder: Path) -> PreTrainedModel:
    """Return a model without weights, of the class that the configuration names, or else a causal model."""
    import torch
    import transformers

    try:
        with without_remarks(), torch.device("meta"):
            config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
            known = [getattr(transformers, name, None) for name in getattr(config, "architectures", None) or ()]
            kind = next(filter(None, known), None)
            model: PreTrainedModel = kind(config) if kind else transformers.AutoModelForCausalLM.from_config(config)
            model.tie_weights()
    except Exception as error:  # whatever its checks raise
        raise SGPEError(f"{folder / _CONFIG}: transformers cannot read it ({one_line(error).split('. ')[0]})") from None
    return model


def _rows_of(table: Stored) -> int:
    return table.shape[-1] if table.shape[0] == 1 else table.shape[0]


def _made(name: str, table: Stored, row_map: RowMap, present: int, started: torch.Tensor | None) -> Made:
    rows = _mapped(table)
    row_map = row_map.within(len(rows), present)
    shape = (1, row_map.rows) if table.shape[0] == 1 else (row_map.rows, *table.shape[1:])
    parts = _bytes_of(row_map.parts(rows, started, ids=present), f"{table.file}: {name}")
    return Made(table.type, shape, table.size // len(rows) * row_map.rows, parts)


def _mapped(table: Stored) -> torch.Tensor:
    """Return the rows of a table, mapped from the file. A row is read only when it is used."""
    import torch

    flat = (_rows_of(table), -1)
    rows = torch.from_numpy(numpy.memmap(table.file, _KINDS[table.type], "c", table.start, table.shape).reshape(flat))
    return rows.view(torch.bfloat16) if table.type == "BF16" else rows


def embedding_of(model: str | os.PathLike[str]) -> torch.Tensor:
    """Return the input embedding of a model in files (rows × width). A row is read only when it is used."""
    folder = _folder_of(model)
    tensors = stored(folder, any_type=True)
    name, *_ = _tables_in(folder, tensors, _empty_model(folder))
    return _mapped(tensors[name])


def _bytes_of(parts: Iterator[torch.Tensor], source: str) -> Iterator[memoryview]:
    import torch

    for part in parts:
        if not torch.isfinite(part).all():
            raise SGPEError(f"{source} is damaged: not all of its numbers are finite")
        yield memoryview(part.contiguous().view(torch.uint8).reshape(-1).numpy())  # type: ignore[arg-type]


def _with_rows(
    config: Mapping[str, Any], row_map: RowMap, tokenizer: PreTrainedTokenizerBase, present: int, per_layer: int | None
) -> dict[str, Any]:
    """Return a configuration with the new vocabulary sizes and ids, also in nested configurations.

    Args:
        present: The number of rows before the change. Every size with this value is changed.
        per_layer: The number of rows of the per-layer embeddings, or None if there are none.
    """
    changed = {**config, **_moved(config, row_map, tokenizer)}
    for name, value in config.items():
        is_text = name == "text_config" or (name in ("encoder", "decoder") and value.get("vocab_size") == present)
        if isinstance(value, dict) and is_text:
            changed[name] = _with_rows(value, row_map, tokenizer, present, per_layer)
        elif name.endswith("vocab_size") and value == present:
            changed[name] = row_map.rows
    text = config.get("text_config")
    if "vocab_size" in config or not isinstance(text, dict):
        changed["vocab_size"] = row_map.rows
    if per_layer is not None and not isinstance(text, dict):
        changed[PER_LAYER_SIZE] = per_layer
    return changed


def _moved(config: Mapping[str, Any], row_map: RowMap, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    return {} if row_map.keeps_ids else moved_ids(config, row_map, tokenizer)


def _write_weights(folder: Path, target: Path, tensors: Mapping[str, Stored], made: Mapping[str, Made]) -> None:
    """Write copies of the files of weights with the tensors ``made``, and of their index, if there is one."""
    files = weight_files(folder)
    for file in files:
        rewrite(file, target / file.name, {name: one for name, one in made.items() if tensors[name].file == file})
    if [file.name for file in files] == [WEIGHTS_FILE]:
        return
    index = read_json(folder / INDEX_FILE)
    metadata = index.get("metadata") or {}
    metadata.pop("total_parameters", None)
    if isinstance(metadata.get("total_size"), int):
        metadata["total_size"] += sum(one.size - tensors[name].size for name, one in made.items())
    _write(target / INDEX_FILE, {**index, "metadata": metadata})


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8", newline="\n")
