"""Preparation of text for splitting: replacement of lone surrogates, and optional normalization.

A tokenizer converted from SentencePiece has one of `METASPACES`. All of these replace U+2581 by a space: such a tokenizer
writes a space as U+2581, so it cannot distinguish U+2581 from a space. Some also put a space before the text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import regex

from hf_sgpe import kernels
from hf_sgpe.kernels import tokenizers_library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NORMALIZATIONS = ("none", "nfc")
"""The normalizations that training can use."""

METASPACES = ("metaspace", "metaspace-prefix", "metaspace-always", "metaspace-first")
"""The normalizations of tokenizers converted from SentencePiece.

``metaspace`` puts no space before a text (Gemma). ``metaspace-prefix`` puts a space before each part between added tokens
(Llama 2). ``metaspace-always`` is the same, but puts no space before parts that begin with a space. ``metaspace-first`` is
like ``metaspace-always``, but only for the first part."""


def well_formed(text: str) -> str:
    r"""Return ``text`` as valid Unicode: replace lone surrogates by U+FFFD, and join surrogate pairs to characters.

    >>> well_formed("a\ud800 \ud83d\ude00")
    'a� 😀'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def prepare(text: str, normalization: str) -> str:
    r"""Prepare a text for a tokenizer's split regexes. `well_formed` makes the text valid, and then the text is normalized.

    NFC follows the Unicode version of the ``tokenizers`` library, which differs from Python's.

    Args:
        normalization: One of `NORMALIZATIONS` or `METASPACES`.

    >>> prepare("e\u0301 \ud800", "nfc")
    'é �'
    >>> prepare("a\u2581b", "metaspace-prefix")
    ' a b'
    """
    if normalization in METASPACES:
        return _space_before(text, normalization) + well_formed(text).replace("\u2581", " ")
    if text.isascii():
        return text
    if normalization == "none":
        return well_formed(text)
    if not kernels.is_native():
        return _normalized(text)
    import hf_sgpe._native as _native

    pieces, position = [], 0
    for start, end in _native.nfc_spans(text):
        stretch = text[start:end]
        pieces += [text[position:start], _short_nfc(stretch) if len(stretch) < 16 else _normalized(stretch)]
        position = end
    return "".join([*pieces, text[position:]]) if pieces else text


def aligned(text: str, normalization: str) -> tuple[str, tuple[NDArray[np.int32], NDArray[np.int32]] | None]:
    r"""Prepare a text as `prepare` does, and align it to the original text. Time is linear in the length of the text.

    Returns:
        The prepared text and its alignment. The alignment is two arrays: for each character of the prepared text, the start
        and the end of its span in the original text. Characters that were normalized together have the same span. The
        alignment is None if nothing changed.

    >>> text, (first, last) = aligned("ae\u0301", "nfc")
    >>> text, first.tolist(), last.tolist()
    ('aé', [0, 1], [1, 3])
    """
    import numpy as np

    if normalization in METASPACES:
        return _aligned_to_metaspace(text, normalization)
    prepared = prepare(text, normalization)
    if prepared == text:
        return text, None
    spans = [(0, len(text))]
    if kernels.is_native():
        import hf_sgpe._native as _native

        spans = _native.nfc_spans(text) if normalization == "nfc" else spans
    pieces: list[str] = []
    firsts: list[NDArray[np.int32]] = []
    lasts: list[NDArray[np.int32]] = []
    position = 0

    def add(start: int, stop: int, piece: str) -> None:
        pieces.append(piece)
        if piece == text[start:stop]:
            firsts.append(np.arange(start, stop, dtype=np.int32))
            lasts.append(firsts[-1] + 1)
        else:
            firsts.append(np.full(len(piece), start, np.int32))
            lasts.append(np.full(len(piece), stop, np.int32))

    for start, stop in spans:
        add(position, start, text[position:start])
        # Normalization changes characters only within their grapheme clusters.
        clusters = regex.finditer(r"[\ud800-\udbff][\udc00-\udfff]|\X", text[start:stop])
        for cluster in clusters:
            add(start + cluster.start(), start + cluster.end(), prepare(cluster.group(), normalization))
        position = stop
    add(position, len(text), text[position:])
    if "".join(pieces) != prepared:
        return prepared, (np.zeros(len(prepared), np.int32), np.full(len(prepared), len(text), np.int32))
    return prepared, (np.concatenate(firsts), np.concatenate(lasts))


def later(normalization: str) -> str:
    """Return the normalization for all parts of a text except the first part."""
    return "metaspace" if normalization == "metaspace-first" else normalization


def _space_before(text: str, normalization: str) -> str:
    if not text or normalization == "metaspace":
        return ""
    return " " if normalization == "metaspace-prefix" or text[0] not in " \u2581" else ""


def _aligned_to_metaspace(text: str, normalization: str) -> tuple[str, tuple[NDArray[np.int32], NDArray[np.int32]] | None]:
    import numpy as np

    same, origins = aligned(text, "none")
    first, last = origins or (places := np.arange(len(same), dtype=np.int32), places + 1)
    space = _space_before(text, normalization)
    prepared = space + same.replace("\u2581", " ")
    if not space:
        return prepared, origins
    # As in the library, an added space has the span of the first character.
    return prepared, (np.insert(first, 0, first[0]), np.insert(last, 0, last[0]))


def _normalized(text: str) -> str:
    return tokenizers_library.nfc(well_formed(text))


# In any language, NFC nearly always changes the same few letters, so a small cache is enough.
_short_nfc = lru_cache(1 << 14)(_normalized)
