"""GGUF files, which llama.cpp runs: models of the Llama family and GPT-2, with their tokenizer.

llama.cpp keeps no split pattern in a file but the name of one it knows. Where it splits as ours does, the
pattern's record has that name; any other tokenizer's file says that it has none, and must be given ids.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from math import pi, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from hf_sgpe.atomic import atomic_file
from hf_sgpe.bpe.encoder import unreached_words
from hf_sgpe.bpe.tokenizer_data import TokenizerData
from hf_sgpe.byte_strings import bytes_to_string
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.formats import gguf_reading, tokenizer_json
from hf_sgpe.formats.model_config import Compared, end_ids, rope, transformers_config, uncompared
from hf_sgpe.formats.safetensors_files import Stored, Weights, check_head, stored
from hf_sgpe.json_files import read_json
from hf_sgpe.quiet import somebody_watches
from hf_sgpe.splitting.patterns import SplitPattern, patterns_of

if TYPE_CHECKING:
    from gguf import GGUFWriter

WEIGHT_TYPES = ("F32", "F16", "BF16", "Q8_0")

# The name of an unknown pre-tokenizer: llama.cpp splits by a pattern of its own, and warns.
_NO_PRE = "default"
_ARCHITECTURES = {"llama": "llama", "mistral": "llama", "gpt2": "gpt2"}

_LLAMA = {
    "hidden_act": ("silu",),
    "tie_word_embeddings": (False, True),
    "rope": (
        "default()",
        "linear(factor)",
        "llama3(factor, high_freq_factor, low_freq_factor, original_max_position_embeddings)",
    ),
}
COMPARED: Compared = {
    "llama": _LLAMA | {"attention_bias": (False, True), "mlp_bias": (False, True)},
    "mistral": _LLAMA | {"sliding_window": (None,)},
    "gpt2": {
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "tie_word_embeddings": (True,),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "reorder_and_upcast_attn": (False,),
        "add_cross_attention": (False,),
    },
}
"""Models that llama.cpp computes as transformers does from a file that is written here: a test compares each value."""


class _Config(dict[str, Any]):
    """``config.json``, which says what it lacks."""

    def __init__(self, values: dict[str, Any], file: Path) -> None:
        super().__init__(values)
        self._file = file

    def __missing__(self, name: str) -> Any:
        raise SGPEError(f"{self._file}: lacks {name!r}")


def write(
    folder: Path,
    path: Path,
    weight_type: str | None = None,
    *,
    tokenizer: TokenizerData | None = None,
) -> str | None:
    """Writes a model in a folder of transformers as a GGUF file.

    The tokenizer is in it twice: as llama.cpp reads it, and as its ``tokenizer.json``, which takes about as much again.

    One weight is in memory at a time. Tensors that are not matrices stay in 32 bits, and in Q8_0 also matrices whose rows
    are not multiples of 32.

    Args:
        folder: With ``config.json``, the weights as safetensors, and the tokenizer.
        path: File to write.
        weight_type: One of `WEIGHT_TYPES`; None for the type of the weights in the folder.
        tokenizer: In place of the folder's.

    Returns:
        The name of llama.cpp's pre-tokenizer that splits normalized text as the tokenizer does, or None if it has none: then
        give the model ids, not text. It normalizes nothing itself.

    Raises:
        SGPEError: gguf is not installed; the folder holds no model of these families, or a tokenizer that has no merges or
            more ids than the model has rows.
    """
    try:
        import gguf
    except ImportError:
        raise not_installed("writing GGUF needs gguf", "gguf", extra="gguf") from None
    if weight_type is not None and weight_type not in WEIGHT_TYPES:
        raise SGPEError(f"unknown type of weights {weight_type!r}: known are {', '.join(WEIGHT_TYPES)}")
    config_file = folder / "config.json"
    if not config_file.exists():
        raise SGPEError(f"{folder}: holds no config.json: give the folder of a model of transformers")
    config = _Config(read_json(config_file), config_file)
    kind = _ARCHITECTURES.get(config.get("model_type", ""))
    if kind is None:
        raise SGPEError(
            f"{config_file}: a model of type {config.get('model_type')!r}: only llama, mistral and gpt2 are known"
        )
    if reason := uncompared(transformers_config(folder), COMPARED):
        raise SGPEError(f"{config_file}: llama.cpp {reason}")
    if path.exists() and path.suffix != ".gguf" and path.resolve().parent == folder.resolve():
        raise SGPEError(f"{path}: is part of the model: give another name for the GGUF file")
    tokenizer = tokenizer or tokenizer_json.read(tokenizer_json.find(folder))
    weights = stored(folder)
    kept = {name: one for name, one in weights.items() if not _is_passed_over(name, config)}
    weight_type = weight_type or next(one.type for one in kept.values() if len(one.shape) == 2)
    target = gguf.GGMLQuantizationType[weight_type]
    layers = config["n_layer" if kind == "gpt2" else "num_hidden_layers"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[kind.upper()], layers)

    with _numbers_of(config_file), atomic_file(path) as temporary, closing(gguf.GGUFWriter(temporary, kind)) as writer:
        writer.add_file_type(int(gguf.LlamaFileType["ALL_F32" if weight_type == "F32" else f"MOSTLY_{weight_type}"]))
        # Not its name: if that holds phi3, llama.cpp looks for tokens of Phi-3.
        writer.add_basename(folder.resolve().name)
        describe = {"llama": _describe_llama, "gpt2": _describe_gpt2}[kind]
        describe(writer, config)
        pre = _add_tokenizer(writer, tokenizer, config, folder)
        _check_shapes(kept, kind, config, folder)
        check_head(folder, weights, config, "model.embed_tokens.weight" if kind == "llama" else "transformer.wte.weight")
        waiting: list[tuple[Callable[[], Weights], Any]] = []
        for name, read, shape in _tensors(kept, kind, config):
            known = names.get_name(name, try_suffixes=(".weight", ".bias"))
            if known is None:
                raise SGPEError(f"{folder}: the weights hold {name}, which the {kind} of llama.cpp does not have")
            type = target if _is_matrix(shape, weight_type) else gguf.GGMLQuantizationType.F32
            byte_shape = gguf.quant_shape_to_byte_shape(shape, type)
            as_bytes = type not in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16)
            numbers = np.dtype(np.uint8) if as_bytes else np.dtype(np.float32 if type.name == "F32" else np.float16)
            writer.add_tensor_info(known, byte_shape if as_bytes else shape, numbers, prod(byte_shape), raw_dtype=type)
            waiting.append((read, type))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for read, type in tqdm(waiting, desc="Writing", unit=" tensors", disable=not somebody_watches(), leave=False):
            writer.write_tensor_data(gguf.quants.quantize(read(), type))
    return pre


@contextmanager
def _numbers_of(config_file: Path) -> Iterator[None]:
    """A block that fails where numbers of a model's configuration are of a wrong type, or too large for the file."""
    try:
        yield
    except SGPEError:
        raise
    except (struct.error, TypeError, ValueError, ArithmeticError) as error:
        raise SGPEError(f"{config_file}: one of its numbers is of a wrong type or too large ({error})") from None


