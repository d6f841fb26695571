"""Preparation of text for splitting: replacement of lone surrogates, and optional normalization.

A normalization is identified by a string. A tokenizer converted from SentencePiece uses one of the normalizations in
`METASPACES`. All of these replace U+2581 by a space: such a tokenizer writes a space as U+2581, so it cannot distinguish
U+2581 from a space. Some also put a space before the text. If a tokenizer applies other normalizers first, such as NFKC, the
string also contains these steps (see `after`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import regex

from hf_sgpe import kernels
from hf_sgpe.kernels import sentencepiece_library, tokenizers_library

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


_AFTER = " after "


def after(scheme: str, steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the normalization that first applies ``steps`` (normalizers as in a ``tokenizer.json``) and then ``scheme``
    (one of `METASPACES`).

    >>> after("metaspace", [{"type": "NFKC"}])
    'metaspace after [{"type":"NFKC"}]'
    """
    return scheme + (_AFTER + json.dumps(list(steps), separators=(",", ":")) if steps else "")


@lru_cache(64)
def _split(normalization: str) -> tuple[str, str]:
    """Split a normalization into its scheme and the JSON of the steps before it (see `after`). The JSON can have 300,000
    characters, so the result is cached to avoid copying it again.
    """
    scheme, _, steps = normalization.partition(_AFTER)
    return scheme, steps


def scheme_of(normalization: str) -> str:
    """Return a normalization without the steps before its scheme (see `after`).

    >>> scheme_of('metaspace after [{"type":"NFKC"}]'), scheme_of("nfc")
    ('metaspace', 'nfc')
    """
    return _split(normalization)[0]


def steps_of(normalization: str) -> list[dict[str, Any]]:
    """Return the normalizers that a normalization applies before its scheme (see `after`), in the format of
    ``tokenizer.json``.
    """
    steps = _split(normalization)[1]
    return json.loads(steps) if steps else []


def is_metaspace(normalization: str | None) -> bool:
    """Return whether the scheme of a normalization is one of `METASPACES`, which tokenizers converted from SentencePiece
    use.
    """
    return scheme_of(normalization or "") in METASPACES


def shown(normalization: str) -> str:
    """Return a short form of a normalization for messages. It contains only the types of the steps before the scheme.

    >>> shown('metaspace after [{"type":"NFKC"}]')
    'metaspace after NFKC'
    """
    steps = steps_of(normalization)
    return scheme_of(normalization) + (_AFTER + ", ".join(step["type"] for step in steps) if steps else "")


def puts_space(normalization: str) -> bool:
    """Return whether a normalization puts a space before text."""
    return is_metaspace(normalization) and scheme_of(normalization) != "metaspace"


@lru_cache(64)
def inside(normalization: str) -> str:
    """Return the same normalization for a part that is not at the start of its text. It puts no space before the part.

    >>> inside("metaspace-prefix"), inside("nfc")
    ('metaspace', 'nfc')
    """
    return normalization.replace(scheme_of(normalization), "metaspace", 1) if is_metaspace(normalization) else normalization


