"""``tokenizer.model``, the file format of SentencePiece, with a model of the type BPE.

`to_tokenizer_json` returns the content of an equivalent ``tokenizer.json``, which `hf_sgpe.formats.tokenizer_json` reads. A
model is refused if no ``tokenizer.json`` could reproduce it exactly. SentencePiece calls tokens pieces. Its rules become
these parts of the ``tokenizer.json``:

- Merges: all pairs of pieces that join to a piece, in the order of the scores (`hf_sgpe.bpe.closed_pairs`).
- Added tokens: user-defined pieces. SentencePiece finds them before all other pieces and never merges them. It searches the
  text after spaces are replaced by U+2581. The leftmost match counts and, if several matches begin there, the longest of
  them. User-defined runs of U+2581 become merges instead of added tokens. These merges come before all others, ordered from
  the longest run to the shortest. With a dummy prefix, user-defined characters become tokens that no merge contains, because
  an added token would get a space after it (see below).
- Special tokens: control pieces. SentencePiece never finds them in text, but all loaders do.
- SentencePiece's own normalizer: a table such as NFKC. A ``tokenizer.json`` has no normalizer of this type, so a tokenizer
  with such a table can encode, but cannot be saved (`hf_sgpe.kernels.sentencepiece_library`).
- Prepend: the dummy prefix, a space that SentencePiece puts before a text, even if the text begins with a space. Prepend and
  the dummy prefix differ only in text with added tokens. Prepend is applied to each part between added tokens, as in
  transformers' converter and in llama.cpp. SentencePiece puts the dummy prefix only before the first part, even if this part
  is a user-defined piece.

Files are read with the ``sentencepiece`` package, which contains the definition of the file format. The package parses
32,000 pieces in two milliseconds, refuses damaged files and keeps unknown fields.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import Any

from hf_sgpe.bpe.closed_pairs import pairs_of
from hf_sgpe.errors import NotByteLevelError, SGPEError, optional
from hf_sgpe.files.folder_contents import FAIRSEQ_FILE
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.formats import model_vocab, sentencepiece_json
from hf_sgpe.formats.tokenizer_config import token_text
from hf_sgpe.kernels import sentencepiece_library
from hf_sgpe.splitting.normalization import Normalization
from hf_sgpe.vocabulary.byte_strings import SPACE_MARK
from hf_sgpe.vocabulary.special_tokens import bos_eos_template_of

logger = logging.getLogger(__name__)

MODEL_FILE = "tokenizer.model"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""The types of pieces, with the numbers that the file uses."""

_TYPES = {1: "Unigram", 3: "word", 4: "character"}
_NEED = "SentencePiece's tokenizer.model needs sentencepiece and protobuf"
_PACKAGES = ("sentencepiece", "protobuf")


