"""The ids of a text, and the range of characters that each id covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hf_sgpe.splitting.normalization import NONE, Normalization, aligned
from hf_sgpe.vocabulary.added_patterns import AddedPattern, AddedPatterns, Found
from hf_sgpe.vocabulary.codec import Codec

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode_with_offsets(codec: Codec, text: str, added: AddedPatterns | None) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the ids of ``text`` and, for each id, the index of its first character and the index after its last."""
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    position = 0
    # Each part between tokens that are matched before normalization is normalized by itself.
    for start, stop, name in (*(added.first.find(text) if added else ()), Found(len(text), len(text), "")):
        if position < start:
            new, places = _encode_part(codec, text[position:start], added, is_first=position == 0)
            ids += new
            offsets += zip(*(places + position).T.tolist(), strict=True)
        if name:
            ids.append(codec.added_tokens[name])
            offsets.append((start, stop))
        position = stop
    return ids, offsets


def _encode_part(
    codec: Codec, text: str, added: AddedPatterns | None, *, is_first: bool
) -> tuple[list[int], NDArray[np.int32]]:
    normalization = codec.normalization if is_first else codec.normalization.later
    matched, rest = normalization.in_two
    if added and added.then and (added.then.matching or rest != NONE):
        normalized, origins = aligned(text, matched)
        ids, places = _encode_around(codec, normalized, added.then, rest)
    else:
        normalized, origins = aligned(text, normalization)
        ids = codec.encode(text, added and added.later, continues=normalization != codec.normalization)
        places = codec.offsets(np.array(ids, dtype=np.int32), normalized)
    return ids, _in_origin(places, origins)


def _encode_around(
    codec: Codec, text: str, added: AddedPattern, normalization: Normalization
) -> tuple[list[int], NDArray[np.int32]]:
    """Return the ids and offsets of a normalized text with added tokens, if these include white space around them, or if a
    space is put before each part between them. ``normalization`` is applied to these parts.
    """
    ids: list[int] = []
    places = [np.zeros((0, 2), np.int32)]
    position = 0
    for start, stop, name in (*added.find(text), Found(len(text), len(text), "")):
        if position < start:
            part, origins = aligned(text[position:start], normalization.later if position else normalization)
            new = codec.encode_normalized(part)
            places.append(_in_origin(codec.offsets(np.array(new, dtype=np.int32), part), origins) + position)
            ids += new
        if name:
            ids.append(codec.added_tokens[name])
            places.append(np.array([[start, stop]], np.int32))
        position = stop
    return ids, np.concatenate(places)


def _in_origin(places: NDArray[np.int32], origins: tuple[NDArray[np.int32], NDArray[np.int32]] | None) -> NDArray[np.int32]:
    """Convert ranges in a normalized text to ranges in the original text, by the result of `aligned`."""
    if origins is None:
        return places
    first, last = places.T
    return np.stack([origins[0][first], origins[1][last - 1]], axis=1)
