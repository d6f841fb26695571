"""Preparation of text for splitting: replacement of lone surrogates, and optional normalization.

A tokenizer converted from SentencePiece has one of `METASPACES`. All of them replace U+2581 by a space: such a tokenizer
writes a space as U+2581, so it cannot distinguish the two. Some of them also put a space before the text.
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
(Llama 2). ``metaspace-always`` does so only if the part does not begin with a space, and ``metaspace-first`` only before the
first part."""


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
    r"""Return the text to which a tokenizer's split regexes are applied. It is made valid by `well_formed`, then normalized.

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
    r"""Return the text of `prepare`, and its alignment to the original text. Time is linear in the text.

    Returns:
        The prepared text, and two arrays: for each character of the prepared text, the start and the end of its span in the
        original text. Characters that were normalized together have the same span. If nothing changed, the arrays are None.

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
        # Normalization only changes characters within their grapheme clusters.
        clusters = regex.finditer(r"[\ud800-\udbff][\udc00-\udfff]|\X", text[start:stop])
        for cluster in clusters:
            add(start + cluster.start(), start + cluster.end(), prepare(cluster.group(), normalization))
        position = stop
    add(position, len(text), text[position:])
    if "".join(pieces) != prepared:
        return prepared, (np.zeros(len(prepared), np.int32), np.full(len(prepared), len(text), np.int32))
    return prepared, (np.concatenate(firsts), np.concatenate(lasts))


def later(normalization: str) -> str:
    """Return the normalization of all parts of a text after the first one."""
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
    return prepared, (np.insert(first, 0, first[0]), np.insert(last, 0, last[0]))  # as in the library


def _normalized(text: str) -> str:
    return tokenizers_library.nfc(well_formed(text))


# Nearly all changes of NFC are to the same few letters of a language.
_short_nfc = lru_cache(1 << 14)(_normalized)
