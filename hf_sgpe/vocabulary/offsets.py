"""The ids of a text with the range of the characters that each id covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hf_sgpe.splitting.normalization import aligned, later
from hf_sgpe.vocabulary.added_patterns import AddedPattern, AddedPatterns, Found
from hf_sgpe.vocabulary.codec import Codec

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode_with_offsets(codec: Codec, text: str, added: AddedPatterns | None) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the ids of ``text``, and for each id the first character that it covers and the character after the last."""
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
    normalization = codec.normalization if is_first else later(codec.normalization)
    normalized, origins = aligned(text, normalization)
    if added and added.then and (added.then.matching or codec.by_characters):
        ids, places = _encode_around(codec, normalized, added.then)
    else:
        ids = codec.encode(text, added and added.later, continues=normalization != codec.normalization)
        places = codec.offsets(np.array(ids, dtype=np.int32), normalized)
    if origins is not None:
        first, last = places.T
        places = np.stack([origins[0][first], origins[1][last - 1]], axis=1)
    return ids, places


def _encode_around(codec: Codec, text: str, added: AddedPattern) -> tuple[list[int], NDArray[np.int32]]:
    """Return the ids and offsets of a normalized text. In this text, added tokens include the white space around them."""
    ids: list[int] = []
    places = [np.zeros((0, 2), np.int32)]
    position = 0
    for start, stop, name in (*added.find(text), Found(len(text), len(text), "")):
        if between := text[position:start]:
            new = codec.encode(between, None, continues=True)
            places.append(codec.offsets(np.array(new, dtype=np.int32), between) + position)
            ids += new
        if name:
            ids.append(codec.added_tokens[name])
            places.append(np.array([[start, stop]], np.int32))
        position = stop
    return ids, np.concatenate(places)
