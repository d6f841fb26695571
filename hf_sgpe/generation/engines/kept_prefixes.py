"""Kept prefixes: the keys and values of recent texts, so that a prompt that begins like a recent text is computed from where
they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Generic, TypeVar

from hf_sgpe.errors import SGPEError

Cache = TypeVar("Cache")

# Computing fewer tokens takes no longer than a single one.
_FEWEST = 8


def number_of_prefixes(given: int | None, *, exact: bool) -> int:
    """Return the number of prefixes that an engine keeps: by default one, and none with ``exact``.

    Raises:
        SGPEError: ``given`` is not a whole number of at least 0.
    """
    if given is None:
        return 0 if exact else 1
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise SGPEError(f"keep_prefixes must be a whole number of at least 0, not {given!r}")
    return given


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of ids at the beginning that two sequences have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


class KeptPrefixes(Generic[Cache]):
    """The key-value caches of recent texts with the ids in them.

    Args:
        most: The maximum number of caches, including the cache in use.
        crop: Function that removes the tokens of a cache after the first ones; it returns whether it could.
    """

    def __init__(self, most: int, crop: Callable[[Cache, int], bool]) -> None:
        self.most = most
        self._crop = crop
        self._kept: list[tuple[list[int], Cache]] = []

    def take(self, ids: list[int]) -> tuple[Cache | None, int]:
        """Remove and return the cache with the most tokens at the beginning of a prompt, and the number of these tokens. The
        cache has no other tokens, and never all tokens of the prompt, because the logits of the last one are needed.

        Returns:
            None and 0 if no cache has enough of them. The oldest cache is then removed if there is no room for another one.
        """
        lengths = [common_length(kept, ids[:-1]) for kept, _ in self._kept]
        longest = max(lengths, default=0)
        if longest >= _FEWEST:
            _, cache = self._kept.pop(lengths.index(longest))
            if self._crop(cache, longest):
                return cache, longest
        if len(self._kept) >= self.most:
            del self._kept[: len(self._kept) - self.most + 1]
        return None, 0

    def keep(self, ids: list[int], cache: Cache) -> None:
        """Keep the cache of the ids."""
        if len(self._kept) < self.most:
            self._kept.append((ids, cache))

    def clear(self) -> None:
        """Free all caches."""
        self._kept.clear()
