"""``tokenizer.model``, SentencePiece's own file, of the type BPE.

`tokenizer_json` returns the content of an equivalent ``tokenizer.json``, which `hf_sgpe.formats.tokenizer_json` reads, and
`extended` a file for an extended tokenizer. A model that no ``tokenizer.json`` could reproduce exactly is refused.

SentencePiece's semantics, in the words of ``tokenizer.json``:

- Merges are all pairs of pieces that make a piece, in the order of the scores (`hf_sgpe.bpe.closed_pairs`).
- User-defined pieces are found before everything else, the longest at the leftmost place, in text that already has U+2581 for
  spaces; they are never joined. They become added tokens. Runs of U+2581 become the first merges, the longest run first.
- Control pieces are never found in text. Loaders find them, so they become special tokens.
- The dummy prefix is put before the text, also if it begins with a space: the normalizer Prepend. In a text with added tokens,
  Prepend puts it before each part, as the converter of transformers and llama.cpp do, and SentencePiece before the first part,
  also if that is a user-defined piece.

The package ``sentencepiece`` has the definition of the file. It parses 32,000 pieces in two milliseconds, refuses damaged
files and keeps fields that it does not know, so this module has no reader of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from hf_sgpe.bpe.closed_pairs import pairs_of
from hf_sgpe.errors import NotByteLevelError, SGPEError, optional
from hf_sgpe.files.unreadable import check_no_pointer

MODEL_FILE = "tokenizer.model"
SPACE_MARK = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""The types of pieces, as the file has them."""

_TYPES = {1: "Unigram", 3: "word", 4: "character"}
_NEED = "SentencePiece's tokenizer.model needs sentencepiece and protobuf"
_PACKAGES = ("sentencepiece", "protobuf")


def parsed(data: bytes, path: Path) -> Any:
    """Return the ``ModelProto`` of a file's bytes, if SentencePiece loads it and it is of the type BPE.

    Args:
        path: The file, for error messages.

    Raises:
        SGPEError: the file is damaged, or has a model of another type.
        NotInstalledError: sentencepiece or protobuf is not installed.
    """
    library = optional("sentencepiece", _NEED, *_PACKAGES, extra="sentencepiece")
    definition = optional("sentencepiece.sentencepiece_model_pb2", _NEED, *_PACKAGES, extra="sentencepiece")
    errors = optional("google.protobuf.message", _NEED, *_PACKAGES, extra="sentencepiece")
    try:
        model = definition.ModelProto.FromString(data)
        if not model.pieces:
            raise SGPEError("it has no pieces")
        if model.trainer_spec.model_type in _TYPES:
            raise NotByteLevelError(
                f"its model is {_TYPES[model.trainer_spec.model_type]}, and only SentencePiece's BPE models are supported: "
                "choose a base with BPE, such as Gemma, Llama 2 or Mistral"
            )
        library.SentencePieceProcessor(model_proto=data)
    except SGPEError as error:
        raise type(error)(f"{path}: {error}") from None
    except (errors.DecodeError, RuntimeError, ValueError) as error:
        if path.is_file():
            check_no_pointer(path)
        reason = str(error).strip().splitlines()[-1:]
        raise SGPEError(f"{path}: damaged or not SentencePiece's file{''.join(f' ({line})' for line in reason)}") from None
    return model


