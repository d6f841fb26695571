"""The types of models that can be written for llama.cpp. A test has compared llama.cpp with transformers for each type.

`hf_sgpe.weights.gguf_tensors` converts the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hf_sgpe.weights.model_config import Compared, Like, uncompared

Config = Mapping[str, Any]

# The shape of the weight of each module in a layer. Shapes consist of names of sizes. A module with {expert} exists once
# for each expert. llama.cpp stores the weights of all experts in one tensor.
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

# GGUFWriter methods, without the prefix add_, and the fields of the configuration that they write.
_RMS_NORM = {"layer_norm_rms_eps": "rms_norm_eps"}


@dataclass(frozen=True)
class Family:
    """A type of transformers models, and how such a model is written for llama.cpp.

    Attributes:
        architecture: Name of the type in llama.cpp.
        compared: Values for which llama.cpp was compared with transformers, keyed by field of the configuration.
        layer: The shapes of the weights in a layer, keyed by module. A shape consists of names of sizes, such as ``width``.
        layers_at: The prefix of layer names before the layer number.
        around: The shapes of the weights before and after the layers, keyed by module.
        biases: Modules that may have a bias, keyed by a field of the configuration. They have one if the field is true. The
            modules under the key ``""`` always have one.
        numbers: Numbers to write that only some types have. The keys are ``GGUFWriter`` methods without the prefix ``add_``,
            and the values are the fields of the configuration that these methods write.
        own_names: Unusual names that this type has for fields of the configuration, keyed by the usual name.
        pairs_neighbours: Whether llama.cpp's rotary embedding pairs neighbouring numbers of a head. The rotary embedding of
            transformers pairs each number in the first half with one in the second half.
        adds_one: Whether transformers adds one to the weights of norms. llama.cpp does not.
        transposes: Whether transformers stores the weights of layers such that rows are inputs and columns are outputs.
        embedding: Name of the embedding in the files. If the output head is tied, a stored head must equal this embedding.
        why_not: Function that takes a configuration and returns a further reason why llama.cpp's output would differ, or an
            empty string, as `why_not` does.
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


# ---------------------------------------------------------------- the records


def _other_heads(config: Config) -> str:
    is_usual = head_size(config) * config["num_attention_heads"] == config["hidden_size"]
    return "" if is_usual else "supports only heads of the size hidden_size / num_attention_heads for these models"


def _other_layers_without_positions(config: Config) -> str:
    layers = list(config["no_rope_layers"])
    is_usual = layers == [int(number % 4 != 3) for number in range(len(layers))]
    return "" if is_usual else "omits positions in every fourth layer, regardless of no_rope_layers"


def _other_scale(config: Config, layers_of_27b: int) -> str:
    # llama.cpp recognises the 27B model by the number of layers.
    is_27b = config["num_hidden_layers"] == layers_of_27b
    expected = config["hidden_size"] // config["num_attention_heads"] if is_27b else head_size(config)
    return "" if config["query_pre_attn_scalar"] == expected else f"always uses {expected} as query_pre_attn_scalar"


_NO, _YES, _EITHER = (False,), (True,), (False, True)
_ANY_NUMBER = Like((0.5, 1.25))
_LLAMA3 = "llama3(factor, high_freq_factor, low_freq_factor, original_max_position_embeddings)"
_ROPES = ("default()", "linear(factor)", "yarn(factor, original_max_position_embeddings)")
_USUAL = {"hidden_act": ("silu",), "tie_word_embeddings": _EITHER, "rope": _ROPES}
_WHOLE = dict(_USUAL, sliding_window=(None,))
_GEMMA = {
    "hidden_activation": ("gelu_pytorch_tanh",),
    "hidden_act": ("gelu_pytorch_tanh",),  # a duplicate that is not used
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
    "gemma": Family(
        "gemma",
        {
            "hidden_act": ("gelu_pytorch_tanh",),
            "tie_word_embeddings": _YES,
            "attention_bias": _NO,
            "rope": ("default()",),
            "use_bidirectional_attention": (None,),
        },
        adds_one=True,
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
"""The record of each type of model, keyed by the type in ``config.json``."""

_NEVER = {"gpt_oss": "rounds the range of YaRN on models of type 'gpt_oss', and transformers does not"}

COMPARED: Compared = {kind: family.compared for kind, family in FAMILIES.items()}
"""Models that llama.cpp computes exactly as transformers does. A test compares each value."""


def why_not(config: Config) -> str:
    """Return the reason why llama.cpp and transformers may compute different outputs, or an empty string. The reason
    continues a sentence that begins with "llama.cpp". ``config`` is the result of `transformers_config`.
    """
    kind = config["model_type"]
    return _NEVER.get(kind) or uncompared(config, COMPARED) or FAMILIES[kind].why_not(config)


# ---------------------------------------------------------------- configurations


def usual(config: Config) -> dict[str, Any]:
    """Return a copy of a configuration with the usual names of all fields and an ``intermediate_size``."""
    family = FAMILIES[config["model_type"]]
    named = dict(config) | {name: config[own] for name, own in family.own_names.items()}
    named["intermediate_size"] = named["intermediate_size"] or 4 * named["hidden_size"]
    return named


def head_size(config: Config) -> int:
    """Return the number of dimensions of an attention head."""
    size: int = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return size
