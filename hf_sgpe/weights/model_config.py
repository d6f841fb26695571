"""Readers of a model's ``config.json`` and ``generation_config.json``. The files may be from any version of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import optional_json, read_json
from hf_sgpe.terminal.command import one_line
from hf_sgpe.terminal.progress import without_remarks

_SIZES = """
    vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
    max_position_embeddings original_max_position_embeddings rms_norm_eps layer_norm_eps norm_eps norm_epsilon
    num_experts num_local_experts num_experts_per_tok moe_intermediate_size shared_expert_intermediate_size
    n_embd n_layer n_head n_inner n_positions n_ctx layer_norm_epsilon
"""
_WITHOUT_EFFECT = {
    "of files": "model_type transformers_version architectures auto_map dtype torch_dtype _name_or_path quantization",
    "of metadata in a GGUF file": "_model_name_or_path unk_token_id",
    "of tokens": "bos_token_id eos_token_id pad_token_id eod_token_id",
    "of the model's outputs": """
        use_cache cache_implementation return_dict output_hidden_states output_attentions output_router_logits
    """,
    "of training": """
        initializer_range attention_dropout hidden_dropout residual_dropout embedding_dropout resid_pdrop embd_pdrop
        attn_pdrop router_aux_loss_coef router_jitter_noise pretraining_tp
    """,
    "of other tasks": """
        task_specific_params id2label label2id num_labels problem_type chunk_size_feed_forward is_encoder_decoder
        summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout
    """,
    "of windows and positions, in another form": """
        layer_types use_sliding_window max_window_layers sliding_window_pattern _sliding_window_pattern
        no_rope_layer_interval rope_theta rope_scaling rope_local_base_freq
    """,
    "without a reader": "is_llama_config rope_interleaved use_mrope transformers.js_config _attn_implementation_autoset",
}
_ANY_VALUE = frozenset(" ".join([_SIZES, *_WITHOUT_EFFECT.values()]).split())
"""Fields that may have any value. The comparisons of engines use unusual sizes."""


class Like(tuple[Any, ...]):
    """Values for which an engine was compared, if other values of the same types need no comparison. An int counts as a
    float.
    """

    def __contains__(self, value: object) -> bool:
        kind, *kinds = (float if type(item) is int else type(item) for item in (value, *self))
        return super().__contains__(value) or kind in kinds


Compared = Mapping[str, Mapping[str, Sequence[Any]]]
"""The values for which an engine was compared with transformers, keyed by type of model and then by field."""


def uncompared(config: Mapping[str, Any], compared: Compared) -> str:
    """Return the rest of a sentence that begins with an engine's name: the first value of a configuration for which the
    engine was not compared with transformers. If all values were compared, return an empty string.

    Args:
        config: The result of `transformers_config`.
        compared: Sizes and fields without an effect on the output need no entry. Any other field without an entry counts as
            not compared.

    >>> uncompared({"model_type": "llama", "vocab_size": 5, "mlp_bias": True}, {"llama": {"mlp_bias": [False]}})
    "was not compared with transformers on models of type 'llama' with mlp_bias True"
    """
    kind = config.get("model_type")
    reason = f"was not compared with transformers on models of type {kind!r}"
    row = compared.get(str(kind))
    if row is None:
        return reason
    for name, value in _decisive(config).items():
        if value not in row.get(name, ()):
            return f"{reason} with {name} {value!r}"
    return ""


def _decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, except sizes, that determine what the model computes. ``rope`` is described by `_form`, and
    ``sliding_window`` by `_sliding`.
    """
    fields = {name: value for name, value in config.items() if name not in _ANY_VALUE}
    if "quantization" in config:  # mlx-lm writes the same content into both fields
        fields.pop("quantization_config", None)
    if "sliding_window" in config or "layer_types" in config:
        fields["sliding_window"] = _sliding(config)
    if "rope_parameters" in fields:
        del fields["rope_parameters"]
        positions = {name: value for name, value in rope(config).items() if value is not None}
        if "partial_rotary_factor" in positions:
            fields["partial_rotary_factor"] = positions.pop("partial_rotary_factor")
        fields["rope"] = _form(positions)
    return fields