def tokenizer_json(data: bytes, path: Path, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the content of a ``tokenizer.json`` with the same ids as SentencePiece.

    Args:
        data: Content of the ``tokenizer.model``.
        path: The file, for error messages.
        settings: Content of the ``tokenizer_config.json`` in the same folder, which decides on the tokens around a text, and
            with ``legacy: false`` on the dummy prefix: before the first part of a text, unless it begins with a space.

    Raises:
        SGPEError: the file is damaged.
        NotByteLevelError: no ``tokenizer.json`` would return the same ids; the message names the part.
        NotInstalledError: sentencepiece or protobuf is not installed.
    """
    model = parsed(data, path)
    try:
        return _content(model, settings or {})
    except SGPEError as error:
        raise type(error)(f"{path}: {error}") from None


def _content(model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    pieces = [(piece.piece, piece.type) for piece in model.pieces]
    vocab = {piece: id for id, (piece, _) in enumerate(pieces)}
    if len(vocab) < len(pieces):
        raise NotByteLevelError(f"two of its pieces are {Counter(piece for piece, _ in pieces).most_common(1)[0][0]!r}")
    _check_normalizer(model)
    prefix = settings.get("add_prefix_space")
    prefix = model.normalizer_spec.add_dummy_prefix if prefix is None else bool(prefix)
    is_legacy = settings.get("legacy") is not False
    runs, found = _user_defined(
        [piece for piece, kind in pieces if kind == USER_DEFINED], can_grow=SPACE_MARK in vocab, with_prefix=prefix
    )
    unknown = next(piece for piece, kind in pieces if kind == UNKNOWN)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": id,
                "content": piece,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": found.get(piece, False),
                "special": kind != USER_DEFINED,
            }
            for id, (piece, kind) in enumerate(pieces)
            if kind in (UNKNOWN, CONTROL) or piece in found
        ],
        "normalizer": _normalizer(model.normalizer_spec, prefix=prefix and is_legacy, marks=is_legacy or not prefix),
        "pre_tokenizer": None
        if is_legacy or not prefix
        else {"type": "Metaspace", "replacement": SPACE_MARK, "prepend_scheme": "first", "split": False},
        "post_processor": _template(model, vocab, settings),
        "decoder": _decoder(model, prefix=prefix),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": unknown,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": model.trainer_spec.byte_fallback,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(pair) for pair in (*_growing(runs), *_merges(model, vocab))],
        },
    }


def _check_normalizer(model: Any) -> None:
    """Check that the normalizer changes only spaces.

    Raises:
        NotByteLevelError: it does more.
    """
    spec = model.normalizer_spec
    if spec.precompiled_charsmap:
        # On the same charsmap, the normalizer Precompiled differs from SentencePiece in combining marks (e + U+0301 + U+0323),
        # and NFKC in 171 characters, so neither is exact.
        raise NotByteLevelError(
            f"its normalizer {spec.name or 'is a table that'} changes characters, and only the normalizer identity is "
            "supported: choose a base with the normalizer identity, such as Gemma, Llama 2 or Mistral"
        )
    if model.denormalizer_spec.precompiled_charsmap:
        raise NotByteLevelError("its decoder changes characters, which hf_sgpe does not support")
    if model.trainer_spec.treat_whitespace_as_suffix:
        raise NotByteLevelError("it writes spaces after words (treat_whitespace_as_suffix), which hf_sgpe does not support")
    if not spec.escape_whitespaces:
        raise NotByteLevelError("it does not write spaces as U+2581 (escape_whitespaces), which hf_sgpe requires")


def _user_defined(pieces: list[str], *, can_grow: bool, with_prefix: bool) -> tuple[list[str], dict[str, bool]]:
    """Return the user-defined pieces that are runs of U+2581, and for each other one whether to find it after normalization.

    A piece with a space is in neither: SentencePiece never finds it, since text has no spaces then.
    """
    pieces = [piece for piece in pieces if " " not in piece]
    marked = [piece for piece in pieces if SPACE_MARK in piece]
    runs = sorted((piece for piece in marked if set(piece) == {SPACE_MARK} and len(piece) > 1), key=len)
    # A run grows by one mark at a time, which gives the longest one only if there is one of each length.
    can_grow = can_grow and len(runs) == len(marked)
    if not marked or can_grow and [len(run) for run in runs] == [*range(2, len(runs) + 2)]:
        return runs, {piece: False for piece in pieces if piece not in set(runs)}
    if with_prefix:
        raise NotByteLevelError(
            f"its user-defined piece {marked[0]!r} has a space, which a tokenizer.json cannot find in text with a dummy prefix"
        )
    return [], dict.fromkeys(pieces, True)


def _growing(runs: list[str]) -> Iterator[tuple[str, str]]:
    """Yield merges by which a run of marks grows from the left, the longest first."""
    for run in reversed(runs):
        yield run[:-1], run[-1]


def _merges(model: Any, vocab: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield all pairs of pieces that make a normal piece, in SentencePiece's order.

    Raises:
        NotByteLevelError: no list of merges has this order.
    """
    kinds = {piece.piece: piece.type for piece in model.pieces}
    normal = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    frozen = {piece for piece, kind in kinds.items() if kind == USER_DEFINED}
    # SentencePiece also joins characters that are not pieces, or that only control pieces have.
    characters = {character for piece, kind in kinds.items() if kind in (NORMAL, UNUSED) for character in piece}
    parts = (normal.keys() | characters) - frozen
    made = {piece: pairs for piece in normal if len(piece) > 1 and (pairs := pairs_of(piece, parts))}
    for piece, kind in kinds.items():
        if kind == UNUSED and len(piece) > 1 and pairs_of(piece, parts):
            raise NotByteLevelError(
                f"its unused piece {piece!r} is joined and cut again in encoding, which a tokenizer.json cannot do"
            )
    ordered = sorted(made, key=lambda piece: (-normal[piece], -len(piece), vocab[piece]))
    for _, group in groupby(ordered, key=normal.__getitem__):
        _check_equals(list(group), ordered)
    for piece in ordered:
        for left, right in made[piece]:
            if left not in vocab or right not in vocab:
                character = left if left not in vocab else right
                raise NotByteLevelError(
                    f"its piece {piece!r} has the character {character!r}, which is not a piece, so a tokenizer.json cannot "
                    "have merges for it"
                )
            yield left, right


def _check_equals(equal: list[str], ordered: list[str]) -> None:
    """Check that pieces with the same score are runs of characters, which grow from the left in the order of their lengths.

    The runs of spaces in Mistral's files have equal scores.

    Raises:
        NotByteLevelError: they are other pieces, so the leftmost pair would come first.
    """
    if len(equal) == 1:
        return
    others = [piece for piece in equal if len(set(piece)) > 1]
    if not others:
        doubled = {piece[0] * 2 for piece in equal}
        others = [piece for piece in ordered if piece not in equal and any(double in piece for double in doubled)]
    if others:
        raise NotByteLevelError(
            f"its pieces {equal[0]!r} and {equal[1]!r} have the same score, so that their order in a text depends on their "
            f"places, which a tokenizer.json cannot express (it matters because of {others[0]!r})"
        )


def _normalizer(spec: Any, *, prefix: bool, marks: bool) -> dict[str, Any] | None:
    steps: list[dict[str, Any]] = []
    if spec.remove_extra_whitespaces:
        # SentencePiece removes spaces at the beginning; at the end, where they are written as marks, it removes marks, too.
        steps.append({"type": "Replace", "pattern": {"Regex": rf"\A +|[ {SPACE_MARK}]+\z"}, "content": ""})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if prefix:
        steps.append({"type": "Prepend", "prepend": SPACE_MARK})
    if marks:
        steps.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK})
    if len(steps) < 2:
        return steps[0] if steps else None
    return {"type": "Sequence", "normalizers": steps}


