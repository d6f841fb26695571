"""Preparation of text for splitting: replacement of lone surrogates, and optional normalization.

A tokenizer converted from SentencePiece writes a space as U+2581, so it cannot distinguish U+2581 from a space. Its
normalization replaces U+2581 by a space, and may also put a space before the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import regex

from hf_sgpe import kernels
from hf_sgpe.kernels import sentencepiece_library, tokenizers_library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Alignment = tuple[NDArray[np.int32], NDArray[np.int32]]

NORMALIZATIONS = ("none", "nfc")
"""The normalizations that training can use."""


class Space(IntEnum):
    """The parts between added tokens before which a space is put. The native kernels have the same enum."""

    NEVER = 0
    BEFORE_EACH = 1
    UNLESS_SPACE = 2  # before each part that does not begin with a space
    BEFORE_FIRST_UNLESS_SPACE = 3


METASPACES = {
    "metaspace": Space.NEVER,  # Gemma
    "metaspace-prefix": Space.BEFORE_EACH,  # Llama 2
    "metaspace-always": Space.UNLESS_SPACE,
    "metaspace-first": Space.BEFORE_FIRST_UNLESS_SPACE,
}
"""The normalizations of tokenizers converted from SentencePiece, with the spaces that they put."""


@dataclass(frozen=True)
class Normalization:
    """A normalization of text before it is split.

    Attributes:
        scheme: One of `NORMALIZATIONS` or `METASPACES`. It is applied last.
        steps: Normalizers that are applied first, each as the JSON of a ``tokenizer.json``. Only a scheme of `METASPACES`,
            or ``none``, has steps.
    """

    scheme: str = "none"
    steps: tuple[str, ...] = ()

    @classmethod
    def of(cls, scheme: str, normalizers: Iterable[Mapping[str, Any]]) -> Normalization:
        """Return the normalization that applies ``normalizers``, as in a ``tokenizer.json``, and then ``scheme``."""
        return cls(scheme, tuple(json.dumps(step, separators=(",", ":")) for step in normalizers))

    @property
    def normalizers(self) -> list[dict[str, Any]]:
        """The steps in the format of ``tokenizer.json``."""
        return list(map(json.loads, self.steps))

    @property
    def is_metaspace(self) -> bool:
        """True if the scheme is one of `METASPACES`."""
        return self.scheme in METASPACES

    @property
    def puts_space(self) -> bool:
        """True if the normalization puts a space before text."""
        return self.space != Space.NEVER

    @property
    def space(self) -> Space:
        """The parts of a text before which the normalization puts a space."""
        return METASPACES.get(self.scheme, Space.NEVER)

    @cached_property
    def inside(self) -> Normalization:
        """The normalization without the space that it puts before the text."""
        return replace(self, scheme="metaspace") if self.puts_space else self

    @cached_property
    def later(self) -> Normalization:
        """The normalization for all parts of a text except the first part. Added tokens divide a text into parts."""
        return self.inside if self.scheme == "metaspace-first" else self

    @cached_property
    def in_two(self) -> tuple[Normalization, Normalization]:
        """The normalization as two steps, for a tokenizer that matches added tokens in normalized text: one before the
        tokens are matched, and one for the parts between the matches, before which some schemes put spaces.

        >>> [step.scheme for step in Normalization("metaspace-prefix").in_two]
        ['metaspace-prefix', 'metaspace']
        """
        if self.scheme in ("metaspace-always", "metaspace-first"):
            return replace(self, scheme="none"), Normalization(self.scheme)
        return self, METASPACE if self.is_metaspace else NONE

    @cached_property
    def _without_steps(self) -> Normalization:
        return replace(self, steps=())

    @cached_property
    def _keeps_prefix(self) -> bool:
        """True if a text becomes a single space when the steps delete all of its characters, as in SentencePiece."""
        return self.scheme == "metaspace-prefix" and all(table for table, _ in self.libraries)

    @cached_property
    def libraries(self) -> list[tuple[str, str]]:
        """The steps as pairs (table for SentencePiece, JSON for ``tokenizers``), one of which is empty."""
        pairs: list[tuple[str, str]] = []
        for is_table, steps in groupby(self.normalizers, lambda step: step["type"] == sentencepiece_library.KIND):
            if is_table:
                pairs += [(step["precompiled_charsmap"], "") for step in steps]
            else:
                pairs.append(("", json.dumps(list(steps))))
        return pairs

    def to_json(self) -> str | list[str]:
        """Return a JSON value for `from_json`."""
        return [self.scheme, *self.steps] if self.steps else self.scheme

    @classmethod
    def from_json(cls, value: str | list[str]) -> Normalization:
        """Read the result of `to_json`."""
        return cls(value[0], tuple(value[1:])) if value and isinstance(value, list) else cls(value)  # type: ignore[arg-type]

    def __str__(self) -> str:
        steps = ", ".join(step["type"] for step in self.normalizers)
        return f"{self.scheme} after {steps}" if steps else self.scheme


NONE, NFC, METASPACE = Normalization(), Normalization("nfc"), Normalization("metaspace")


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


def prepare(text: str, normalization: Normalization | str) -> str:
    r"""Return a text as a tokenizer's split regexes expect it: as valid Unicode (see `well_formed`), and normalized. NFC
    follows the Unicode version of the ``tokenizers`` library, which differs from Python's.

    >>> prepare("e\u0301 \ud800", "nfc")
    'é �'
    >>> prepare("a\u2581b", "metaspace-prefix")
    ' a b'
    """
    if isinstance(normalization, str):
        normalization = Normalization(normalization)
    if normalization.steps:
        changed = well_formed(text)
        for table, others in normalization.libraries:
            apply = sentencepiece_library if table else tokenizers_library
            changed = apply.normalized(changed, table or others)
        return prepare(changed, normalization._without_steps) or (" " if text and normalization._keeps_prefix else "")
    if normalization.is_metaspace:
        return _space_before(text, normalization) + well_formed(text).replace("\u2581", " ")
    if text.isascii():
        return text
    if normalization.scheme == "none":
        return well_formed(text)
    if not kernels.is_native():
        return _normalized(text)
    import hf_sgpe._native as _native

    pieces = _native.nfc_pieces(text)
    if len(pieces) == 1:
        return text
    pieces[1::2] = [_short_nfc(piece) if len(piece) < 16 else _normalized(piece) for piece in pieces[1::2]]
    return "".join(pieces)


def aligned(text: str, normalization: Normalization) -> tuple[str, Alignment | None]:
    r"""Prepare a text as `prepare` does, and align it to the original text. Time is linear in the length of the text.

    Returns:
        The prepared text and its alignment, or None if nothing changed. For each character of the prepared text, two arrays
        contain the start and the end of the original characters from which it was made. Characters that were normalized
        together have the same start and end.

    >>> text, (first, last) = aligned("ae\u0301", NFC)
    >>> text, first.tolist(), last.tolist()
    ('aé', [0, 1], [1, 3])
    """
    import numpy as np

    if normalization.steps:
        return _aligned_to_steps(text, normalization)
    if normalization.is_metaspace:
        return _aligned_to_metaspace(text, normalization)
    prepared = prepare(text, normalization)
    if prepared == text:
        return text, None
    originals = ["", text, ""]
    if kernels.is_native() and normalization.scheme == "nfc":
        import hf_sgpe._native as _native

        originals = _native.nfc_pieces(text)
    pieces: list[str] = []
    spans: list[Alignment] = []
    position = 0

    def add(start: int, stop: int, piece: str) -> None:
        pieces.append(piece)
        spans.append(_each_itself(start, stop) if piece == text[start:stop] else _all_from(start, stop, len(piece)))

    for number, original in enumerate(originals):
        if number % 2 == 0:
            add(position, position + len(original), original)
        else:
            # Normalization changes characters only within their grapheme clusters.
            for cluster in regex.finditer(r"[\ud800-\udbff][\udc00-\udfff]|\X", original):
                add(position + cluster.start(), position + cluster.end(), prepare(cluster.group(), normalization))
        position += len(original)
    if "".join(pieces) != prepared:
        return prepared, _all_from(0, len(text), len(prepared))
    firsts, lasts = zip(*spans, strict=True)
    return prepared, (np.concatenate(firsts), np.concatenate(lasts))


def _each_itself(start: int, stop: int) -> Alignment:
    """Return the alignment of unchanged characters."""
    import numpy as np

    places = np.arange(start, stop, dtype=np.int32)
    return places, places + 1


def _all_from(start: int, stop: int, number: int) -> Alignment:
    """Return the alignment of characters that were made from the same original characters."""
    import numpy as np

    return np.full(number, start, np.int32), np.full(number, stop, np.int32)


def _space_before(text: str, normalization: Normalization) -> str:
    if not text or not normalization.puts_space:
        return ""
    return " " if normalization.space == Space.BEFORE_EACH or text[0] not in " \u2581" else ""


def _aligned_to_steps(text: str, normalization: Normalization) -> tuple[str, Alignment | None]:

    whole = text
    text, origins = aligned(text, NONE)
    first, last = origins or _each_itself(0, len(text))
    for table, others in normalization.libraries:
        apply = sentencepiece_library if table else tokenizers_library
        text, starts, ends = apply.normalized_with_places(text, table or others)
        first, last = first[starts], last[ends - 1]
    if not text and whole and normalization._keeps_prefix:
        return " ", _all_from(0, len(whole), 1)
    prepared, spaced = aligned(text, normalization._without_steps)
    if spaced is not None:
        first, last = first[spaced[0]], last[spaced[1] - 1]
    return prepared, (first, last)


def _aligned_to_metaspace(text: str, normalization: Normalization) -> tuple[str, Alignment | None]:
    import numpy as np

    same, origins = aligned(text, NONE)
    space = _space_before(same, normalization)
    prepared = space + same.replace("\u2581", " ")
    if not space:
        return prepared, origins
    first, last = origins or _each_itself(0, len(same))
    # As in the library, an added space has the span of the first character.
    return prepared, (np.insert(first, 0, first[0]), np.insert(last, 0, last[0]))


def _normalized(text: str) -> str:
    return tokenizers_library.nfc(well_formed(text))


# In any language, NFC nearly always changes the same few letters, so a small cache is enough.
_short_nfc = lru_cache(1 << 14)(_normalized)
