"""Reading and writing a ``tokenizer.json`` converted from SentencePiece.

Llama 2, Mistral 7B and Gemma have such files. In these tokenizers, merges join characters instead of bytes, and spaces are
written as U+2581. A character without a token is encoded as the tokens of its bytes. If the vocabulary has no byte tokens,
the character becomes the unknown token.

Converters have written these rules in several forms of the normalizer, pre-tokenizer and decoder. `read` reads all of these
forms, and `as_content` writes one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hf_sgpe.bpe.merging import merge_words
from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.formats import model_vocab
from hf_sgpe.formats.pre_tokenizers import steps_of
from hf_sgpe.kernels import sentencepiece_library
from hf_sgpe.splitting.normalization import Normalization
from hf_sgpe.splitting.splitting import BEFORE_SPACES, Splitting
from hf_sgpe.vocabulary.byte_strings import SPACE_MARK, byte_token
from hf_sgpe.vocabulary.neighbours import is_character
from hf_sgpe.vocabulary.tokenizer_data import Unknown

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
_METASPACE = {"type": "Metaspace", "replacement": SPACE_MARK, "prepend_scheme": "always", "split": True}
_BY_SCHEME = {"never": "metaspace", "always": "metaspace-always", "first": "metaspace-first"}


def is_one(content: Mapping[str, Any]) -> bool:
    """Return whether the merges of a ``tokenizer.json`` join characters, as in SentencePiece."""
    model = content["model"]
    around = [content.get(name) for name in ("normalizer", "pre_tokenizer", "decoder")]
    marks = model.get("byte_fallback") or SPACE_MARK in json.dumps(around, ensure_ascii=False)
    return model.get("type", "BPE") == "BPE" and bool(marks)


def _normalization_in(content: Mapping[str, Any]) -> tuple[Normalization, bool]:
    """Return the normalization, and whether each space begins a word."""
    normalizers = steps_of(content.get("normalizer"), "normalizers")
    pre_tokenizers = steps_of(content.get("pre_tokenizer"), "pretokenizers")
    if normalizers[-1:] == [_REPLACE] and pre_tokenizers in ([], [_WITHOUT_EFFECT]):
        has_prefix = normalizers[-2:-1] == [_PREPEND]
        steps = normalizers[: -2 if has_prefix else -1]
        return Normalization.of("metaspace-prefix" if has_prefix else "metaspace", steps), False
    if len(pre_tokenizers) != 1 or pre_tokenizers[0]["type"] != "Metaspace":
        raise NotByteLevelError(f"its pre-tokenizer {_names(pre_tokenizers)} is not one that SentencePiece models have")
    metaspace = pre_tokenizers[0]
    scheme = _scheme(metaspace)
    if metaspace.get("replacement") != SPACE_MARK or scheme not in _BY_SCHEME:
        raise NotByteLevelError("its Metaspace does not replace spaces by U+2581, but hf_sgpe requires this")
    return Normalization.of(_BY_SCHEME[scheme], normalizers), bool(metaspace.get("split", True))


def _scheme(metaspace: Mapping[str, Any]) -> str:
    return str(metaspace.get("prepend_scheme", "always" if metaspace.get("add_prefix_space", True) else "never"))


def _decoding_in(content: Mapping[str, Any], scheme: str) -> tuple[str, bool]:
    """Return which spaces decoding removes (one of `STRIPPINGS`), and whether it joins byte tokens into characters."""
    decoders = steps_of(content.get("decoder"), "decoders")
    if len(decoders) == 1 and decoders[0]["type"] == "Metaspace" and decoders[0].get("replacement") == SPACE_MARK:
        return "none" if _scheme(decoders[0]) == "never" else "all", False
    for stripping, has_bytes in (("none", True), ("one", True), ("none", False), ("one", False)):
        if decoders == _decoders(stripping, has_bytes=has_bytes):
            return stripping, has_bytes
    expected = _decoders("none" if scheme == "metaspace" else "one", has_bytes=True)
    raise NotByteLevelError(f"its decoder {_names(decoders)} does not undo its normalizer: expected {_names(expected)}")


def _decoders(stripping: str, *, has_bytes: bool) -> list[Mapping[str, Any]]:
    decoders = [decoder for decoder in _DECODERS if has_bytes or decoder["type"] != "ByteFallback"]
    return [*decoders, _STRIP] if stripping == "one" else decoders


def _names(parts: Iterable[Mapping[str, Any]]) -> str:
    return " + ".join(part["type"] for part in parts) or "(none)"


def as_content(
    normalization: Normalization, *, stripping: str, has_bytes: bool, cuts_at_spaces: bool = False
) -> dict[str, Any]:
    """Return the normalizer, pre-tokenizer and decoder of a ``tokenizer.json``.

    Args:
        normalization: Its scheme is one of `hf_sgpe.splitting.normalization.METASPACES`.
        stripping: One of `hf_sgpe.vocabulary.tokenizer_data.STRIPPINGS`.
        has_bytes: Whether the decoder joins byte tokens into characters.
        cuts_at_spaces: Whether each space begins a word.
    """
    scheme, steps = normalization.scheme, normalization.normalizers
    metaspace: dict[str, Any] | None = None
    if scheme in ("metaspace", "metaspace-prefix") and not cuts_at_spaces:
        steps += map(dict, [_PREPEND, _REPLACE] if scheme == "metaspace-prefix" else [_REPLACE])
    else:
        prepended = next(name for name, meaning in _BY_SCHEME.items() if meaning == scheme)
        metaspace = {**_METASPACE, "prepend_scheme": prepended, "split": cuts_at_spaces}
    decoder: Mapping[str, Any] = dict(_METASPACE)
    if stripping != "all":
        decoder = {"type": "Sequence", "decoders": _decoders(stripping, has_bytes=has_bytes)}
    return {
        "normalizer": {"type": "Sequence", "normalizers": steps} if steps else None,
        "pre_tokenizer": metaspace,
        "decoder": decoder,
    }


def check_writable(content: Mapping[str, Any]) -> None:
    """Check that a ``tokenizer.json`` can contain the normalizers of ``content``.

    Raises:
        NotByteLevelError: one of the normalizers exists only in SentencePiece.
    """
    if any(step["type"] == sentencepiece_library.KIND for step in steps_of(content.get("normalizer"), "normalizers")):
        raise NotByteLevelError(
            "its tokenizer.model changes characters by SentencePiece's own normalizer, which no tokenizer.json can have: "
            "save the tokenizer with transformers, which writes a tokenizer.json with a similar normalizer, and use that "
            "folder"
        )


def read(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for `TokenizerData` that the content of a ``tokenizer.json`` contains, except the template.

    Raises:
        NotByteLevelError: `TokenizerData` cannot reproduce the tokenizer exactly.
    """
    model, vocab = content["model"], content["model"]["vocab"]
    normalization, cuts_at_spaces = _normalization_in(content)
    stripping, joins_bytes = _decoding_in(content, normalization.scheme)
    byte_tokens = _byte_tokens_in(vocab) if model.get("byte_fallback") else ()
    if bool(byte_tokens) != joins_bytes and _byte_tokens_in(vocab):
        raise NotByteLevelError("its model and its decoder disagree on whether byte tokens are joined into characters")
    unknown = None if byte_tokens else model.get("unk_token")
    if unknown is not None and unknown not in vocab:
        raise SGPEError(f"its unk_token {unknown!r} is not in its vocabulary")
    parts = model_vocab.parts_of(content, normalization, [*map(byte_token, range(256))] if byte_tokens else [])
    if parts["ignore_merges"]:
        _check_whole_words(parts["vocab"], parts["merges"])
    regexes = [BEFORE_SPACES] if cuts_at_spaces else []
    return {
        **parts,
        "byte_tokens": byte_tokens,
        "unknown": None if unknown is None else Unknown(unknown, bool(model.get("fuse_unk"))),
        "stripping": stripping,
        "splitting": Splitting.from_regexes(regexes, normalization, parts["special_tokens"]),
    }


