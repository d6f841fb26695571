"""A ``tokenizer.model`` for an extended tokenizer, made from the base's.

SentencePiece takes the order of merges from the scores of the pieces, and ids from their places. So each piece that a merge
makes gets a score that falls with the place of its first merge, and every id below the last one gets a piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hf_sgpe.bpe.closed_pairs import check_closed
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.sentencepiece_model import BYTE, CONTROL, NORMAL, SPACE_MARK, UNKNOWN, UNUSED, USER_DEFINED, parsed


class _Piece(NamedTuple):
    text: str
    kind: int
    score: float = 0.0


def extended(
    base: bytes,
    path: Path,
    vocab: Mapping[bytes, int],
    merges: Sequence[tuple[bytes, bytes]],
    *,
    special_tokens: Mapping[str, int] | None = None,
    added_tokens: Mapping[str, int] | None = None,
) -> bytes:
    """Return the content of a ``tokenizer.model`` with the ids of an extended tokenizer.

    Old pieces keep their types. A token with an id that is no piece of the base, or another piece (a reserved one that the
    token replaces), becomes a normal piece; a new special token becomes a control piece, and another added token a
    user-defined piece. An id without a token becomes a control piece, which SentencePiece never finds in text.

    Args:
        base: Content of the base's ``tokenizer.model``.
        path: The base's file, for error messages.
        vocab: Token → id of the extended tokenizer, without byte tokens. A token is UTF-8 with spaces for U+2581.
        merges: Pairs of tokens in the order of their ranks.
        special_tokens: Text → id.
        added_tokens: Text → id of the other added tokens.

    Raises:
        SGPEError: SentencePiece would return other ids (see `check_closed`), or two tokens need the same piece.
        NotInstalledError: sentencepiece or protobuf is not installed.
    """
    model = parsed(base, path)
    names = {id: token.decode().replace(" ", SPACE_MARK) for token, id in vocab.items()}
    special = {id: text.replace(" ", SPACE_MARK) for text, id in (special_tokens or {}).items()}
    added = {id: text.replace(" ", SPACE_MARK) for text, id in (added_tokens or {}).items()}
    old = [_Piece(piece.piece, piece.type, piece.score) for piece in model.pieces]
    taken = {*names.values(), *special.values(), *added.values(), *(piece.text for piece in old)}
    pieces: list[_Piece] = []
    for id in range(max(len(old), *(max(tokens, default=-1) + 1 for tokens in (names, special, added)))):
        piece = old[id] if id < len(old) else None
        if piece is not None and (piece.kind in (BYTE, UNKNOWN) or piece.text in (names.get(id), added.get(id))):
            pieces.append(piece)
        elif id in names:
            pieces.append(_Piece(names[id], NORMAL))
        elif id in special:
            pieces.append(_Piece(special[id], CONTROL))
        elif id in added:
            pieces.append(_Piece(added[id], USER_DEFINED))
        elif piece is not None and piece.kind in (CONTROL, UNUSED):
            pieces.append(piece)
        else:
            pieces.append(_Piece(_unused_name(id, taken), CONTROL))
    _check_texts(pieces)
    frozen = {piece.text for piece in pieces if piece.kind != NORMAL}
    joined = [pair for pair in merges if not {_marked(pair[0]), _marked(pair[1]), _marked(pair[0] + pair[1])} & frozen]
    _check_joined(pieces, joined)
    return _written(model, pieces, _scores(pieces, joined))


def _marked(token: bytes) -> str:
    return token.decode().replace(" ", SPACE_MARK)


def _unused_name(id: int, taken: set[str]) -> str:
    """Return a text for an id without a token that no token has, and add it to ``taken``."""
    name = f"<unused_id_{id}>"
    while name in taken:
        name += ">"
    taken.add(name)
    return name


def _check_texts(pieces: Sequence[_Piece]) -> None:
    """Check that no two pieces have the same text.

    Raises:
        SGPEError: two have.
    """
    ids: dict[str, int] = {}
    for id, piece in enumerate(pieces):
        if (first := ids.setdefault(piece.text, id)) != id:
            raise SGPEError(
                f"the ids {first} and {id} are both written {piece.text!r} in a tokenizer.model, which can hold only one of "
                "them: give the added token another text"
            )


def _check_joined(pieces: Sequence[_Piece], merges: Sequence[tuple[bytes, bytes]]) -> None:
    """Check that SentencePiece would join exactly the merges. It also joins characters that only control pieces have."""
    check_closed(merges, {piece.text.replace(SPACE_MARK, " ").encode() for piece in pieces if piece.kind == NORMAL})


def _scores(pieces: Sequence[_Piece], merges: Sequence[tuple[bytes, bytes]]) -> dict[str, float]:
    """Return the score of each normal piece: from 0 down, in the order of the merges, then of the old scores."""
    order = dict.fromkeys(_marked(left + right) for left, right in merges)
    rest = [piece for piece in pieces if piece.kind == NORMAL and piece.text not in order]
    rest.sort(key=lambda piece: -piece.score)
    return {text: -float(place) for place, text in enumerate((*order, *(piece.text for piece in rest)))}


def _written(model: Any, pieces: Sequence[_Piece], scores: Mapping[str, float]) -> bytes:
    kind = type(model)
    result = kind()
    result.CopyFrom(model)
    result.DiscardUnknownFields()  # its self-test expects the base's pieces
    del result.pieces[:]
    for piece in pieces:
        result.pieces.add(piece=piece.text, score=scores.get(piece.text, piece.score), type=piece.kind)
    result.trainer_spec.vocab_size = len(pieces)
    return bytes(result.SerializeToString())
