"""Reading the tokenizer out of GGUF files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, BinaryIO

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

TOKENIZER_KEY = "tokenizer.huggingface.json"
SETTINGS_KEY = "hf_sgpe.tokenizer_config"
TOKENS_KEY = "tokenizer.ggml.tokens"
TEMPLATE_KEY = "tokenizer.chat_template"
"""The keys under which `hf_sgpe.weights.gguf` keeps a tokenizer, besides those that llama.cpp needs."""

# The reader of the package gguf makes arrays of each text: for 150,000 tokens and as many merges it takes 8 s and 510 MB,
# this 0.25 s and 40 MB. Types of values by their numbers: those of a fixed size, then texts and arrays.
_SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_LONGEST = 2**30  # of a value, to llama.cpp: a damaged length takes no more memory


def read_tokenizer(path: Path) -> TokenizerData:
    """Return the tokenizer in a GGUF file that `hf_sgpe.weights.gguf.write` wrote: the very one that it was written with.

    Raises:
        SGPEError: it is not a GGUF file, is damaged, or holds no ``tokenizer.json``.
    """
    values = metadata(path, TOKENIZER_KEY, SETTINGS_KEY, TEMPLATE_KEY)
    if TOKENIZER_KEY not in values:
        raise SGPEError(f"{path}: a GGUF file with no tokenizer.json in it: name the model's tokenizer, too")
    try:
        content, settings = json.loads(values[TOKENIZER_KEY]), json.loads(values.get(SETTINGS_KEY, "{}"))
    except ValueError:
        raise SGPEError(f"{path}: the tokenizer.json in it is damaged: name the model's tokenizer, too") from None
    return tokenizer_json.from_content(content, path, {**settings, "chat_template": values.get(TEMPLATE_KEY)})


def check_tokenizer(path: Path, tokenizer: TokenizerData, name: str = "") -> None:
    """Make sure that a tokenizer has the tokens of a GGUF file, also of one that other tools wrote.

    Args:
        name: Of the tokenizer, for the error.

    Raises:
        SGPEError: it has others, or the file is damaged.
    """
    tokens = metadata(path, TOKENS_KEY).get(TOKENS_KEY, [])
    for token, id in tokenizer.get_vocab().items():
        if id < len(tokens) and tokens[id] != token:
            where = f"the tokenizer {name}".rstrip()
            raise SGPEError(
                f"{path}: token {id} is {tokens[id]!r}, and in {where} {token!r}: this is not the model's tokenizer"
            )


def metadata(path: Path, *names: str) -> dict[str, Any]:
    """Return the values of a GGUF file that have these names."""
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
        raise SGPEError(f"{path}: damaged: not a GGUF file") from None
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
