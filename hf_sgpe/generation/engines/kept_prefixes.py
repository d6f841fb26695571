"""A store of the keys and values of recent texts. If a prompt shares a prefix with a recent text, the model does not compute
this prefix again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Generic, TypeVar

from hf_sgpe.generation.engines.engine import check_whole

Cache = TypeVar("Cache")

# Fewer tokens than this are computed in the time of a single token.
_FEWEST = 8


def number_of_prefixes(given: int | None, *, exact: bool) -> int:
    """Return the number of recent texts whose keys and values an engine keeps. The default is 1, or 0 with ``exact``."""
    if given is None:
        return 0 if exact else 1
    check_whole("keep_prefixes", given)
    return given


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the longest common prefix of two sequences."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


class KeptPrefixes(Generic[Cache]):
    """The key-value caches of recent texts, together with the ids in the caches.

    Args:
        most: The maximum number of caches, including the cache in use.
        crop: Function that shortens a cache to its first tokens. It takes the cache and the number of these tokens.
    """

    def __init__(self, most: int, crop: Callable[[Cache, int], None]) -> None:
        self.most = most
        self._crop = crop
        self._kept: list[tuple[list[int], Cache]] = []

    def take(self, ids: list[int]) -> tuple[Cache | None, int]:
        """Remove the cache that shares the longest prefix with a prompt. Return this cache, cropped to the shared prefix,
        and the number of tokens in this prefix, which never contains the prompt's last token, because the logits of this
        token are needed.

        Returns:
            None and 0 if no shared prefix is long enough. In this case, the oldest cache is removed if there is no room for
            another cache.
        """
        lengths = [common_length(kept, ids[:-1]) for kept, _ in self._kept]
        longest = max(lengths, default=0)
        if longest >= _FEWEST:
            _, cache = self._kept.pop(lengths.index(longest))
            self._crop(cache, longest)
            return cache, longest
        if len(self._kept) >= self.most:
            del self._kept[: len(self._kept) - self.most + 1]
        return None, 0

    def keep(self, ids: list[int], cache: Cache) -> None:
        """Store a cache together with the ids of its tokens. If there is no room, do nothing."""
        if len(self._kept) < self.most:
            self._kept.append((ids, cache))

    def clear(self) -> None:
        self._kept.clear()
