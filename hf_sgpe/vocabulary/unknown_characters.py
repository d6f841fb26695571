"""Characters without a token, for tokenizers whose merges join characters and that have no tokens for bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from hf_sgpe.vocabulary.neighbours import is_character
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class UnknownCharacters:
    """The characters for which a tokenizer has no token. They are encoded as the unknown token, or left out."""

    def __init__(self, data: TokenizerData) -> None:
        self._known = frozenset(token.decode() for token in data.vocab if is_character(token))
        self._are_left_out = data.unknown is None
        self._are_fused = data.unknown is not None and data.unknown.is_fused
        self._cuts_at_spaces = data.splitting.cuts_at_spaces

    @cached_property
    def _kept(self) -> dict[int, int | None]:
        """A table for `str.translate` that removes characters without a token."""
        known = frozenset(map(ord, self._known))

        class Kept(dict[int, "int | None"]):
            def __missing__(self, point: int) -> int | None:
                self[point] = point if point in known else None
                return self[point]

        return Kept()

    def without(self, text: str) -> str:
        """Return a text without the characters that encoding leaves out."""
        return text.translate(self._kept) if self._are_left_out else text

    def offsets(self, ids: NDArray[np.int32], text: str, bytes_of: Callable[[int], bytes]) -> NDArray[np.int32]:
        """Return the ranges of characters in a normalized text (see `hf_sgpe.vocabulary.codec.Codec.offsets`).
        ``bytes_of`` returns the bytes of an id.
        """
        import numpy as np

        known = self._known
        kept = [place for place, character in enumerate(text) if not self._are_left_out or character in known]
        places: list[tuple[int, int]] = []
        first = 0
        for id in ids.tolist():
            last = first
            if text[kept[first]] in known:
                last += len(bytes_of(id).decode()) - 1
            else:
                while self._are_fused and last + 1 < len(text) and not self._begins(text[last + 1]):
                    last += 1
            places.append((kept[first], kept[last] + 1))
            first = last + 1
        return np.array(places, dtype=np.int32).reshape(-1, 2)

    def _begins(self, character: str) -> bool:
        """Return whether this character, which follows an unknown character, begins a new token."""
        return character in self._known or (self._cuts_at_spaces and character == " ")