def pre_of(tokenizer: TokenizerData) -> str | None:
    """The name of llama.cpp's pre-tokenizer with which it gives exactly a tokenizer's tokens, or None."""
    pattern = _pattern_of(tokenizer)
    if pattern is None or tokenizer.splitting.recipe != "bpe":
        return None
    if pattern.takes_words != tokenizer.ignore_merges and unreached_words(tokenizer.vocab, tokenizer.merges):
        return None  # only one of the two would take such a token for a word
    return pattern.llama_cpp


def _nearest_pre(tokenizer: TokenizerData) -> str:
    """The name for the pattern that cuts what is in none of the scripts. With ``bloom``, which keeps marks and joiners
    inside words, few words differ then."""
    pattern = _pattern_of(tokenizer)
    return (pattern.llama_cpp if pattern else None) or _NO_PRE


def _pattern_of(tokenizer: TokenizerData) -> SplitPattern | None:
    patterns = tokenizer.splitting.patterns
    known = patterns_of(patterns[0]) if len(patterns) == 1 else []
    return next((pattern for pattern in known if pattern.llama_cpp), None)


# ---------------------------------------------------------------- weights


def _is_passed_over(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a tensor is a constant, or the embedding a second time."""
    is_tied = config.get("tie_word_embeddings", config["model_type"] == "gpt2")
    constants = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
    return name.endswith(constants) or (is_tied and name == "lm_head.weight")


def _check_shapes(stored: Mapping[str, Stored], kind: str, config: Mapping[str, Any], folder: Path) -> None:
    """llama.cpp would find out only when it loads the file."""
    shapes = {name.removeprefix("transformer."): weight.shape for name, weight in stored.items()}
    for name, shape in (_llama_shapes if kind == "llama" else _gpt2_shapes)(config):
        if name not in shapes:
            raise SGPEError(f"{folder}: the weights lack {name}, which config.json asks for")
        if not all(type(size) is int for size in shape):
            raise SGPEError(f"{folder}: config.json: a number is given as text")
        if shapes[name] != shape:
            raise SGPEError(f"{folder}: {name} is {_times(shapes[name])}, but config.json makes it {_times(shape)}")


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one number"


def _llama_shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    rows, width, inner = config["vocab_size"], config["hidden_size"], config["intermediate_size"]
    queries, keys = _heads(config)
    dim = _head_dim(config)
    yield "model.embed_tokens.weight", (rows, width)
    yield "model.norm.weight", (width,)
    if not config.get("tie_word_embeddings", False):
        yield "lm_head.weight", (rows, width)
    for layer in range(config["num_hidden_layers"]):
        for name, outputs, inputs in (
            ("self_attn.q_proj", queries * dim, width),
            ("self_attn.k_proj", keys * dim, width),
            ("self_attn.v_proj", keys * dim, width),
            ("self_attn.o_proj", width, queries * dim),
            ("mlp.gate_proj", inner, width),
            ("mlp.up_proj", inner, width),
            ("mlp.down_proj", width, inner),
        ):
            yield f"model.layers.{layer}.{name}.weight", (outputs, inputs)


def _gpt2_shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = config["n_embd"]
    inner = config.get("n_inner") or 4 * width
    yield "wte.weight", (config["vocab_size"], width)
    yield "wpe.weight", (config["n_positions"], width)
    for layer in range(config["n_layer"]):
        yield f"h.{layer}.attn.c_attn.weight", (width, 3 * width)
        yield f"h.{layer}.attn.c_proj.weight", (width, width)
        yield f"h.{layer}.mlp.c_fc.weight", (width, inner)
        yield f"h.{layer}.mlp.c_proj.weight", (inner, width)


def _is_matrix(shape: tuple[int, ...], weight_type: str) -> bool:
    return len(shape) > 1 and (weight_type != "Q8_0" or shape[-1] % 32 == 0)


def _tensors(
    stored: Mapping[str, Stored], kind: str, config: Mapping[str, Any]
) -> Iterator[tuple[str, Callable[[], Weights], tuple[int, ...]]]:
    """Name in transformers, how to read it in llama.cpp's order, and its shape then."""
    for full_name, one in stored.items():
        name = full_name.removeprefix("transformer.")  # with which GPT-2's begin
        if kind == "gpt2" and len(one.shape) == 2 and name.startswith("h."):
            # Its layers are Conv1D, inputs by outputs.
            yield name, partial(_transposed, one), one.shape[::-1]
        elif kind == "llama" and (heads := _rotated_heads(name, config)):
            yield name, partial(_interleaved, one, heads), one.shape
        else:
            yield name, one.read, one.shape
    if kind == "llama" and (factors := _rope_factors(config)) is not None:
        yield "rope_freqs.weight", factors.copy, factors.shape


def _rotated_heads(name: str, config: Mapping[str, Any]) -> int:
    queries, keys = _heads(config)
    return queries if ".q_proj." in name else keys if ".k_proj." in name else 0


def _heads(config: Mapping[str, Any]) -> tuple[int, int]:
    """Numbers of heads: of queries, and of keys and values."""
    queries = int(config["num_attention_heads"])
    return queries, int(config.get("num_key_value_heads") or queries)


def _head_dim(config: Mapping[str, Any]) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _transposed(one: Stored) -> Weights:
    return np.ascontiguousarray(one.read().T)


def _interleaved(one: Stored, heads: int) -> Weights:
    """transformers rotates the first half of a head with the second, llama.cpp each number with its neighbour."""
    weights = one.read()
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weights.shape)


