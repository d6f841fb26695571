"""Text that comes piece by piece, without its beginning, or up to a text at which it stops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing


def without_beginning(pieces: Iterator[str], characters: int) -> Iterator[str]:
    """Yield text without a number of characters at its beginning."""
    with closing(pieces):  # type: ignore[type-var]
        for piece in pieces:
            if text := piece[characters:]:
                yield text
            characters = max(characters - len(piece), 0)


def until_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """Yield text up to where one of ``stops`` is first complete, without it; what may be its beginning never comes early.

    Takes as many steps for each character as there are stops, on average, however they repeat themselves (Knuth, Morris,
    Pratt 1977).

    >>> list(until_stop(["ab", "c<", "e", "n", "<end>d"], ["<end>"]))
    ['ab', 'c', '<en']
    """
    seekers = [_Seeker(stop) for stop in stops]
    held = ""
    try:
        for piece in pieces:
            for place, character in enumerate(piece if seekers else ""):
                completed = [seeker.stop for seeker in seekers if seeker.found(character)]
                if completed:
                    text = held + piece[: place + 1]
                    if text := text[: len(text) - max(map(len, completed))]:
                        yield text
                    return
            held += piece
            safe = len(held) - max((seeker.matched for seeker in seekers), default=0)
            if safe > 0:
                yield held[:safe]
                held = held[safe:]
        if held:
            yield held
    finally:
        if hasattr(pieces, "close"):
            pieces.close()


class _Seeker:
    """Looks for one text in characters that come one by one; ``matched`` of its own are the last that came."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        # After how many characters to go on where the next one does not fit.
        self._back = [0]
        length = 0
        for character in stop[1:]:
            while length and stop[length] != character:
                length = self._back[length - 1]
            length += stop[length] == character
            self._back.append(length)

    def found(self, character: str) -> bool:
        while self.matched and self.stop[self.matched] != character:
            self.matched = self._back[self.matched - 1]
        self.matched += self.stop[self.matched] == character
        return self.matched == len(self.stop)