def well_formed(text: str) -> str:
    r"""Return ``text`` as valid Unicode: replace lone surrogates by U+FFFD, and join surrogate pairs into characters.

    >>> well_formed("a\ud800 \ud83d\ude00")
    'a� 😀'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def prepare(text: str, normalization: str) -> str:
    r"""Return a text as a tokenizer's split regexes expect it: as valid Unicode (see `well_formed`), and normalized.

    NFC follows the Unicode version of the ``tokenizers`` library, which differs from Python's.

    Args:
        normalization: One of `NORMALIZATIONS` or `METASPACES`, possibly with other steps before it (`after`).

    >>> prepare("e\u0301 \ud800", "nfc")
    'é �'
    >>> prepare("a\u2581b", "metaspace-prefix")
    ' a b'
    """
    scheme, steps = _split(normalization)
    if steps:
        changed = well_formed(text)
        for table, others in _parsed(steps):
            apply = sentencepiece_library if table else tokenizers_library
            changed = apply.normalized(changed, table or others)
        return prepare(changed, scheme) or (" " if text and _keeps_prefix(scheme, steps) else "")
    if scheme in METASPACES:
        return _space_before(text, scheme) + well_formed(text).replace("\u2581", " ")
    if text.isascii():
        return text
    if normalization == "none":
        return well_formed(text)
    if not kernels.is_native():
        return _normalized(text)
    import hf_sgpe._native as _native

    pieces = _native.nfc_pieces(text)
    if len(pieces) == 1:
        return text
    pieces[1::2] = [_short_nfc(piece) if len(piece) < 16 else _normalized(piece) for piece in pieces[1::2]]
    return "".join(pieces)


def aligned(text: str, normalization: str) -> tuple[str, tuple[NDArray[np.int32], NDArray[np.int32]] | None]:
    r"""Prepare a text as `prepare` does, and align it to the original text. Time is linear in the length of the text.

    Returns:
        The prepared text and its alignment. The alignment consists of two arrays. For each character of the prepared text,
        they contain the start and the end of the original characters from which it was made. Characters that were normalized
        together have the same start and end. If nothing changed, the alignment is None.

    >>> text, (first, last) = aligned("ae\u0301", "nfc")
    >>> text, first.tolist(), last.tolist()
    ('aé', [0, 1], [1, 3])
    """
    import numpy as np

    scheme, steps = _split(normalization)
    if steps:
        return _aligned_to_steps(text, scheme, steps)
    if scheme in METASPACES:
        return _aligned_to_metaspace(text, scheme)
    prepared = prepare(text, normalization)
    if prepared == text:
        return text, None
    originals = ["", text, ""]
    if kernels.is_native() and normalization == "nfc":
        import hf_sgpe._native as _native

        originals = _native.nfc_pieces(text)
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

    for number, original in enumerate(originals):
        if number % 2 == 0:
            add(position, position + len(original), original)
        else:
            # Normalization changes characters only within their grapheme clusters.
            for cluster in regex.finditer(r"[\ud800-\udbff][\udc00-\udfff]|\X", original):
                add(position + cluster.start(), position + cluster.end(), prepare(cluster.group(), normalization))
        position += len(original)
    if "".join(pieces) != prepared:
        return prepared, (np.zeros(len(prepared), np.int32), np.full(len(prepared), len(text), np.int32))
    return prepared, (np.concatenate(firsts), np.concatenate(lasts))


def later(normalization: str) -> str:
    """Return the normalization for all parts of a text except the first part. Added tokens divide a text into parts."""
    return inside(normalization) if scheme_of(normalization) == "metaspace-first" else normalization


@lru_cache(64)
def in_two(normalization: str) -> tuple[str, str]:
    """Divide a normalization into two steps, for a tokenizer that matches added tokens in normalized text. Apply the first
    step before the tokens are matched, and the second step to the parts between the matches.

    ``metaspace-always`` and ``metaspace-first`` put spaces before these parts, so they belong to the second step.

    >>> in_two("metaspace-prefix"), in_two("metaspace-first")
    (('metaspace-prefix', 'metaspace'), ('none', 'metaspace-first'))
    """
    scheme = scheme_of(normalization)
    if scheme in ("metaspace-always", "metaspace-first"):
        return normalization.replace(scheme, "none", 1), scheme
    return normalization, "metaspace" if scheme in METASPACES else "none"


def _space_before(text: str, normalization: str) -> str:
    if not text or normalization == "metaspace":
        return ""
    return " " if normalization == "metaspace-prefix" or text[0] not in " \u2581" else ""


def _aligned_to_steps(text: str, scheme: str, steps: str) -> tuple[str, tuple[NDArray[np.int32], NDArray[np.int32]] | None]:
    import numpy as np

    whole = text
    text, origins = aligned(text, "none")
    first, last = origins or (places := np.arange(len(text), dtype=np.int32), places + 1)
    for table, others in _parsed(steps):
        apply = sentencepiece_library if table else tokenizers_library
        text, starts, ends = apply.normalized_with_places(text, table or others)
        first, last = first[starts], last[ends - 1]
    if not text and whole and _keeps_prefix(scheme, steps):
        return " ", (np.zeros(1, np.int32), np.full(1, len(whole), np.int32))
    prepared, spaced = aligned(text, scheme)
    if spaced is not None:
        first, last = first[spaced[0]], last[spaced[1] - 1]
    return prepared, (first, last)


def _keeps_prefix(scheme: str, steps: str) -> bool:
    """Return whether a text becomes a single space if the steps before the scheme delete all of its characters.
    SentencePiece does this if it keeps all spaces.
    """
    return scheme == "metaspace-prefix" and all(table for table, _ in _parsed(steps))


@lru_cache(8)
def _parsed(steps: str) -> list[tuple[str, str]]:
    """Parse the JSON of the steps before a scheme into pairs (table for SentencePiece, JSON for ``tokenizers``). In each
    pair, one of the two strings is empty.
    """
    parsed: list[tuple[str, str]] = []
    for is_table, group in groupby(json.loads(steps), lambda step: step["type"] == sentencepiece_library.KIND):
        if is_table:
            parsed += [(step["precompiled_charsmap"], "") for step in group]
        else:
            parsed.append(("", json.dumps(list(group))))
    return parsed


def _aligned_to_metaspace(text: str, normalization: str) -> tuple[str, tuple[NDArray[np.int32], NDArray[np.int32]] | None]:
    import numpy as np

    same, origins = aligned(text, "none")
    first, last = origins or (places := np.arange(len(same), dtype=np.int32), places + 1)
    space = _space_before(same, normalization)
    prepared = space + same.replace("\u2581", " ")
    if not space:
        return prepared, origins
    # As in the library, an added space has the span of the first character.
    return prepared, (np.insert(first, 0, first[0]), np.insert(last, 0, last[0]))


def _normalized(text: str) -> str:
    return tokenizers_library.nfc(well_formed(text))


# In any language, NFC nearly always changes the same few letters, so a small cache is enough.
_short_nfc = lru_cache(1 << 14)(_normalized)