def _form(positions: Mapping[str, Any]) -> str:
    """Return the type of position scaling and the names of its parameters, for each kind of layers if they differ."""
    kinds = [f"{kind}: {_form(value)}" for kind, value in sorted(positions.items()) if isinstance(value, Mapping)]
    names = sorted(positions.keys() - {"rope_theta", "rope_type", "type"})
    return ", ".join(kinds) or f"{positions.get('rope_type', 'default')}({', '.join(names)})"


def _sliding(config: Mapping[str, Any]) -> str | None:
    """Return which layers have an attention window smaller than the context."""
    if "layer_types" not in config:
        window, context = config["sliding_window"], config.get("max_position_embeddings")
        return "all layers" if window and not (isinstance(context, int) and window >= context) else None
    # The width of the window does not matter: Cohere 2 has positions only in these layers.
    layers = config["layer_types"] or []
    if not {"full_attention", "sliding_attention"}.issuperset(layers):
        return "layers of other kinds"
    slide = [layer == "sliding_attention" for layer in layers]
    for period, name in ((2, "every other layer"), (4, "three layers of four"), (6, "five layers of six")):
        if slide == [number % period != period - 1 for number in range(len(slide))] and not all(slide):
            return name
    return "some layers" if any(slide) else None


def transformers_config(folder: Path) -> dict[str, Any]:
    """Return the content of ``config.json``, with the defaults of transformers for missing fields."""
    from transformers import AutoConfig

    kind = read_json(folder / "config.json").get("model_type")
    try:
        with without_remarks():
            config: dict[str, Any] = AutoConfig.from_pretrained(folder, trust_remote_code=False).to_dict()
    except Exception as error:  # the checks of transformers can raise anything
        reason = one_line(error).split(". ")[0]
        raise SGPEError(f"{folder / 'config.json'}: transformers cannot read this file ({reason})") from None
    # Without a type, transformers guesses the type from the folder's name.
    return config | {"model_type": kind}


def end_ids(folder: Path, config: Mapping[str, Any]) -> list[int]:
    """Return the ids that end a generated text, from ``generation_config.json`` or else from ``config``."""
    own = optional_json(folder / "generation_config.json").get("eos_token_id")
    return listed(config.get("eos_token_id") if own is None else own)


def listed(ids: int | list[int] | None) -> list[int]:
    """Return the ids in a field of a configuration, which may have one id, several ids or none."""
    if ids is None:
        return []
    listed_ids = list(ids) if isinstance(ids, (list, tuple)) else [ids]
    if not all(type(id) is int and id >= 0 for id in listed_ids):
        raise SGPEError(f"eos_token_id of the model's configuration is {ids!r}: it must be one id or several")
    return listed_ids


def rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``rope_theta``, ``rope_type`` and the other parameters of position scaling. If kinds of layers differ, these
    are the parameters of full attention, and each kind, such as ``sliding_attention``, has an entry with its own.
    """
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(parameters, Mapping):
        raise SGPEError(f"rope_parameters of the model's configuration is {parameters!r}: it must be an object")
    # In addition to the kinds of layers, transformers may write the names of parameters without values.
    rotation = {name: value for name, value in parameters.items() if value is not None}
    rotation |= parameters.get("full_attention") or {}
    rotation.setdefault("rope_theta", config.get("rope_theta", 10_000.0))
    if not isinstance(rotation["rope_theta"], (int, float)):
        raise SGPEError(f"rope_theta of the model's configuration is {rotation['rope_theta']!r}: it must be a number")
    rotation["rope_type"] = rotation.get("rope_type") or rotation.get("type") or "default"
    return rotation