def _check_whole_words(tokens: Iterable[bytes], merges: Sequence[tuple[bytes, bytes]]) -> None:
    """Check that merges produce every token, so that the setting ``ignore_merges`` has no effect. A token that is only found
    as a whole word is refused, because this package cuts text into parts smaller than words.
    """
    numbers = {token: 256 + place for place, token in enumerate(tokens)}
    words = [token for token in numbers if not is_character(token)]
    pairs = [(numbers[left], numbers[right]) for left, right in merges]
    results = [numbers[left + right] for left, right in merges]
    alphabet = {token: number for token, number in numbers.items() if is_character(token)}
    for word, ids in zip(words, merge_words(words, pairs, results, alphabet), strict=True):
        if len(ids) > 1:
            raise NotByteLevelError(f"its model has ignore_merges, and its merges do not make the token {word.decode()!r}")


def _byte_tokens_in(vocab: Mapping[str, int]) -> tuple[int, ...]:
    """Return the ids of the 256 byte tokens, or an empty tuple if the vocabulary has no byte tokens.

    If only some bytes lack a byte token, each of these gets the id of its ASCII character. This is correct because the byte
    occurs in no other character. An example is the tab in Gemma 1 and 2.
    """
    names = {byte: byte_token(byte) for byte in range(256)}
    if vocab.keys().isdisjoint(names.values()):
        return ()
    names |= {byte: chr(byte) for byte in range(0x80) if names[byte] not in vocab and chr(byte) in vocab}
    if missing := [name for name in names.values() if name not in vocab]:
        raise NotByteLevelError(f"its model has byte_fallback, but no token {missing[0]}")
    return tuple(vocab[name] for name in names.values())
