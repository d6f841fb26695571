"""GGUF files, which llama.cpp runs: models with their tokenizer. Which ones is in `hf_sgpe.formats.gguf_models`.

llama.cpp keeps no split pattern in a file but the name of one it knows. Where it splits as ours does, the
pattern's record has that name; any other tokenizer's file says that it has none, and must be given ids.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from hf_sgpe.atomic import atomic_file, scratch_directory
from hf_sgpe.bpe.encoder import unreached_words
from hf_sgpe.bpe.tokenizer_data import TokenizerData
from hf_sgpe.byte_strings import bytes_to_string
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.formats import gguf_reading, model_vocab, tokenizer_json
from hf_sgpe.formats.folder_contents import why_no_model
from hf_sgpe.formats.gguf_models import FAMILIES, describe, tensors, usual, why_not
from hf_sgpe.formats.gguf_quantizing import QUANTIZED_TYPES, check_installed, quantize
from hf_sgpe.formats.model_config import end_ids, transformers_config
from hf_sgpe.formats.safetensors_files import Weights, check_head, stored
from hf_sgpe.quiet import somebody_watches
from hf_sgpe.splitting.patterns import SplitPattern, known_to_llama_cpp

if TYPE_CHECKING:
    from gguf import GGUFWriter

WEIGHT_TYPES = ("F32", "F16", "BF16", "Q8_0", *QUANTIZED_TYPES)

# The name of an unknown pre-tokenizer: llama.cpp splits by a pattern of its own, and warns.
_NO_PRE = "default"
# What chooses the experts, which llama.cpp keeps in 32 bits, too.
_KEPT_WHOLE = "ffn_gate_inp.weight"


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
    are not multiples of 32. Smaller types are made by llama-cpp-python, of a file with whole weights that is beside this one
    meanwhile.

    Args:
        folder: With ``config.json``, the weights as safetensors, and the tokenizer.
        path: File to write.
        weight_type: One of `WEIGHT_TYPES`; None for the type of the weights in the folder.
        tokenizer: In place of the folder's.

    Returns:
        The name of llama.cpp's pre-tokenizer that splits normalized text as the tokenizer does, or None if it has none: then
        give the model ids, not text. It normalizes nothing itself.

    Raises:
        SGPEError: gguf is not installed, or llama-cpp-python where it is needed; the folder holds no model that is known to
            come out the same on llama.cpp, or a tokenizer that has no merges or more ids than the model has rows.
    """
    try:
        import gguf
    except ImportError:
        raise not_installed("writing GGUF needs gguf", "gguf", extra="gguf") from None
    if weight_type is not None and weight_type not in WEIGHT_TYPES:
        raise SGPEError(f"unknown type of weights {weight_type!r}: known are {', '.join(WEIGHT_TYPES)}")
    config_file = folder / "config.json"
    if not config_file.exists():
        reason = why_no_model(folder) or ": give the folder of a model of transformers"
        raise SGPEError(f"{folder}: holds no config.json{reason}")
    config = transformers_config(folder)
    if reason := why_not(config):
        raise SGPEError(f"{config_file}: llama.cpp {reason}")
    if path.exists() and path.suffix != ".gguf" and path.resolve().parent == folder.resolve():
        raise SGPEError(f"{path}: is part of the model: give another name for the GGUF file")
    if weight_type in QUANTIZED_TYPES:
        check_installed()
        with scratch_directory(path) as scratch, atomic_file(path) as temporary:
            whole = scratch / "whole.gguf"
            pre = write(folder, whole, tokenizer=tokenizer)
            quantize(whole, temporary, weight_type)
        return pre
    config, family = usual(config), FAMILIES[config["model_type"]]
    tokenizer = tokenizer or tokenizer_json.read(tokenizer_json.find(folder))
    weights = stored(folder)
    weight_type = weight_type or next(one.type for one in weights.values() if len(one.shape) == 2)
    target = gguf.GGMLQuantizationType[weight_type]
    architecture = next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == family.architecture)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])

    with (
        _numbers_of(config_file),
        atomic_file(path) as temporary,
        closing(gguf.GGUFWriter(temporary, family.architecture)) as writer,
    ):
        writer.add_file_type(int(gguf.LlamaFileType["ALL_F32" if weight_type == "F32" else f"MOSTLY_{weight_type}"]))
        # Not its name: if that holds phi3, llama.cpp looks for tokens of Phi-3.
        writer.add_basename(folder.resolve().name)
        describe(writer, config)
        pre = _add_tokenizer(writer, tokenizer, config, folder)
        check_head(folder, weights, config, family.embedding)
        waiting: list[tuple[Callable[[], Weights], Any]] = []
        for name, read, shape in tensors(weights, config, folder):
            known = names.get_name(name, try_suffixes=(".weight", ".bias"))
            if known is None:
                raise SGPEError(f"gguf has no name for {name} in the {family.architecture} of llama.cpp: a newer one may")
            is_matrix = len(shape) > 1 and not known.endswith(_KEPT_WHOLE) and (weight_type != "Q8_0" or shape[-1] % 32 == 0)
            type = target if is_matrix else gguf.GGMLQuantizationType.F32
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


def write_vocabulary(tokenizer: TokenizerData, path: Path) -> None:
    """Writes a tokenizer alone as a GGUF file: llama.cpp cuts text with it, and does nothing else.

    Raises:
        SGPEError: gguf is not installed, or the tokenizer has no merges.
    """
    try:
        import gguf
    except ImportError:
        raise not_installed("writing GGUF needs gguf", "gguf", extra="gguf") from None
    rows = 1 + max(*tokenizer.vocab.values(), *tokenizer.special_tokens.values(), *tokenizer.added_tokens.values())
    with atomic_file(path) as temporary, closing(gguf.GGUFWriter(temporary, "llama")) as writer:
        _add_tokenizer(writer, tokenizer, {"vocab_size": rows}, path.parent)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()


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
    if pattern is None or tokenizer.splitting.recipe != "bpe" or model_vocab.left_out(tokenizer):
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
    return known_to_llama_cpp(patterns[0]) if len(patterns) == 1 else None


# ---------------------------------------------------------------- the tokenizer


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