def parsed(data: bytes, path: Path) -> Any:
    """Return the ``ModelProto`` of a ``tokenizer.model`` that SentencePiece can load. ``path`` is for error messages."""
    library = optional("sentencepiece", _NEED, *_PACKAGES, extra="sentencepiece")
    definition = optional("sentencepiece.sentencepiece_model_pb2", _NEED, *_PACKAGES, extra="sentencepiece")
    errors = optional("google.protobuf.message", _NEED, *_PACKAGES, extra="sentencepiece")
    try:
        model = definition.ModelProto.FromString(data)
        if not model.pieces:
            raise SGPEError("it has no pieces")
        if model.trainer_spec.model_type in _TYPES:
            kind = _TYPES[model.trainer_spec.model_type]
            raise NotByteLevelError(
                f"its model is {kind}, but only SentencePiece's BPE models are supported. To measure it with hf-sgpe "
                f"evaluate or extend it, save a tokenizer.json first: {_conversion(path)}"
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


def _conversion(path: Path) -> str:
    """Return a command that saves the tokenizer that transformers makes of a file's folder."""
    folder = str(path.parent)
    has_settings = any((path.parent / name).exists() for name in ("tokenizer_config.json", "config.json"))
    # Without settings, transformers looks for a file of this name.
    copy = "" if has_settings or path.name == MODEL_FILE else f"cp {quote(str(path))} {quote(f'{folder}/{MODEL_FILE}')} && "
    load = f"from transformers import AutoTokenizer as A; A.from_pretrained({folder!r}).save_pretrained({f'{folder}-hf'!r})"
    return f'{copy}python -c "{load}"'


def of_pieces(pieces: Iterable[tuple[str, float, int]], *, has_prefix: bool) -> bytes:
    """Return a ``tokenizer.model`` with pieces (text, score, type). All other settings are those of Llama 2."""
    definition = optional("sentencepiece.sentencepiece_model_pb2", _NEED, *_PACKAGES, extra="sentencepiece")
    model = definition.ModelProto()
    for text, score, kind in pieces:
        model.pieces.add(piece=text, score=score, type=kind)
    model.trainer_spec.model_type = 2
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = has_prefix
    model.normalizer_spec.remove_extra_whitespaces = False
    data: bytes = model.SerializeToString()
    return data


def to_tokenizer_json(data: bytes, path: Path, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a ``tokenizer.json`` that encodes text to the same ids as SentencePiece does with this ``tokenizer.model``.

    Args:
        settings: Content of the ``tokenizer_config.json`` in the same folder. It determines which special tokens are put
            before and after a text. With ``legacy: false``, the dummy prefix comes only before the first part of a text, and
            only if this part does not begin with a space.

    Raises:
        NotByteLevelError: no ``tokenizer.json`` would return the same ids. The message names the part of the model that
            prevents it.
    """
    model, settings = parsed(data, path), settings or {}
    if path.name == FAIRSEQ_FILE:
        problem = "the model has other ids than this file: add the tokenizer.json of its repository on the Hub to the folder"
        if path.with_name("vocab.json").is_file():
            problem = "M2M100 has its ids in vocab.json and has no tokenizer.json: use a model with one, such as NLLB"
        raise NotByteLevelError(f"{path}: {problem}")
    try:
        content = _content(model, settings)
    except NotByteLevelError as error:
        raise NotByteLevelError(f"{path}: {error}. Use the tokenizer of transformers instead: {_conversion(path)}") from None
    except SGPEError as error:
        raise type(error)(f"{path}: {error}") from None
    found = [token["content"] for token in content["added_tokens"] if not token["special"]]
    puts_spaces = _has_prefix(model, settings) and settings.get("legacy") is not False
    if found and puts_spaces and not settings.get("added_tokens_decoder"):
        logger.warning(
            "%s: after the user-defined piece %r, this tokenizer puts a space before the next word, as the legacy "
            "tokenizers of transformers do. SentencePiece itself and transformers 5 without settings do not",
            path,
            found[0],
        )
    return content


def _has_prefix(model: Any, settings: Mapping[str, Any]) -> bool:
    """Return whether a space is put before a text."""
    prefix = settings.get("add_prefix_space")
    return bool(model.normalizer_spec.add_dummy_prefix if prefix is None else prefix)


def _content(model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    kinds = [piece.type for piece in model.pieces]
    names = [piece.piece for piece in model.pieces]
    if len(set(names)) < len(names):
        raise NotByteLevelError(f"two of its pieces have the text {Counter(names).most_common(1)[0][0]!r}")
    if model.denormalizer_spec.precompiled_charsmap:
        raise NotByteLevelError("its decoder changes characters, but hf_sgpe supports no such decoder")
    if model.trainer_spec.treat_whitespace_as_suffix:
        raise NotByteLevelError(
            "its setting treat_whitespace_as_suffix puts spaces after words, but hf_sgpe supports only spaces before words"
        )
    if not model.normalizer_spec.escape_whitespaces:
        raise NotByteLevelError(
            "its setting escape_whitespaces is off, but hf_sgpe requires spaces that are written as U+2581"
        )
    vocab = {piece: id for id, piece in enumerate(names)}
    scheme = "metaspace"
    if prefix := _has_prefix(model, settings):
        scheme = "metaspace-first" if settings.get("legacy") is False else "metaspace-prefix"
    runs, found = _user_defined(
        [piece for piece, kind in zip(names, kinds, strict=True) if kind == USER_DEFINED],
        can_grow=SPACE_MARK in vocab,
        with_prefix=prefix,
        removes_spaces=model.normalizer_spec.remove_extra_whitespaces,
        changes_characters=bool(model.normalizer_spec.precompiled_charsmap),
    )
    added = {
        piece: _added_token(id, piece, normalized=found.get(piece, False), special=kind != USER_DEFINED)
        for id, (piece, kind) in enumerate(zip(names, kinds, strict=True))
        if kind in (UNKNOWN, CONTROL) or piece in found
    }
    # The merges that make the longest run come first. In text, a run then grows from the left.
    growing = [pair for run in reversed(runs) for pair in pairs_of(run, {SPACE_MARK, *runs})]
    return model_vocab.content_of(
        list((added | _more_added(settings, names)).values()),
        _around(model, scheme),
        _post_processor(model, vocab, settings),
        unk_token=names[kinds.index(UNKNOWN)],
        fuse_unk=True,
        byte_fallback=model.trainer_spec.byte_fallback,
        vocab=vocab,
        merges=[list(pair) for pair in (*growing, *_merges(model, vocab))],
    )


def _added_token(id: int, text: str, **flags: bool) -> dict[str, Any]:
    without = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": id, "content": text, **without, **flags}


def _more_added(settings: Mapping[str, Any], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return all added tokens of the settings as entries of a ``tokenizer.json``, keyed by text. Some are also pieces."""
    more: dict[str, dict[str, Any]] = {}
    for key, token in sorted((settings.get("added_tokens_decoder") or {}).items(), key=lambda item: int(item[0])):
        id, text = int(key), token["content"]
        if id < len(names) and names[id] != text:
            raise SGPEError(
                f"its piece with the id {id} is {names[id]!r}, but its tokenizer_config.json has {text!r} for this id: save "
                "the tokenizer with transformers to get a tokenizer.json"
            )
        flags = {name: bool(token.get(name)) for name in ("single_word", "lstrip", "rstrip", "special")}
        more[text] = _added_token(id, text, **flags, normalized=id >= len(names) and bool(token.get("normalized")))
    return more


def _user_defined(
    pieces: Sequence[str], *, can_grow: bool, with_prefix: bool, removes_spaces: bool, changes_characters: bool
) -> tuple[list[str], dict[str, bool]]:
    """Return the runs of U+2581 among the user-defined pieces that merges can make, and the other pieces, each with a flag:
    whether it is searched in normalized text.

    A piece with a space is in neither result. SentencePiece never finds such a piece, because SentencePiece replaces the
    spaces of a text before the search.
    """
    pieces = [piece for piece in pieces if " " not in piece]
    marked = [piece for piece in pieces if SPACE_MARK in piece]
    runs = sorted((piece for piece in marked if set(piece) == {SPACE_MARK} and len(piece) > 1), key=len)
    if pieces and changes_characters:
        raise NotByteLevelError(
            f"its normalizer changes characters, but not those of its user-defined piece {pieces[0]!r}: no tokenizer.json "
            "can do both"
        )
    if with_prefix and not marked and all(len(piece) == 1 for piece in pieces):
        return [], {}  # no merge contains them, so they need no search
    if pieces and with_prefix and removes_spaces:
        raise NotByteLevelError(
            f"it has the user-defined piece {pieces[0]!r} and a dummy prefix, and it removes extra spaces: no "
            "tokenizer.json can do all three"
        )
    # A run grows by one mark at a time. This makes the longest run only if there is a run of every length.
    if can_grow and len(runs) == len(marked) and [len(run) for run in runs] == [*range(2, len(runs) + 2)]:
        return runs, {piece: removes_spaces for piece in pieces if piece not in set(runs)}
    if marked and (with_prefix or removes_spaces):
        raise NotByteLevelError(
            f"its user-defined piece {marked[0]!r} contains a space: no tokenizer.json can find this piece in a text "
            "after a dummy prefix is added or spaces are removed"
        )
    return [], dict.fromkeys(pieces, bool(marked) or removes_spaces)


def _merges(model: Any, vocab: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield all pairs of pieces that join to a normal piece, in the order in which SentencePiece merges them."""
    kinds = {piece.piece: piece.type for piece in model.pieces}
    normal = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    frozen = {piece for piece, kind in kinds.items() if kind == USER_DEFINED}
    # SentencePiece also joins characters that are not pieces, or that occur only in control pieces.
    characters = {character for piece, kind in kinds.items() if kind in (NORMAL, UNUSED) for character in piece}
    parts = (normal.keys() | characters) - frozen
    made = {piece: pairs for piece in normal if len(piece) > 1 and (pairs := pairs_of(piece, parts))}
    for piece, kind in kinds.items():
        if kind == UNUSED and len(piece) > 1 and pairs_of(piece, parts):
            raise NotByteLevelError(
                f"SentencePiece merges the unused piece {piece!r} and then splits it again, which no tokenizer.json can do"
            )
    ordered = sorted(made, key=lambda piece: (-normal[piece], -len(piece), vocab[piece]))
    for _, group in groupby(ordered, key=normal.__getitem__):
        _check_equals(list(group), ordered)
    for piece in ordered:
        for left, right in made[piece]:
            if left not in vocab or right not in vocab:
                character = left if left not in vocab else right
                raise NotByteLevelError(
                    f"its piece {piece!r} contains the character {character!r}, but this character is not a piece, so a "
                    f"tokenizer.json cannot have merges for {piece!r}"
                )
            yield left, right


def _check_equals(equal: list[str], ordered: list[str]) -> None:
    """Check that the pieces with one score are runs of a character, which no other of the ``ordered`` pieces contains.

    Among equal scores, SentencePiece merges the leftmost piece of the text first, which no list of merges can express. The
    runs of spaces in Mistral's files have equal scores.
    """
    if len(equal) == 1:
        return
    others = [piece for piece in equal if len(set(piece)) > 1]
    if not others:
        doubled = {piece[0] * 2 for piece in equal}
        others = [piece for piece in ordered if piece not in equal and any(double in piece for double in doubled)]
    if others:
        raise NotByteLevelError(
            f"its pieces {equal[0]!r} and {equal[1]!r} have the same score, so their order depends on their positions in "
            f"a text. A tokenizer.json cannot express this order (it matters because of {others[0]!r})"
        )


def _around(model: Any, scheme: str) -> dict[str, Any]:
    """Return the normalizer, pre-tokenizer and decoder of the ``tokenizer.json``."""
    table = model.normalizer_spec.precompiled_charsmap
    # Of the normalizers of a tokenizer.json, Precompiled and NFKC differ from SentencePiece's table, so neither is exact.
    steps: list[Mapping[str, Any]] = [sentencepiece_library.normalizer(table)] if table else []
    removes_spaces = model.normalizer_spec.remove_extra_whitespaces
    if removes_spaces:
        # SentencePiece removes spaces at the beginning; at the end, where they are written as marks, it removes marks, too.
        # The regex looks for the end only once in a run, so its time is linear.
        steps += [
            {"type": "Replace", "pattern": {"Regex": rf"(?<![ {SPACE_MARK}])[ {SPACE_MARK}]+\z|\A +"}, "content": ""},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]
    # If extra spaces are removed, text has no space at the beginning, so decoding removes one, also without a dummy prefix.
    stripping = "one" if removes_spaces or Normalization(scheme).puts_space else "none"
    return sentencepiece_json.as_content(
        Normalization.of(scheme, steps), stripping=stripping, has_bytes=model.trainer_spec.byte_fallback
    )


def _post_processor(model: Any, vocab: Mapping[str, int], settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the post-processor that adds the BOS and EOS tokens that the settings require, or None if they require neither.

    The classes of Llama and Gemma put a BOS token before a text unless ``add_bos_token`` is false.
    """
    puts_bos = str(settings.get("tokenizer_class", "")).startswith(("Llama", "CodeLlama", "Gemma"))
    around: dict[str, str] = {}
    for role, default in (("bos", puts_bos), ("eos", False)):
        if not settings.get(f"add_{role}_token", default):
            continue
        token = token_text(settings.get(f"{role}_token")) or getattr(model.trainer_spec, f"{role}_piece")
        if token not in vocab:
            raise SGPEError(
                f"its tokenizer_config.json requires the {role} token {token!r}, but this token is not one of its pieces"
            )
        around[f"{role}_token"] = token
    template = bos_eos_template_of(around)
    return template.as_post_processor(vocab) if template else None
