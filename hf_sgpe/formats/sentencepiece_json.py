"""The parts of a ``tokenizer.json`` that was converted from SentencePiece (Llama 2, Mistral 7B, Gemma).

Merges join characters, spaces are written as U+2581, and a character without a token is encoded as the tokens of its bytes.

Converters have written the same rules in several forms. `normalization_of` reads all of these forms, and `parts_of` writes
one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hf_sgpe.errors import NotByteLevelError
from hf_sgpe.vocabulary.byte_strings import SPACE_MARK, byte_token, string_to_text

_REPLACE: Mapping[str, Any] = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
_PREPEND = {"type": "Prepend", "prepend": SPACE_MARK}
_DECODERS: Sequence[Mapping[str, Any]] = [
    {"type": "Replace", "pattern": {"String": SPACE_MARK}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]
_STRIP: Mapping[str, Any] = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
# Gemma's files have this pre-tokenizer. It matches nothing, because no space is left after the normalizer.
_WITHOUT_EFFECT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
_BY_SCHEME = {"never": "metaspace", "always": "metaspace-always", "first": "metaspace-first"}


def is_one(content: Mapping[str, Any]) -> bool:
    """Return whether the content of a ``tokenizer.json`` is a BPE model that was converted from SentencePiece."""
    model = content["model"]
    return model.get("type", "BPE") == "BPE" and bool(model.get("byte_fallback"))


def normalization_of(content: Mapping[str, Any]) -> str:
    """Return the normalization of a ``tokenizer.json``, one of `hf_sgpe.splitting.normalization.METASPACES`.

    Raises:
        NotByteLevelError: the normalizer, pre-tokenizer or decoder does not match any of these normalizations.
    """
    normalizers = _members(content.get("normalizer"), "normalizers")
    pre_tokenizers = _members(content.get("pre_tokenizer"), "pretokenizers")
    decoders = _members(content.get("decoder"), "decoders")
    if normalizers in ([_REPLACE], [_PREPEND, _REPLACE]) and pre_tokenizers in ([], [_WITHOUT_EFFECT]):
        normalization = "metaspace-prefix" if normalizers[0] == _PREPEND else "metaspace"
    elif normalizers:
        raise NotByteLevelError(f"its normalizer {_names(normalizers)} is not one that SentencePiece models have")
    else:
        normalization = _of_metaspace(pre_tokenizers)
    expected = [*_DECODERS] if normalization == "metaspace" else [*_DECODERS, _STRIP]
    if decoders != expected:
        raise NotByteLevelError(f"its decoder {_names(decoders)} does not undo its normalizer: expected {_names(expected)}")
    return normalization


def _of_metaspace(pre_tokenizers: list[Mapping[str, Any]]) -> str:
    """Return the normalization of a single ``Metaspace``. A Metaspace replaces spaces, and may put a space before the
    text.
    """
    if len(pre_tokenizers) != 1 or pre_tokenizers[0]["type"] != "Metaspace":
        raise NotByteLevelError(f"its pre-tokenizer {_names(pre_tokenizers)} is not one that SentencePiece models have")
    metaspace = pre_tokenizers[0]
    scheme = metaspace.get("prepend_scheme", "always" if metaspace.get("add_prefix_space", True) else "never")
    if metaspace.get("replacement") != SPACE_MARK or metaspace.get("split", True) or scheme not in _BY_SCHEME:
        raise NotByteLevelError("its Metaspace splits the text at spaces, but hf_sgpe does not support this")
    return _BY_SCHEME[scheme]


def _members(part: Mapping[str, Any] | None, name: str) -> list[Mapping[str, Any]]:
    if part is None:
        return []
    return [inner for member in part[name] for inner in _members(member, name)] if part["type"] == "Sequence" else [part]


def _names(parts: Iterable[Mapping[str, Any]]) -> str:
    return " + ".join(part["type"] for part in parts) or "(none)"


def parts_of(normalization: str) -> dict[str, Any]:
    """Return the normalizer, pre-tokenizer and decoder that a normalization has in a ``tokenizer.json``."""
    metaspace: dict[str, Any] | None = None
    normalizer: dict[str, Any] | None = None
    if normalization in ("metaspace", "metaspace-prefix"):
        members = [_PREPEND, _REPLACE] if normalization == "metaspace-prefix" else [_REPLACE]
        normalizer = {"type": "Sequence", "normalizers": members}
    else:
        scheme = next(scheme for scheme, name in _BY_SCHEME.items() if name == normalization)
        metaspace = {"type": "Metaspace", "replacement": SPACE_MARK, "prepend_scheme": scheme, "split": False}
    decoders = _DECODERS if normalization == "metaspace" else [*_DECODERS, _STRIP]
    return {
        "normalizer": normalizer,
        "pre_tokenizer": metaspace,
        "decoder": {"type": "Sequence", "decoders": decoders},
    }


def byte_tokens_in(vocab: Mapping[str, int]) -> tuple[int, ...]:
    """Return the ids of the tokens of the 256 bytes. If a byte has no token, the id of its ASCII character is returned, such
    as the tab in Gemma 1 and 2. An ASCII byte occurs in no other character.

    Raises:
        NotByteLevelError: a byte has no token, so some characters could not be encoded.
    """
    names = {byte: byte_token(byte) for byte in range(256)}
    names |= {byte: chr(byte) for byte in range(0x80) if names[byte] not in vocab and chr(byte) in vocab}
    if missing := [name for name in names.values() if name not in vocab]:
        raise NotByteLevelError(f"its model has byte_fallback, but no token {missing[0]}")
    return tuple(vocab[name] for name in names.values())


def tokens_of(texts: set[str]) -> dict[str, bytes]:
    """Return a dict from vocabulary strings to tokens (bytes). It contains all vocabulary strings that are ordinary
    tokens.

    Raises:
        NotByteLevelError: two strings are the same token, because one contains a space where the other contains U+2581.
    """
    names = texts.difference(map(byte_token, range(256)))
    spelled = {name: string_to_text(name) for name in names}
    if len(set(spelled.values())) < len(spelled):
        twice = next(name for name in sorted(names) if " " in name and name.replace(" ", SPACE_MARK) in names)
        raise NotByteLevelError(f"its tokens {twice!r} and {twice.replace(' ', SPACE_MARK)!r} are the same text")
    return spelled
