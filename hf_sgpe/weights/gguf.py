"""GGUF files for llama.cpp: models with their tokenizer. The supported models are listed in `hf_sgpe.weights.gguf_models`.

A GGUF file has no split pattern. Instead, it names one of llama.cpp's pre-tokenizers
(`hf_sgpe.formats.llama_cpp_pre_tokenizers`). If none of them splits as the tokenizer does, the caller must name one, and
must give llama.cpp ids instead of text. If a tokenizer's merges join characters, scores are written instead of merges
(`hf_sgpe.formats.llama_cpp_characters`).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from hf_sgpe.bpe.merging import unreached_words
from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.files.atomic import atomic_file, scratch_directory
from hf_sgpe.files.folder_contents import why_no_model
from hf_sgpe.formats import gguf_tokenizer, llama_cpp_characters, loading, model_vocab, tokenizer_json
from hf_sgpe.formats.llama_cpp_pre_tokenizers import PRE_TOKENIZERS, PreTokenizer, called, of_patterns
from hf_sgpe.splitting.normalization import NFC
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.vocabulary.byte_strings import byte_token, bytes_to_string
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.weights.gguf_models import FAMILIES, usual, why_not
from hf_sgpe.weights.gguf_tensors import describe, tensors
from hf_sgpe.weights.llama_log import silence
from hf_sgpe.weights.model_config import end_ids, transformers_config
from hf_sgpe.weights.safetensors_files import Weights, check_head, stored

if TYPE_CHECKING:
    from gguf import GGUFWriter

QUANTIZED_TYPES = ("Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0")
"""Types of quantized weights. If a row length is not a multiple of 256, llama.cpp uses larger types for the first three."""

WEIGHT_TYPES = ("F32", "F16", "BF16", "Q8_0", *QUANTIZED_TYPES)

# "[  12/ 291] token_embd.weight - ...": one line for each tensor.
_PROGRESS = re.compile(rb"\[ *(\d+)/ *(\d+)\]")

NEAREST = "nearest"
"""The value of ``pre_tokenizer`` for the nearest pre-tokenizer of llama.cpp. Use the resulting file only with ids."""

# The pre-tokenizer that llama.cpp uses for files without a name.
_NO_PRE = "default"
# The router of the experts. llama.cpp also keeps it in 32 bits.
_KEPT_WHOLE = "ffn_gate_inp.weight"


def write(
    folder: Path,
    path: Path,
    weight_type: str | None = None,
    *,
    tokenizer: TokenizerData | None = None,
    pre_tokenizer: str | None = None,
) -> str | None:
    """Write a transformers model as a GGUF file.

    The file contains the tokenizer twice, in llama.cpp's form and as a ``tokenizer.json``. Only one tensor is in memory at a
    time. Tensors that are not matrices are written in 32 bits. With Q8_0, matrices whose row length is not a multiple of 32
    are, too. For smaller types, llama-cpp-python converts the weights from a temporary file in the folder of ``path``.

    Args:
        weight_type: One of `WEIGHT_TYPES`; None for the type of the weights in the folder.
        tokenizer: Tokenizer to write; None for the folder's tokenizer.
        pre_tokenizer: Name of a pre-tokenizer of llama.cpp, or `NEAREST`. None for a pre-tokenizer that splits as the
            tokenizer does.

    Returns:
        The name of the pre-tokenizer in the file, if llama.cpp tokenizes normalized text exactly as the tokenizer does.
        Otherwise None: pass ids to llama.cpp, not text.
    """
    gguf = optional("gguf", "writing GGUF needs gguf", extra="gguf")
    if weight_type is not None and weight_type not in WEIGHT_TYPES:
        raise SGPEError(f"unknown type of weights {weight_type!r}: choose from {', '.join(WEIGHT_TYPES)}")
    config_file = folder / "config.json"
    if not config_file.exists():
        reason = why_no_model(folder) or ": give the folder of a transformers model"
        raise SGPEError(f"{folder}: the folder holds no config.json{reason}")
    config = transformers_config(folder)
    if reason := why_not(config):
        raise SGPEError(f"{config_file}: llama.cpp {reason}")
    if path.exists() and path.suffix != ".gguf" and path.resolve().parent == folder.resolve():
        raise SGPEError(f"{path} is part of the model: give another name for the GGUF file")
    if weight_type in QUANTIZED_TYPES:
        need = f"writing {', '.join(QUANTIZED_TYPES)} needs llama-cpp-python"
        optional("llama_cpp", need, "llama-cpp-python", extra="llama-cpp")
        with scratch_directory(path) as scratch, atomic_file(path) as temporary:
            whole = scratch / "whole.gguf"
            pre = write(folder, whole, tokenizer=tokenizer, pre_tokenizer=pre_tokenizer)
            quantize(whole, temporary, weight_type)
        return pre
    config, family = usual(config), FAMILIES[config["model_type"]]
    tokenizer = tokenizer or loading.load(folder)
    pre = pre_to_write(tokenizer, pre_tokenizer)
    weights = stored(folder)
    weight_type = weight_type or next(tensor.type for tensor in weights.values() if len(tensor.shape) == 2)
    architecture = next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == family.architecture)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])

    with (
        _numbers_of(config_file),
        atomic_file(path) as temporary,
        closing(gguf.GGUFWriter(temporary, family.architecture)) as writer,
    ):
        writer.add_file_type(int(gguf.LlamaFileType["ALL_F32" if weight_type == "F32" else f"MOSTLY_{weight_type}"]))
        # If this name contained phi3, the field for the name would make llama.cpp look for tokens of Phi-3.
        writer.add_basename(folder.resolve().name)
        describe(writer, config)
        _add_tokenizer(writer, tokenizer, pre, config, folder)
        check_head(folder, weights, config, family.embedding)
        waiting: list[tuple[Callable[[], Weights], Any]] = []
        for name, read, shape in tensors(weights, config, folder):
            gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
            if gguf_name is None:
                raise SGPEError(
                    f"the package gguf has no name for {name} in llama.cpp's {family.architecture}: install a newer gguf"
                )
            waiting.append((read, _add_tensor_info(writer, gguf_name, shape, weight_type)))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for read, type in tqdm(waiting, desc="Writing", unit=" tensors", disable=not somebody_watches(), leave=False):
            writer.write_tensor_data(gguf.quants.quantize(read(), type))
    return pre if is_exact(tokenizer, pre) else None


def quantize(source: Path, target: Path, weight_type: str) -> None:
    """Write a copy of a GGUF file with quantized weights. The weights of ``source`` are in F32, F16 or BF16. This takes
    minutes for a model of a few billion weights.
    """
    import llama_cpp
    from gguf import LlamaFileType

    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = int(LlamaFileType[f"MOSTLY_{weight_type}"])
    last_line = b""
    with tqdm(desc=f"Making {weight_type}", unit=" tensors", disable=not somebody_watches(), leave=False) as bar:

        @llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
        def log(level: int, text: bytes, data: object) -> None:
            nonlocal last_line
            last_line = text.strip() or last_line
            if progress := _PROGRESS.match(text):
                bar.total = int(progress[2])
                bar.update(int(progress[1]) - bar.n)

        llama_cpp.llama_backend_init()
        llama_cpp.llama_log_set(log, None)
        try:
            failed = llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(options))
        finally:
            silence()
    if failed:
        raise SGPEError(f"llama.cpp cannot convert these weights to {weight_type} ({last_line.decode(errors='replace')})")


def _add_tensor_info(writer: GGUFWriter, name: str, shape: tuple[int, ...], weight_type: str) -> Any:
    """Add the type and shape of a tensor to a file, and return the type."""
    from gguf import GGMLQuantizationType, quant_shape_to_byte_shape

    has_full_blocks = weight_type != "Q8_0" or shape[-1] % 32 == 0
    is_matrix = len(shape) > 1 and not name.endswith(_KEPT_WHOLE) and has_full_blocks
    type = GGMLQuantizationType[weight_type if is_matrix else "F32"]
    byte_shape = quant_shape_to_byte_shape(shape, type)
    numbers = {"F32": np.float32, "F16": np.float16}.get(type.name)
    written_shape = byte_shape if numbers is None else shape
    writer.add_tensor_info(name, written_shape, np.dtype(numbers or np.uint8), prod(byte_shape), raw_dtype=type)
    return type


def write_vocabulary(tokenizer: TokenizerData, path: Path, pre_tokenizer: str | None = NEAREST) -> None:
    """Write a GGUF file with a tokenizer and no model. llama.cpp can use it only to tokenize."""
    gguf = optional("gguf", "writing GGUF needs gguf", extra="gguf")
    rows = tokenizer.rows_needed
    with atomic_file(path) as temporary, closing(gguf.GGUFWriter(temporary, "llama")) as writer:
        _add_tokenizer(writer, tokenizer, pre_to_write(tokenizer, pre_tokenizer), {"vocab_size": rows}, path.parent)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()


@contextmanager
def _numbers_of(config_file: Path) -> Iterator[None]:
    """Convert errors that wrong numbers in a configuration cause inside the ``with`` block into an `SGPEError`."""
    try:
        yield
    except SGPEError:
        raise
    except (struct.error, TypeError, ValueError, ArithmeticError) as error:
        raise SGPEError(f"{config_file}: a number has a wrong type or is too large ({error})") from None


def pre_tokenizer_of(tokenizer: TokenizerData) -> PreTokenizer | None:
    """Return the most exact of the llama.cpp pre-tokenizers that split as a tokenizer does."""
    return next(iter(_fitting(tokenizer)), None)


def is_exact(tokenizer: TokenizerData, name: str) -> bool:
    """Return whether llama.cpp, with the pre-tokenizer ``name``, produces exactly the tokens of a tokenizer."""
    if model_vocab.left_out(tokenizer):  # llama.cpp would use such a token as an ordinary token with the same spelling
        return False
    return any(name in record.names and not record.differs for record in _fitting(tokenizer))


def pre_to_write(tokenizer: TokenizerData, name: str | None = None) -> str:
    """Return the name of the pre-tokenizer to write. ``name`` is the argument ``pre_tokenizer`` of `write`."""
    if tokenizer.lacks_bytes:
        raise SGPEError(
            "llama.cpp encodes a character without a token as its bytes, and this tokenizer has no tokens for bytes: run "
            "the model in transformers"
        )
    fitting = pre_tokenizer_of(tokenizer)
    if name is None:
        if fitting is None:
            raise SGPEError(
                "llama.cpp has no pre-tokenizer with the split of this tokenizer, so the ids would differ: add "
                f"--pre-tokenizer {NEAREST} and pass ids to llama.cpp, as hf-sgpe serve does, or train or extend with "
                "--runs-in llama.cpp"
            )
        return fitting.name
    if tokenizer.by_characters:
        if name not in (NEAREST, llama_cpp_characters.KIND):
            raise SGPEError(
                f"--pre-tokenizer {name}: llama.cpp uses no pre-tokenizer if the merges of a tokenizer join characters: "
                "omit the option"
            )
        return llama_cpp_characters.KIND
    if name == NEAREST:
        # This is the pattern for text outside the scripts. Few words differ with bloom, which keeps marks and joiners inside
        # words.
        nearest = [fitting] if fitting else of_patterns(tokenizer.splitting.patterns)
        return nearest[0].name if nearest else _NO_PRE
    if called(name) is None:
        names = ", ".join(record.name for record in PRE_TOKENIZERS)
        raise SGPEError(
            f"--pre-tokenizer {name}: llama.cpp has no pre-tokenizer of that name: give {NEAREST}, {names}, or the name "
            "that llama.cpp's converter writes for the model"
        )
    return name


def _fitting(tokenizer: TokenizerData) -> list[PreTokenizer]:
    """Return the pre-tokenizers that split as a tokenizer does, the most exact first."""
    if tokenizer.by_characters:
        return [llama_cpp_characters.record_of(tokenizer)]
    if tokenizer.splitting.recipe != "bpe":
        return []
    fitting = of_patterns(tokenizer.splitting.patterns)
    # A word that is a token, but that no merges build, becomes this token only with takes_words, or ignore_merges.
    same = [record for record in fitting if record.takes_words == tokenizer.ignore_merges]
    return same if len(same) < len(fitting) and unreached_words(tokenizer.vocab, tokenizer.merges) else fitting


# ---------------------------------------------------------------- the tokenizer


def _compact(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _add_tokenizer(writer: GGUFWriter, tokenizer: TokenizerData, pre: str, config: Mapping[str, Any], folder: Path) -> None:
    from gguf import TokenType

    rows = config["vocab_size"]
    if (needed := tokenizer.rows_needed) > rows:
        raise SGPEError(f"{folder}: the tokenizer has the id {needed - 1}, but the model's embedding has only {rows} rows")
    # Rows that only pad the embedding need unique names, too.
    tokens = [f"[unused{id}]" for id in range(rows)]
    types = [TokenType.UNUSED] * rows
    for token, id in tokenizer.vocab.items():
        tokens[id], types[id] = tokenizer.spelling.string_of(token), TokenType.NORMAL
    for text, id in tokenizer.unmade_tokens.items():
        tokens[id] = text
    for byte, id in enumerate(tokenizer.byte_tokens):
        tokens[id], types[id] = byte_token(byte), TokenType.BYTE
    for text, id in tokenizer.added_ids.items():
        if id >= rows or llama_cpp_characters.is_ordinary(tokenizer, text):
            continue
        tokens[id] = text
        types[id] = TokenType.CONTROL if text in tokenizer.special_tokens else TokenType.USER_DEFINED
    # llama.cpp does not normalize to NFC, and its added tokens take no white space.
    exact = is_exact(tokenizer, pre) and tokenizer.normalization != NFC and not tokenizer.matching
    writer.add_bool("hf_sgpe.tokenizes_exactly", exact)
    writer.add_string(gguf_tokenizer.TOKENIZER_KEY, _compact(tokenizer_json.to_dict(tokenizer)))
    settings = tokenizer_json.config(tokenizer)
    settings.pop("chat_template", None)  # the chat template has a key of its own
    writer.add_string(gguf_tokenizer.SETTINGS_KEY, _compact(settings))
    if not tokenizer.merges:
        raise SGPEError(f"{folder}: llama.cpp requires merges, and the tokenizer has none")
    ends = end_ids(folder, config) or [tokenizer.eos_token_id]
    ids_of = {"bos": [tokenizer.bos_token_id], "eos": ends[:1], "eot": ends[1:2], "padding": [tokenizer.pad_token_id]}
    if tokenizer.by_characters:
        writer.add_tokenizer_model(llama_cpp_characters.KIND)
        made = llama_cpp_characters.scores(tokenizer)
        least = float(-len(tokenizer.merges))
        writer.add_tokenizer_pre("default")
        writer.add_token_scores([made.get(id, least) for id in range(rows)])
        writer.add_add_space_prefix(tokenizer.normalization.puts_space)
        ids_of["unknown"] = [tokenizer.unk_token_id]
        if tokenizer.unk_token_id is not None:
            types[tokenizer.unk_token_id] = TokenType.UNKNOWN
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_merges([f"{bytes_to_string(left)} {bytes_to_string(right)}" for left, right in tokenizer.merges])
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for role, (*_, id) in ((role, (None, *ids)) for role, ids in ids_of.items()):
        if id is not None:
            writer.add_uint32(f"tokenizer.ggml.{role}_token_id", id)
    around = [name for name, _ in tokenizer.template.single] if tokenizer.template else []
    writer.add_add_bos_token(tokenizer.bos_token is not None and around[:1] == [tokenizer.bos_token])
    writer.add_add_eos_token(tokenizer.eos_token is not None and around[1:] != [] and around[-1] == tokenizer.eos_token)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)
