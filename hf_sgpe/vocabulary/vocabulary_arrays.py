"""A vocabulary and its merges that the native kernels hold in arrays, as a Python mapping and a Python sequence.

Reading a ``tokenizer.json`` makes no Python object for each token or merge. The dict and the list are made when they are
needed, for example to learn further merges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from hf_sgpe._native import Vocabulary

# After this number of look-ups in the arrays, a dict would have been faster.
_MANY = 50_000


class TokenIds(Mapping[bytes, int]):
    """The ids of tokens, keyed by token. Two tokens never have the same id."""

    def __init__(self, native: Vocabulary) -> None:
        self.native = native
        self._looked_up = 0

    @cached_property
    def _dict(self) -> dict[bytes, int]:
        return self.native.ids()

    def get(self, token: bytes, default: Any = None) -> Any:
        if "_dict" in self.__dict__ or self._looked_up > _MANY:
            return self._dict.get(token, default)
        self._looked_up += 1
        id = self.native.find(token)
        return default if id is None else id

    def __getitem__(self, token: bytes) -> int:
        id: int | None = self.get(token)
        if id is None:
            raise KeyError(token)
        return id

    def __contains__(self, token: object) -> bool:
        return isinstance(token, bytes) and self.get(token) is not None

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self.native)

    def keys(self) -> Any:
        return self._dict.keys()

    def values(self) -> Any:
        return self._dict.values()

    def items(self) -> Any:
        return self._dict.items()

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenIds, (self.native,)


class MergePairs(Sequence[tuple[bytes, bytes]]):
    """The two tokens of each merge, in the order of the merges' ranks."""

    def __init__(self, native: Vocabulary) -> None:
        self.native = native

    @cached_property
    def _list(self) -> list[tuple[bytes, bytes]]:
        return self.native.merges()

    @overload
    def __getitem__(self, place: int) -> tuple[bytes, bytes]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[bytes, bytes]]: ...
    def __getitem__(self, place: int | slice) -> Any:
        return self._list[place]

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._list)

    def __len__(self) -> int:
        return self.native.number_of_merges

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._list == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return MergePairs, (self.native,)


def held_together(vocab: Mapping[bytes, int], merges: Sequence[tuple[bytes, bytes]]) -> Vocabulary | None:
    """Return the native vocabulary that has these tokens and these merges, or None if no single one has both. Its merges use
    only its tokens, and no two of its tokens have the same id.
    """
    if isinstance(vocab, TokenIds) and isinstance(merges, MergePairs) and vocab.native is merges.native:
        return vocab.native
    return None


def native_vocabulary(vocab: Mapping[bytes, int], merges: Sequence[tuple[bytes, bytes]]) -> Vocabulary:
    """Return a vocabulary and its merges as the native kernels hold them. They are copied unless the kernels read them."""
    import hf_sgpe._native as _native

    return held_together(vocab, merges) or _native.Vocabulary(dict(vocab), merges)