# ---------------------------------------------------------------- metadata


def _describe_llama(writer: GGUFWriter, config: Mapping[str, Any]) -> None:
    import gguf

    heads, heads_kv = _heads(config)
    head_dim = _head_dim(config)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads_kv)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps", 1e-6))
    writer.add_vocab_size(config["vocab_size"])
    writer.add_rope_dimension_count(head_dim)
    positions = rope(config)
    writer.add_rope_freq_base(positions["rope_theta"])
    if positions["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(positions["factor"])


def _describe_gpt2(writer: GGUFWriter, config: Mapping[str, Any]) -> None:
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(config.get("n_inner") or 4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config.get("layer_norm_epsilon", 1e-5))


def _rope_factors(config: Mapping[str, Any]) -> Weights | None:
    """The divisors of Llama 3's frequencies: 1 for short waves, ``factor`` for long ones, in between a mean."""
    positions = rope(config)
    if positions["rope_type"] != "llama3":
        return None
    dim = _head_dim(config)
    frequencies = positions["rope_theta"] ** -(np.arange(0, dim, 2, dtype=np.float32) / dim)
    turns = positions["original_max_position_embeddings"] * frequencies / (2 * pi)
    low, high = positions["low_freq_factor"], positions["high_freq_factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)
    factors: Weights = (1 / (share + (1 - share) / positions["factor"])).astype(np.float32)
    return factors


def _compact(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _add_tokenizer(writer: GGUFWriter, tokenizer: TokenizerData, config: Mapping[str, Any], folder: Path) -> str | None:
    from gguf import TokenType

    rows = config["vocab_size"]
    ids = {**tokenizer.special_tokens, **tokenizer.added_tokens}
    last = max(*tokenizer.vocab.values(), *ids.values())
    if last >= rows:
        raise SGPEError(f"{folder}: the tokenizer has the id {last}, and the model's embedding only {rows} rows")
    # Rows that the embedding is padded with need a name of their own.
    tokens = [f"[unused{id}]" for id in range(rows)]
    types = [TokenType.UNUSED] * rows
    for token, id in tokenizer.vocab.items():
        tokens[id], types[id] = bytes_to_string(token), TokenType.NORMAL
    for text, id in ids.items():
        tokens[id] = text
        types[id] = TokenType.CONTROL if text in tokenizer.special_tokens else TokenType.USER_DEFINED
    pre = pre_of(tokenizer)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre or _nearest_pre(tokenizer))
    # llama.cpp does not normalize.
    writer.add_bool("hf_sgpe.tokenizes_exactly", pre is not None and tokenizer.normalization == "none")
    writer.add_string(gguf_reading.TOKENIZER_KEY, _compact(tokenizer_json.to_dict(tokenizer)))
    settings = tokenizer_json.config(tokenizer)
    settings.pop("chat_template", None)  # which has a place of its own
    writer.add_string(gguf_reading.SETTINGS_KEY, _compact(settings))
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if not tokenizer.merges:
        raise SGPEError(f"{folder}: the tokenizer has no merges, without which llama.cpp loads none")
    writer.add_token_merges([f"{bytes_to_string(left)} {bytes_to_string(right)}" for left, right in tokenizer.merges])
    ends = end_ids(folder, config) or [tokenizer.eos_token_id]
    known = {"bos": [tokenizer.bos_token_id], "eos": ends[:1], "eot": ends[1:2], "pad": [tokenizer.pad_token_id]}
    for role, (*_, id) in ((role, (None, *ids)) for role, ids in known.items()):
        if id is not None:
            writer.add_uint32(f"tokenizer.ggml.{role}_token_id", id)
    around = [name for name, _ in tokenizer.template.single] if tokenizer.template else []
    writer.add_add_bos_token(tokenizer.bos_token is not None and around[:1] == [tokenizer.bos_token])
    writer.add_add_eos_token(tokenizer.eos_token is not None and around[1:] != [] and around[-1] == tokenizer.eos_token)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)
    return pre
