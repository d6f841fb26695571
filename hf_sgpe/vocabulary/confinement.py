"""A check whether a byte string can occur only in text that contains certain characters. It shows which text a merge can
affect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product

from hf_sgpe.splitting.scripts.script_registry import resolve_script, resolve_scripts

_CONTINUATION = range(0x80, 0xC0)


class Confinement:
    """A set of characters. `holds` checks whether a byte string occurs only in text with at least one of them.

    BPE applies a merge only in text that contains the joined bytes of its two tokens. So if these bytes are confined to the
    characters of a script, the merge cannot change the tokens of any text without these characters. This is true for a merge
    of any rank.

    >>> sinhala = Confinement(range(0x0D80, 0x0E00))
    >>> sinhala.holds("ක".encode()[:2]), sinhala.holds("ක".encode()[1:]), sinhala.holds(" ක".encode()[:2])
    (True, False, False)
    """

    def __init__(self, points: Iterable[int]) -> None:
        self.points = frozenset(points)
        self._characters = frozenset(map(chr, self.points))
        self._begins_another = cache(self._find_beginning)
        self._ends_another = cache(self._find_end)
        self._is_inside_another = cache(self._find_inside)

    @classmethod
    def to_scripts(cls, scripts: Iterable[str]) -> Confinement:
        """Return the confinement to all characters that identify the scripts."""
        return cls(ord(character) for name in resolve_scripts(scripts) for character in resolve_script(name).characters())

    def holds(self, part: bytes) -> bool:
        """Return whether every UTF-8 text with the bytes ``part`` has one of the characters, in linear time."""
        try:
            return not self._characters.isdisjoint(part.decode())
        except UnicodeDecodeError:
            return self._holds_part(part)

    def merges_outside(self, merges: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the merges that can apply to text with none of the characters, from the last rank to the first.

        If a pair occurs several times, only its last occurrence counts.
        """
        return [pair for pair in dict.fromkeys(reversed(merges)) if not self.holds(pair[0] + pair[1])]

    def _holds_part(self, part: bytes) -> bool:
        """Return the result of `holds` for bytes that begin or end inside a character, or are no UTF-8."""
        start = next((place for place, byte in enumerate(part) if byte not in _CONTINUATION), len(part))
        if start == len(part):
            return not self._is_inside_another(part)
        if start and not self._ends_another(part[:start]):
            return True
        position = start
        while position < len(part):
            character = part[position : position + _length(part[position])]
            if not character:
                return True  # no text has such a byte
            if position + _length(part[position]) > len(part):
                return not self._begins_another(character)
            if not self._is_another(character):
                return True
            position += len(character)
        return False

    def _is_another(self, character: bytes) -> bool:
        """Return whether the bytes are a single character outside the set."""
        try:
            return ord(character.decode()) not in self.points
        except UnicodeDecodeError:
            return False

    def _find_beginning(self, beginning: bytes) -> bool:
        missing = _length(beginning[0]) - len(beginning)
        return any(self._is_another(beginning + bytes(rest)) for rest in product(_CONTINUATION, repeat=missing))

    def _find_end(self, end: bytes) -> bool:
        """Return whether a character outside the set ends with these bytes and has at least one more byte before them."""
        for length in range(len(end) + 1, 5):
            leads = [byte for byte in range(0xC2, 0xF5) if _length(byte) == length]
            rests = product(_CONTINUATION, repeat=length - len(end) - 1)
            if any(self._is_another(bytes([lead, *rest]) + end) for lead, rest in product(leads, rests)):
                return True
        return False

    def _find_inside(self, part: bytes) -> bool:
        """Return whether a character outside the set has these bytes after its first byte."""
        if self._find_end(part):
            return True
        return len(part) < 3 and any(self._is_inside_another(part + bytes([byte])) for byte in _CONTINUATION)


def _length(lead: int) -> int:
    """Return how many bytes a UTF-8 character has if its first byte is ``lead``, or 0 if no character begins with it."""
    if lead < 0x80:
        return 1
    if not 0xC2 <= lead <= 0xF4:
        return 0
    if lead < 0xE0:
        return 2
    return 3 if lead < 0xF0 else 4
