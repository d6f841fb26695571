"""Conversion of a model for llama.cpp: the tensors in llama.cpp's form, and the numbers of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import pi
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hf_sgpe.errors import SGPEError
from hf_sgpe.weights.gguf_models import FAMILIES, Config, Family, head_size
from hf_sgpe.weights.model_config import rope
from hf_sgpe.weights.safetensors_files import Stored, Weights

if TYPE_CHECKING:
    from gguf import GGUFWriter

# GGUFWriter methods, without the prefix add_, and the fields of the configuration that they write.
_NUMBERS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "head_count": "num_attention_heads",
    "vocab_size": "vocab_size",
}


class _Tensor(NamedTuple):
    """A tensor to write: its name in transformers, a function that reads it in llama.cpp's form, and its shape there."""

    name: str
    read: Callable[[], Weights]
    shape: tuple[int, ...]


def tensors(weights: Mapping[str, Stored], config: Config, folder: Path) -> Iterator[_Tensor]:
    """Yield the tensors to write for a model. ``config`` is the result of `usual`, and ``folder`` is for error messages."""
    family = FAMILIES[config["model_type"]]
    left = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}  # GPT-2's names have the prefix
    if config["tie_word_embeddings"]:
        left.pop("lm_head.weight", None)
    for name, shape in _expected(family, config):
        names = [name.format(expert=expert) for expert in range(_experts_of(config))] if "{expert}" in name else [name]
        parts = []
        for part_name in names:
            if part_name not in left:
                raise SGPEError(f"{folder}: the weights {part_name}, which config.json requires, are missing")
            part = left.pop(part_name)
            if part.shape != shape:
                raise SGPEError(
                    f"{folder}: {part_name} has the shape {_times(part.shape)}, but config.json requires {_times(shape)}"
                )
            parts.append(part)
        change = _change(family, config, name, shape)
        if family.transposes and name.startswith(family.layers_at):
            shape = shape[::-1]
        if "{expert}" in name:
            yield _Tensor(name.replace(".{expert}", ""), partial(_stacked, parts, change), (len(parts), *shape))
        else:
            yield _Tensor(name, partial(_changed, parts[0], change), shape)
    for name in left:
        if not name.endswith((".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")):  # constants
            raise SGPEError(f"{folder}: the weights {name} do not belong to the model of config.json")
    if (factors := _rope_factors(config)) is not None:
        yield _Tensor("rope_freqs.weight", factors.copy, factors.shape)


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one number"


def _heads_of(config: Config) -> tuple[int, int]:
    """Return the number of query heads, and the number of key and value heads."""
    queries = config["num_attention_heads"]
    return queries, config.get("num_key_value_heads") or queries


def _experts_of(config: Config) -> int:
    """Return the number of experts in a layer, or 0 if this type of model has no experts."""
    has_some = any("{expert}" in name for name in FAMILIES[config["model_type"]].layer)
    return (config.get("num_local_experts") or config["num_experts"]) if has_some else 0


def _expected(family: Family, config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name and the shape of each tensor that a model must have."""
    queries, keys = _heads_of(config)
    size_of = {
        "rows": config["vocab_size"],
        "positions": config["max_position_embeddings"],
        "width": config["hidden_size"],
        "inner": config["intermediate_size"],
        "expert_inner": config.get("moe_intermediate_size") or 0,
        "experts": _experts_of(config),
        "head": head_size(config),
        "queries": queries * head_size(config),
        "keys": keys * head_size(config),
    }
    modules = dict(family.around)
    if not config["tie_word_embeddings"]:
        modules["lm_head"] = "rows width"
    for layer in range(config["num_hidden_layers"]):
        modules |= {f"{family.layers_at}.{layer}.{name}": shape for name, shape in family.layer.items()}
    biased = tuple(name for field, names in family.biases.items() if not field or config[field] for name in names)
    for name, text in modules.items():
        shape = tuple(sum(size_of[part] for part in size.split("+")) for size in text.split())
        yield f"{name}.weight", shape
        if name.endswith(biased):
            yield f"{name}.bias", (shape[-1] if family.transposes else shape[0],)


def _change(family: Family, config: Config, name: str, shape: tuple[int, ...]) -> Callable[[Weights], Weights] | None:
    queries, keys = _heads_of(config)
    if family.adds_one and name.endswith("norm.weight"):
        return lambda weights: weights + 1
    if family.transposes and len(shape) == 2 and name.startswith(family.layers_at):
        return np.transpose
    if family.pairs_neighbours and ".q_proj." in name:
        return partial(_interleaved, heads=queries)
    if family.pairs_neighbours and ".k_proj." in name:
        return partial(_interleaved, heads=keys)
    return None


def _changed(tensor: Stored, change: Callable[[Weights], Weights] | None) -> Weights:
    weights = tensor.read()
    return np.ascontiguousarray(change(weights)) if change else weights


def _stacked(parts: list[Stored], change: Callable[[Weights], Weights] | None) -> Weights:
    return np.stack([_changed(part, change) for part in parts])


def _interleaved(weights: Weights, heads: int) -> Weights:
    """Reorder the rows of each head for llama.cpp's rotary embedding (see `Family.pairs_neighbours`)."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def _rope_factors(config: Config) -> Weights | None:
    """Return the numbers by which Llama 3 divides the frequencies of its rotary embedding: 1 for short waves, ``factor`` for
    long waves, and values in between.
    """
    positions = rope(config)
    if positions["rope_type"] != "llama3":
        return None
    dim = head_size(config)
    frequencies = positions["rope_theta"] ** -(np.arange(0, dim, 2, dtype=np.float32) / dim)
    turns = positions["original_max_position_embeddings"] * frequencies / (2 * pi)
    low, high = positions["low_freq_factor"], positions["high_freq_factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)
    factors: Weights = (1 / (share + (1 - share) / positions["factor"])).astype(np.float32)
    return factors


# ---------------------------------------------------------------- metadata


def describe(writer: GGUFWriter, config: Config) -> None:
    """Write the numbers of a model's configuration to the metadata of a GGUF file. ``config`` is the result of `usual`."""
    for method, name in {**_NUMBERS, **FAMILIES[config["model_type"]].numbers}.items():
        getattr(writer, f"add_{method}")(config[name])
    if experts := _experts_of(config):
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_head_count_kv(_heads_of(config)[1])
    writer.add_key_length(head_size(config))
    writer.add_value_length(head_size(config))
    if "rope_parameters" not in config:
        return
    from gguf import RopeScalingType

    positions = rope(config)
    writer.add_rope_dimension_count(int(head_size(config) * (positions.get("partial_rotary_factor") or 1)))
    writer.add_rope_freq_base(positions["rope_theta"])
    if "sliding_attention" in positions:
        writer.add_rope_freq_base_swa(positions["sliding_attention"]["rope_theta"])
    if positions["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(RopeScalingType[positions["rope_type"].upper()])
        writer.add_rope_scaling_factor(positions["factor"])
    if positions["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(positions["original_max_position_embeddings"])
