"""A reader for the tokenizer in a GGUF file."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import json_object
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.formats import sentencepiece_model, tokenizer_json
from hf_sgpe.vocabulary.byte_strings import SPACE_MARK
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

TOKENIZER_KEY = "tokenizer.huggingface.json"
SETTINGS_KEY = "hf_sgpe.tokenizer_config"
TOKENS_KEY = "tokenizer.ggml.tokens"
TEMPLATE_KEY = "tokenizer.chat_template"
_KIND_KEY = "tokenizer.ggml.model"
# Metadata keys of a tokenizer in a GGUF file. `hf_sgpe.weights.gguf` adds the first two for this package.

# The reader of the package gguf makes arrays for each string. For 150,000 tokens and 150,000 merges, it takes 8 s and 510
# MB. This reader takes 0.25 s and 40 MB. Value types by number: first the types of a fixed size, then strings and arrays.
_SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_LONGEST = 2**30  # the largest value in bytes, as in llama.cpp: limits the memory if a length is damaged


def read_tokenizer(path: Path) -> TokenizerData:
    """Return the exact tokenizer of a GGUF file. The file must contain a ``tokenizer.json``, as files from
    `hf_sgpe.weights.gguf.write` do, or a tokenizer of the kind ``llama`` (the value of ``tokenizer.ggml.model``).

    Raises:
        NotByteLevelError: no ``tokenizer.json`` could produce the ids that the scores in the file produce.
    """
    values = metadata(path, TOKENIZER_KEY, SETTINGS_KEY, TEMPLATE_KEY, _KIND_KEY)
    if TOKENIZER_KEY not in values and values.get(_KIND_KEY) == "llama":
        return _of_scores(path, values.get(TEMPLATE_KEY))
    if TOKENIZER_KEY not in values:
        raise SGPEError(f"{path}: the GGUF file contains no tokenizer.json: also name the model's tokenizer")
    try:
        content, settings = (json_object(values.get(key, "{}"), path) for key in (TOKENIZER_KEY, SETTINGS_KEY))
    except SGPEError:
        raise SGPEError(f"{path}: the tokenizer.json in the GGUF file is damaged: also name the model's tokenizer") from None
    return tokenizer_json.from_content(content, path, {**settings, "chat_template": values.get(TEMPLATE_KEY)})


def _of_scores(path: Path, chat_template: str | None) -> TokenizerData:
    """Return the tokenizer of a file of the kind ``llama``: the tokens and the scores of a SentencePiece model."""
    prefix = "tokenizer.ggml."
    lists = ("tokens", "scores", "token_type")
    flags = ("add_space_prefix", "add_bos_token", "add_eos_token")
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    names = [*lists, *flags, *(f"{role}_token_id" for role in roles.values())]
    found = metadata(path, *(prefix + name for name in names))
    values = {name.removeprefix(prefix): value for name, value in found.items()}
    try:
        tokens = values["tokens"]
        # llama.cpp's converter gives the padding tokens of Phi-3 the type of the unknown token, and Gemma 3's unknown token
        # the type of a control token.
        unknown = values.get("unknown_token_id")
        if unknown is None:
            unknown = values["token_type"].index(sentencepiece_model.UNKNOWN)
        other_kinds = {sentencepiece_model.UNKNOWN: sentencepiece_model.UNUSED}
        kinds = [other_kinds.get(kind, kind) for kind in values["token_type"]]
        kinds[unknown] = sentencepiece_model.UNKNOWN
        # llama.cpp's converter writes Gemma's added tokens of spaces with spaces.
        texts = [text.replace(" ", SPACE_MARK) for text in tokens]
        pieces = list(zip(texts, values["scores"], kinds, strict=True))
        settings = {
            f"{role}_token": tokens[id] for role, key in roles.items() if (id := values.get(f"{key}_token_id")) is not None
        }
    except (KeyError, IndexError, ValueError):
        raise SGPEError(f"{path}: the tokenizer in the GGUF file is damaged: also name the model's tokenizer") from None
    settings |= {"add_bos_token": values.get(flags[1], True), "add_eos_token": values.get(flags[2], False)}
    model = sentencepiece_model.of_pieces(pieces, has_prefix=values.get(flags[0], True))
    content = sentencepiece_model.to_tokenizer_json(model, path, settings)
    return tokenizer_json.from_content(content, path, {**settings, "chat_template": chat_template})


def check_tokenizer(path: Path, tokenizer: TokenizerData, name: str = "") -> None:
    """Check that each id of a tokenizer belongs to the same token as in a GGUF file, which may come from any program."""
    tokens = metadata(path, TOKENS_KEY).get(TOKENS_KEY, [])
    for token, id in tokenizer.get_vocab().items():
        # llama.cpp's converter writes Gemma's added tokens of spaces with spaces.
        if id < len(tokens) and token not in (tokens[id], tokens[id].replace(" ", SPACE_MARK)):
            where = f"the tokenizer {name}".rstrip()
            raise SGPEError(
                f"{path}: token {id} is {tokens[id]!r} here, but {token!r} in {where}: give the tokenizer of this model"
            )


def metadata(path: Path, *names: str) -> dict[str, Any]:
    """Return the entries ``names`` of the metadata of a GGUF file, without those that are missing."""
    values = {}
    try:
        with path.open("rb") as file:
            magic, _, _, count = _numbers(file, "<4sIQQ")
            if magic != b"GGUF":
                raise ValueError
            for _ in range(count):
                name = _text(file)
                value = _value(file, *_numbers(file, "<I"))
                if name in names:
                    values[name] = value
    except (struct.error, ValueError, KeyError, OverflowError, MemoryError):
        check_no_pointer(path)
        raise SGPEError(f"{path}: damaged or not a GGUF file") from None
    return values


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        return _text(file)
    if kind == _ARRAY:
        of, length = _numbers(file, "<IQ")
        return _numbers(file, f"<{length}{_SCALARS[of]}") if of in _SCALARS else [_value(file, of) for _ in range(length)]
    return _numbers(file, f"<{_SCALARS[kind]}")[0]


def _text(file: BinaryIO) -> str:
    (length,) = _numbers(file, "<Q")
    return _take(file, length).decode()


def _numbers(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(form, _take(file, struct.calcsize(form)))


def _take(file: BinaryIO, length: int) -> bytes:
    part = file.read(min(length, _LONGEST))
    if len(part) < length:
        raise ValueError
    return part