def _decoder(model: Any, *, prefix: bool) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": SPACE_MARK}, "content": " "}]
    if model.trainer_spec.byte_fallback:
        steps.append({"type": "ByteFallback"})
    steps.append({"type": "Fuse"})
    if prefix or model.normalizer_spec.remove_extra_whitespaces:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}


def _template(model: Any, vocab: Mapping[str, int], settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the template with the tokens that the settings ask for, or None.

    The classes of Llama and Gemma put a BOS token before a text unless ``add_bos_token`` is false.
    """
    is_known = str(settings.get("tokenizer_class", "")).startswith(("Llama", "CodeLlama", "Gemma"))
    around = {
        role: _named(settings.get(f"{role}_token")) or getattr(model.trainer_spec, f"{role}_piece")
        for role, default in (("bos", is_known), ("eos", False))
        if settings.get(f"add_{role}_token", default)
    }
    if not around:
        return None
    for role, token in around.items():
        if token not in vocab:
            raise SGPEError(f"its tokenizer_config.json asks for the {role} token {token!r}, which is not one of its pieces")

    def part(text: str, kind: int) -> list[dict[str, Any]]:
        items = [{"Sequence": {"id": text, "type_id": kind}}]
        named = {role: [{"SpecialToken": {"id": token, "type_id": kind}}] for role, token in around.items()}
        return [*named.get("bos", ()), *items, *named.get("eos", ())]

    return {
        "type": "TemplateProcessing",
        "single": part("A", 0),
        "pair": [*part("A", 0), *part("B", 1)],
        "special_tokens": {token: {"id": token, "ids": [vocab[token]], "tokens": [token]} for token in around.values()},
    }


def _named(token: Any) -> str | None:
    """Return the text of a special token in the settings, which is a string or an object."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
