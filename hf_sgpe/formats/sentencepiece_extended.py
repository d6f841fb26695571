"""A ``tokenizer.model`` for an extended tokenizer, created from the file of the base tokenizer.

An extended tokenizer is a base tokenizer with more tokens. SentencePiece calls tokens pieces. The id of a piece is its
position in the file, so every id up to the highest id needs a piece. SentencePiece merges pieces with higher scores first,
so the pieces that merges produce get falling scores, in the order of the merges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from hf_sgpe.bpe.closed_pairs import check_closed, in_order
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.sentencepiece_model import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, parsed
from hf_sgpe.vocabulary.byte_strings import SPACE_MARK, string_to_text, text_to_string
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


class _Piece(NamedTuple):
    text: str
    kind: int
    score: float = 0.0


def extended(base: bytes, path: Path, tokenizer: TokenizerData) -> bytes:
    """Return a ``tokenizer.model`` with which SentencePiece returns the same ids as an extended tokenizer.

    New tokens become normal pieces, new special tokens become control pieces, and other new added tokens become user-defined
    pieces. A new token may have the id of an old piece that was reserved for such use. In this case, the new token replaces
    the old piece. Ids without a token become control pieces, because SentencePiece never finds control pieces in text.

    Old pieces keep their types, with one exception: if a user-defined piece contains spaces and is an ordinary token, it
    becomes a normal piece. Examples are Gemma's runs of spaces. The reason is that a ``tokenizer.json`` makes these tokens
    by merges, in the order of their ranks.

    Three differences between SentencePiece and the ``tokenizer.json`` remain. The base tokenizer has the same differences.
    First, SentencePiece finds no special tokens in text. Second, if a text has user-defined pieces of several characters,
    SentencePiece puts its dummy prefix only before the first part of the text. Third, SentencePiece reads U+2581 as a space,
    even next to spaces.

    Args:
        base: The base tokenizer's ``tokenizer.model``.
        path: Path of that file, for error messages.
        tokenizer: The extended tokenizer. Its merges must contain every pair of tokens that joins to a token (see
            `hf_sgpe.bpe.closed_pairs.closed`).
    """
    model = parsed(base, path)
    pieces = _pieces(model, tokenizer)
    ids: dict[str, int] = {}
    for id, piece in enumerate(pieces):
        if (first := ids.setdefault(piece.text, id)) != id:
            raise SGPEError(
                f"the ids {first} and {id} would both be written as {piece.text!r} in a tokenizer.model, but it can contain "
                "only one of them: give the added token another text"
            )
    if tokenizer.splitting.cuts_at_spaces and (right := next((b for _, b in tokenizer.merges if b[:1] == b" "), None)):
        raise SGPEError(
            f"SentencePiece would merge across the start of {right.decode()!r}, but the tokenizer.json splits text there"
        )
    merges = _joined(pieces, tokenizer.merges)
    return _written(model, _scored(pieces, merges))


def renumbered(base: bytes, path: Path, ids: Mapping[int, int]) -> bytes:
    """Return a ``tokenizer.model`` with only the pieces in ``ids``. The new ids there must have no gaps, and be in the order
    of the old ids.
    """
    model = parsed(base, path)
    old = [_Piece(piece.piece, piece.type, piece.score) for piece in model.pieces]
    return _written(model, [old[id] for id in sorted(ids) if id < len(old)])


def _pieces(model: Any, tokenizer: TokenizerData) -> list[_Piece]:
    """Return one piece for each id, in the order of the ids. Old pieces keep their scores."""
    old = [_Piece(piece.piece, piece.type, piece.score) for piece in model.pieces]
    kinds = ((tokenizer.added_tokens, USER_DEFINED), (tokenizer.special_tokens, CONTROL))
    new = {id: _Piece(text.replace(" ", SPACE_MARK), kind) for tokens, kind in kinds for text, id in tokens.items()}
    new |= {id: _Piece(text_to_string(token), NORMAL, -inf) for token, id in tokenizer.vocab.items()}
    taken = {piece.text for piece in chain(old, new.values())}
    pieces: list[_Piece] = []
    for id in range(max(len(old), max(new, default=-1) + 1)):
        piece = _piece(old[id] if id < len(old) else None, new.get(id))
        if piece is None:
            placeholder = f"<no_token_{id}>"
            while placeholder in taken:
                placeholder += ">"
            piece = _Piece(placeholder, CONTROL)
        pieces.append(piece)
    return pieces


def _piece(before: _Piece | None, after: _Piece | None) -> _Piece | None:
    """Return the piece of one id in the new file, given that in the base tokenizer and that for the token of the extended
    tokenizer. Return None if there is neither of them, or if an ordinary token was removed.
    """
    if before is None or before.kind in (BYTE, UNKNOWN):
        return before or after
    if after is None:
        return None if before.kind == NORMAL else before
    if after.text != before.text:
        return after
    is_merged = before.kind == USER_DEFINED and after.kind == NORMAL and SPACE_MARK in before.text
    return before._replace(kind=NORMAL) if is_merged else before


def _joined(pieces: Sequence[_Piece], merges: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the merges without those that make user-defined pieces, which SentencePiece finds before merging. Check that
    SentencePiece would apply these merges and no others.
    """
    normal = {string_to_text(piece.text) for piece in pieces if piece.kind == NORMAL}
    found = {string_to_text(piece.text) for piece in pieces if piece.kind == USER_DEFINED}
    joined = [(left, right) for left, right in merges if left + right not in found]
    if wrong := next((pair for pair in joined if not found.isdisjoint(pair)), None):
        raise SGPEError(
            f"SentencePiece never merges {wrong[0].decode()!r} and {wrong[1].decode()!r}, because one of them is a "
            "user-defined piece"
        )
    # SentencePiece also joins characters that are not pieces.
    characters = {character.encode() for token in normal for character in token.decode()}
    check_closed(joined, (normal | characters) - found)
    return joined


def _scored(pieces: Sequence[_Piece], merges: Sequence[tuple[bytes, bytes]]) -> list[_Piece]:
    """Return the pieces with the scores 0, -1, -2 and so on for all normal pieces: first those that merges make, in their
    order, then the others, in the order of their old scores.
    """
    made = dict.fromkeys(map(text_to_string, in_order(merges)))
    rest = sorted(
        (piece for piece in pieces if piece.kind == NORMAL and piece.text not in made), key=lambda piece: -piece.score
    )
    scores = {text: -float(place) for place, text in enumerate((*made, *(piece.text for piece in rest)))}
    return [piece._replace(score=scores[piece.text]) if piece.kind == NORMAL else piece for piece in pieces]


def _written(model: Any, pieces: Sequence[_Piece]) -> bytes:
    result = type(model)()
    result.CopyFrom(model)
    # The self-test samples of the base tokenizer now consist of other pieces. Only some versions of the file's definition
    # have this field.
    result.DiscardUnknownFields()
    if "self_test_data" in result.DESCRIPTOR.fields_by_name:
        result.ClearField("self_test_data")
    del result.pieces[:]
    for piece in pieces:
        result.pieces.add(piece=piece.text, score=piece.score, type=piece.kind)
    result.trainer_spec.vocab_size = len(pieces)
    return bytes(result.SerializeToString())
