"""A cache of prefixes of recent texts, with their ids. If a new text starts with a cached prefix, only the text after the
prefix is encoded.
"""

from __future__ import annotations

import sys
import threading
from typing import NamedTuple

MOST_BYTES = 32 << 20
"""The maximum size of the cache; the beginnings that were not used for the longest time are removed."""

SHORTEST = 2048
"""The least number of characters of a beginning. A shorter text is encoded as fast as it is looked up."""

# More beginnings would take long to compare.
_MOST_BEGINNINGS = 256
# The size of a beginning apart from its text, its marks and its ids.
_OVERHEAD = 500


class Beginning(NamedTuple):
    """A prefix of a text, and its ids.

    Attributes:
        length: Number of characters in the prefix; 0 if it is empty.
        ids: Ids of these characters.
        text: The prefix, and those characters after it on which its ids depend.
        marks: The marks of the characters in ``text``, as returned by `hf_sgpe.chat.marked_text.marks_of`; empty for a text
            without marks.
        kind: The special tokens that were allowed when the text was encoded.
    """

    length: int
    ids: list[int]
    text: str = ""
    marks: bytes = b""
    kind: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """The approximate size in memory, in bytes."""
        return sys.getsizeof(self.text) + sys.getsizeof(self.marks) + sys.getsizeof(self.ids) + _OVERHEAD


class RecentTexts:
    """A cache of prefixes of recent texts. Several threads may use it.

    Args:
        most_bytes: The maximum size of the cache, in bytes.

    Attributes:
        bytes: The current size of the cache, in bytes.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._beginnings: list[Beginning] = []  # the one that was used last is the last
        self._lock = threading.Lock()
        self.bytes = 0

    def find(self, text: str, kind: frozenset[str], marks: bytes = b"") -> Beginning:
        """Return the longest cached prefix of a text. If there is none, return an empty `Beginning`.

        Args:
            kind: The allowed special tokens. Only prefixes with the same allowed special tokens are found.
            marks: The marks of the text, as returned by `hf_sgpe.chat.marked_text.marks_of`; empty for a text without marks.
        """
        best = Beginning(0, [])
        if len(text) < SHORTEST:
            return best
        with self._lock:
            for one in self._beginnings:
                is_longer = one.length > best.length and one.kind == kind and bool(one.marks) == bool(marks)
                if is_longer and text.startswith(one.text) and marks.startswith(one.marks):
                    best = one
            if best.length:
                self._beginnings = [one for one in self._beginnings if one is not best]
                self._beginnings.append(best)
        return best

    def keep(self, new: Beginning, old: Beginning) -> None:
        """Store the prefix ``new`` in place of ``old``, a shorter prefix of the same text. If ``new`` is too short or too
        large for the cache, or not longer than ``old``, it is not stored.
        """
        if new.length < SHORTEST or new.length <= old.length or new.size > self._most_bytes:
            return
        with self._lock:
            kept = [one for one in self._beginnings if one is not old]
            self.bytes += new.size - (old.size if len(kept) < len(self._beginnings) else 0)
            kept.append(new)
            while self.bytes > self._most_bytes or len(kept) > _MOST_BEGINNINGS:
                self.bytes -= kept.pop(0).size
            self._beginnings = kept
