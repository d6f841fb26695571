"""The models that are written for llama.cpp, each type as one record: its tensors, what becomes of them, and its numbers.

The names in a file are those of the `gguf` package. What is written is no more than a test has compared with transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import pi
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hf_sgpe.errors import SGPEError
from hf_sgpe.weights.model_config import Compared, Like, rope, uncompared
from hf_sgpe.weights.safetensors_files import Stored, Weights

if TYPE_CHECKING:
    from gguf import GGUFWriter

Config = Mapping[str, Any]

# Module of each layer → the shape of its weight, by the names of `_sizes`. One that holds {expert} is there for each
# expert, and llama.cpp has all of them in one tensor.
_NORMS = {"input_layernorm": "width", "post_attention_layernorm": "width"}
_FOUR_NORMS = {**_NORMS, "pre_feedforward_layernorm": "width", "post_feedforward_layernorm": "width"}
_ATTENTION = {
    "self_attn.q_proj": "queries width",
    "self_attn.k_proj": "keys width",
    "self_attn.v_proj": "keys width",
    "self_attn.o_proj": "width queries",
}
_HEAD_NORMS = {"self_attn.q_norm": "head", "self_attn.k_norm": "head"}
_GATED = {"mlp.gate_proj": "inner width", "mlp.up_proj": "inner width", "mlp.down_proj": "width inner"}

# Method of GGUFWriter, without add_ → field of the configuration.
_NUMBERS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "head_count": "num_attention_heads",
    "vocab_size": "vocab_size",
}
_RMS_NORM = {"layer_norm_rms_eps": "rms_norm_eps"}


@dataclass(frozen=True)
class Family:
    """A type of models of transformers as llama.cpp has it.

    Attributes:
        architecture: Its name there.
        compared: A row of `hf_sgpe.weights.model_config.Compared`.
        layer: Module of each layer → the shape of its weight.
        layers_at: What the names of layers begin with, before their number.
        around: The same of modules before and after the layers.
        biases: Field of the configuration that must be true → modules with a bias; an empty name for those that always have.
        numbers: Method of ``GGUFWriter``, without ``add_`` → field of the configuration, besides those that all have.
        own_names: Usual name of a field → its name here.
        pairs_neighbours: llama.cpp rotates each number of a head with its neighbour, not the first half with the second.
        adds_one: llama.cpp multiplies by the weights of norms, transformers by one more.
        transposes: transformers has the weights of layers as inputs by outputs.
        embedding: The weight in the files that a tied head must equal.
        why_not: Configuration → what else keeps llama.cpp from computing the same, as half a sentence, or an empty text.
    """

    architecture: str
    compared: Mapping[str, Sequence[Any]]
    layer: Mapping[str, str] = field(default_factory=lambda: {**_NORMS, **_ATTENTION, **_GATED})
    layers_at: str = "model.layers"
    around: Mapping[str, str] = field(default_factory=lambda: {"model.embed_tokens": "rows width", "model.norm": "width"})
    biases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=lambda: _RMS_NORM)
    own_names: Mapping[str, str] = field(default_factory=dict)
    pairs_neighbours: bool = False
    adds_one: bool = False
    transposes: bool = False
    embedding: str = "model.embed_tokens.weight"
    why_not: Callable[[Config], str] = lambda config: ""


class Tensor(NamedTuple):
    """A tensor to write: its name in transformers, how to read it in llama.cpp's order, and its shape then."""

    name: str
    read: Callable[[], Weights]
    shape: tuple[int, ...]


# ---------------------------------------------------------------- the records


def _other_heads(config: Config) -> str:
    is_usual = _head(config) * config["num_attention_heads"] == config["hidden_size"]
    return "" if is_usual else "has no heads here of another size than hidden_size / num_attention_heads"


def _other_layers_without_positions(config: Config) -> str:
    layers = list(config["no_rope_layers"])
    is_usual = layers == [int(number % 4 != 3) for number in range(len(layers))]
    return "" if is_usual else "leaves positions out in every fourth layer, not in those that no_rope_layers names"


def _other_scale(config: Config, layers_of_27b: int) -> str:
    # By which llama.cpp knows the model of that size.
    is_27b = config["num_hidden_layers"] == layers_of_27b
    expected = config["hidden_size"] // config["num_attention_heads"] if is_27b else _head(config)
    return "" if config["query_pre_attn_scalar"] == expected else f"takes {expected} for query_pre_attn_scalar"


_NO, _YES, _EITHER = (False,), (True,), (False, True)
_ANY_NUMBER = Like((0.5, 1.25))
_LLAMA3 = "llama3(factor, high_freq_factor, low_freq_factor, original_max_position_embeddings)"
_ROPES = ("default()", "linear(factor)", "yarn(factor, original_max_position_embeddings)")
_USUAL = {"hidden_act": ("silu",), "tie_word_embeddings": _EITHER, "rope": _ROPES}
_WHOLE = dict(_USUAL, sliding_window=(None,))
_GEMMA = {
    "hidden_activation": ("gelu_pytorch_tanh",),
    "hidden_act": ("gelu_pytorch_tanh",),  # which says the same, and is not read
    "tie_word_embeddings": _YES,
    "query_pre_attn_scalar": Like((12,)),
    "attention_bias": _NO,
}
_BIASES = {"attention_bias": tuple(_ATTENTION), "mlp_bias": tuple(_GATED)}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(
        "llama",
        dict(_USUAL, rope=(*_ROPES, _LLAMA3), attention_bias=_EITHER, mlp_bias=_EITHER),
        biases=_BIASES,
        pairs_neighbours=True,
    ),
    "mistral": Family("llama", dict(_WHOLE, rope=(*_ROPES, _LLAMA3)), pairs_neighbours=True),
    "mixtral": Family(
        "llama",
        _WHOLE,
        layer={
            **_NORMS,
            **_ATTENTION,
            "block_sparse_moe.gate": "experts width",
            "block_sparse_moe.experts.{expert}.w1": "inner width",
            "block_sparse_moe.experts.{expert}.w2": "width inner",
            "block_sparse_moe.experts.{expert}.w3": "inner width",
        },
        pairs_neighbours=True,
    ),
    "smollm3": Family(
        "smollm3",
        dict(_WHOLE, attention_bias=_NO, mlp_bias=_NO, no_rope_layers=Like(([1, 1, 1, 0],))),
        pairs_neighbours=True,
        why_not=_other_layers_without_positions,
    ),
    "granite": Family(
        "granite",
        dict(
            _USUAL,
            attention_bias=_EITHER,
            mlp_bias=_EITHER,
            embedding_multiplier=_ANY_NUMBER,
            logits_scaling=_ANY_NUMBER,
            residual_multiplier=_ANY_NUMBER,
            attention_multiplier=_ANY_NUMBER,
        ),
        biases=_BIASES,
        numbers={
            **_RMS_NORM,
            "embedding_scale": "embedding_multiplier",
            "logit_scale": "logits_scaling",
            "residual_scale": "residual_multiplier",
            "attention_scale": "attention_multiplier",
        },
        pairs_neighbours=True,
    ),
    "qwen2": Family("qwen2", _WHOLE, biases={"": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")}),
    "qwen3": Family("qwen3", dict(_WHOLE, attention_bias=_NO), layer={**_NORMS, **_ATTENTION, **_HEAD_NORMS, **_GATED}),
    "qwen3_moe": Family(
        "qwen3moe",
        dict(_WHOLE, attention_bias=_NO, decoder_sparse_step=(1,), mlp_only_layers=([],), norm_topk_prob=_YES),
        layer={
            **_NORMS,
            **_ATTENTION,
            **_HEAD_NORMS,
            "mlp.gate": "experts width",
            "mlp.experts.{expert}.gate_proj": "expert_inner width",
            "mlp.experts.{expert}.up_proj": "expert_inner width",
            "mlp.experts.{expert}.down_proj": "width expert_inner",
        },
        numbers={**_RMS_NORM, "expert_feed_forward_length": "moe_intermediate_size"},
    ),
    "phi3": Family(
        "phi3",
        dict(_WHOLE, rope=("default()",), partial_rotary_factor=Like((0.5, 1.0))),
        layer={
            **_NORMS,
            "self_attn.qkv_proj": "queries+keys+keys width",
            "self_attn.o_proj": "width queries",
            "mlp.gate_up_proj": "inner+inner width",
            "mlp.down_proj": "width inner",
        },
        why_not=_other_heads,
    ),
    "olmo2": Family(
        "olmo2",
        dict(_USUAL, tie_word_embeddings=_NO, attention_bias=_NO),
        layer={
            **_ATTENTION,
            "self_attn.q_norm": "queries",
            "self_attn.k_norm": "keys",
            "post_attention_layernorm": "width",
            **_GATED,
            "post_feedforward_layernorm": "width",
        },
        why_not=_other_heads,
    ),
    "gemma2": Family(
        "gemma2",
        dict(
            _GEMMA,
            rope=("default()",),
            sliding_window=("every other layer",),
            use_bidirectional_attention=(None,),
            attn_logit_softcapping=Like((2.0,)),
            final_logit_softcapping=Like((5.0,)),
        ),
        layer={**_ATTENTION, **_GATED, **_FOUR_NORMS},
        numbers={
            **_RMS_NORM,
            "sliding_window": "sliding_window",
            "attn_logit_softcapping": "attn_logit_softcapping",
            "final_logit_softcapping": "final_logit_softcapping",
        },
        adds_one=True,
        why_not=partial(_other_scale, layers_of_27b=46),
    ),
    "gemma3_text": Family(
        "gemma3",
        dict(
            _GEMMA,
            rope=("full_attention: default(), sliding_attention: default()",),
            sliding_window=("five layers of six",),
            use_bidirectional_attention=_NO,
            attn_logit_softcapping=(None,),
            final_logit_softcapping=(None,),
        ),
        layer={**_ATTENTION, **_HEAD_NORMS, **_GATED, **_FOUR_NORMS},
        numbers={**_RMS_NORM, "sliding_window": "sliding_window"},
        adds_one=True,
        why_not=partial(_other_scale, layers_of_27b=62),
    ),
    "gpt2": Family(
        "gpt2",
        {
            "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
            "tie_word_embeddings": (True,),
            "scale_attn_weights": (True,),
            "scale_attn_by_inverse_layer_idx": (False,),
            "reorder_and_upcast_attn": (False,),
            "add_cross_attention": (False,),
        },
        layer={
            "ln_1": "width",
            "attn.c_attn": "width queries+keys+keys",
            "attn.c_proj": "width width",
            "ln_2": "width",
            "mlp.c_fc": "width inner",
            "mlp.c_proj": "inner width",
        },
        layers_at="h",
        around={"wte": "rows width", "wpe": "positions width", "ln_f": "width"},
        biases={"": ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj", "ln_f")},
        numbers={"layer_norm_eps": "layer_norm_epsilon"},
        own_names={
            "hidden_size": "n_embd",
            "intermediate_size": "n_inner",
            "num_hidden_layers": "n_layer",
            "num_attention_heads": "n_head",
            "max_position_embeddings": "n_positions",
        },
        transposes=True,
        embedding="transformer.wte.weight",
    ),
}
"""Type of a model in ``config.json`` → its record."""

_NEVER = {"gpt_oss": "rounds the range of YaRN on models of type 'gpt_oss', and transformers does not"}

COMPARED: Compared = {kind: family.compared for kind, family in FAMILIES.items()}
"""Models that llama.cpp computes as transformers does from a file that is written here: a test compares each value."""


def why_not(config: Config) -> str:
    """Why llama.cpp would, or might, compute something else than transformers from a model's file; empty if it does not.

    Args:
        config: As `transformers_config` gives it.
    """
    kind = config["model_type"]
    return _NEVER.get(kind) or uncompared(config, COMPARED) or FAMILIES[kind].why_not(config)


# ---------------------------------------------------------------- sizes


def usual(config: Config) -> dict[str, Any]:
    """A configuration that also has the usual names for what its type calls otherwise."""
    family = FAMILIES[config["model_type"]]
    named = dict(config) | {name: config[own] for name, own in family.own_names.items()}
    named["intermediate_size"] = named["intermediate_size"] or 4 * named["hidden_size"]
    return named


def _heads(config: Config) -> tuple[int, int]:
    """Numbers of heads: of queries, and of keys and values."""
    queries = config["num_attention_heads"]
    return queries, config.get("num_key_value_heads") or queries


def _head(config: Config) -> int:
    """The size of a head."""
    size: int = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return size


def _rotated(config: Config) -> int:
    """How many of the numbers of a head are rotated."""
    return int(_head(config) * (rope(config).get("partial_rotary_factor") or 1))


def _sizes(config: Config) -> dict[str, int]:
    queries, keys = _heads(config)
    return {
        "rows": config["vocab_size"],
        "positions": config["max_position_embeddings"],
        "width": config["hidden_size"],
        "inner": config["intermediate_size"],
        "expert_inner": config.get("moe_intermediate_size") or 0,
        "experts": _experts(config),
        "head": _head(config),
        "queries": queries * _head(config),
        "keys": keys * _head(config),
    }


def _experts(config: Config) -> int:
    """How many experts a layer has, which no model has whose record names none."""
    has_some = any("{expert}" in name for name in FAMILIES[config["model_type"]].layer)
    return (config.get("num_local_experts") or config["num_experts"]) if has_some else 0


# ---------------------------------------------------------------- tensors


def tensors(weights: Mapping[str, Stored], config: Config, folder: Path) -> Iterator[Tensor]:
    """What to write of a model's weights.

    Args:
        weights: As `hf_sgpe.weights.safetensors_files.stored` gives them.
        config: As `usual` gives it.
        folder: Of the model, for errors.

    Raises:
        SGPEError: the weights are not those that the configuration asks for: llama.cpp would find out only when it loads the
            file, or never.
    """
    family = FAMILIES[config["model_type"]]
    left = {name.removeprefix("transformer."): one for name, one in weights.items()}  # with which GPT-2's begin
    if config["tie_word_embeddings"]:
        left.pop("lm_head.weight", None)
    for name, shape in _expected(family, config):
        names = [name.format(expert=expert) for expert in range(_experts(config))] if "{expert}" in name else [name]
        parts = []
        for one_name in names:
            if one_name not in left:
                raise SGPEError(f"{folder}: the weights lack {one_name}, which config.json asks for")
            one = left.pop(one_name)
            if one.shape != shape:
                raise SGPEError(f"{folder}: {one_name} is {_times(one.shape)}, but config.json makes it {_times(shape)}")
            parts.append(one)
        change = _change(family, config, name, shape)
        if family.transposes and name.startswith(family.layers_at):
            shape = shape[::-1]
        if "{expert}" in name:
            yield Tensor(name.replace(".{expert}", ""), partial(_stacked, parts, change), (len(parts), *shape))
        else:
            yield Tensor(name, partial(_changed, parts[0], change), shape)
    for name in left:
        if not name.endswith((".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")):  # which are constants
            raise SGPEError(f"{folder}: the weights hold {name}, which config.json does not ask for")
    if (factors := _rope_factors(config)) is not None:
        yield Tensor("rope_freqs.weight", factors.copy, factors.shape)


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one number"


def _expected(family: Family, config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    sizes = _sizes(config)
    modules = dict(family.around)
    if not config["tie_word_embeddings"]:
        modules["lm_head"] = "rows width"
    for layer in range(config["num_hidden_layers"]):
        modules |= {f"{family.layers_at}.{layer}.{name}": shape for name, shape in family.layer.items()}
    biased = tuple(name for field, names in family.biases.items() if not field or config[field] for name in names)
    for name, text in modules.items():
        shape = tuple(sum(sizes[part] for part in size.split("+")) for size in text.split())
        yield f"{name}.weight", shape
        if name.endswith(biased):
            yield f"{name}.bias", (shape[-1] if family.transposes else shape[0],)


def _change(family: Family, config: Config, name: str, shape: tuple[int, ...]) -> Callable[[Weights], Weights] | None:
    queries, keys = _heads(config)
    if family.adds_one and name.endswith("norm.weight"):
        return lambda weights: weights + 1
    if family.transposes and len(shape) == 2 and name.startswith(family.layers_at):
        return np.transpose
    if family.pairs_neighbours and ".q_proj." in name:
        return partial(_interleaved, heads=queries)
    if family.pairs_neighbours and ".k_proj." in name:
        return partial(_interleaved, heads=keys)
    return None


def _changed(one: Stored, change: Callable[[Weights], Weights] | None) -> Weights:
    weights = one.read()
    return np.ascontiguousarray(change(weights)) if change else weights


def _stacked(parts: list[Stored], change: Callable[[Weights], Weights] | None) -> Weights:
    return np.stack([_changed(one, change) for one in parts])


def _interleaved(weights: Weights, heads: int) -> Weights:
    """transformers rotates the first half of a head with the second, llama.cpp each number with its neighbour."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def _rope_factors(config: Config) -> Weights | None:
    """The divisors of Llama 3's frequencies: 1 for short waves, ``factor`` for long ones, in between a mean."""
    positions = rope(config)
    if positions["rope_type"] != "llama3":
        return None
    dim = _head(config)
    frequencies = positions["rope_theta"] ** -(np.arange(0, dim, 2, dtype=np.float32) / dim)
    turns = positions["original_max_position_embeddings"] * frequencies / (2 * pi)
    low, high = positions["low_freq_factor"], positions["high_freq_factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)
    factors: Weights = (1 / (share + (1 - share) / positions["factor"])).astype(np.float32)
    return factors


# ---------------------------------------------------------------- metadata


def describe(writer: GGUFWriter, config: Config) -> None:
    """Writes a model's numbers.

    Args:
        config: As `usual` gives it.
    """
    for method, name in {**_NUMBERS, **FAMILIES[config["model_type"]].numbers}.items():
        getattr(writer, f"add_{method}")(config[name])
    if experts := _experts(config):
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_head_count_kv(_heads(config)[1])
    writer.add_key_length(_head(config))
    writer.add_value_length(_head(config))
    if "rope_parameters" in config:
        _describe_positions(writer, config)


def _describe_positions(writer: GGUFWriter, config: Config) -> None:
    from gguf import RopeScalingType

    positions = rope(config)
    writer.add_rope_dimension_count(_rotated(config))
    writer.add_rope_freq_base(positions["rope_theta"])
    if "sliding_attention" in positions:
        writer.add_rope_freq_base_swa(positions["sliding_attention"]["rope_theta"])
    if positions["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(RopeScalingType[positions["rope_type"].upper()])
        writer.add_rope_scaling_factor(positions["factor"])
    if positions["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(positions["original_max_position_embeddings"])
