"""Filters for streams of text: one filter removes the beginning, and another ends the stream at a stop text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing


def without_beginning(pieces: Iterator[str], characters: int) -> Iterator[str]:
    """Yield the stream without its first ``characters`` characters."""
    with closing(pieces):  # type: ignore[type-var]
        for piece in pieces:
            if text := piece[characters:]:
                yield text
            characters = max(characters - len(piece), 0)


def until_stop(pieces: Iterable[str], stops: Sequence[str], is_due: Callable[[], bool] = lambda: True) -> Iterator[str]:
    """Yield the stream up to the first complete stop text, without the stop text.

    Text that may be the beginning of a stop text is held back until the next characters show that it is not. The average
    time per character is proportional to the number of stop texts (Knuth, Morris, Pratt 1977).

    Args:
        is_due: Function that is called for each piece. If it returns False, the stream does not end at a stop text that this
            piece completes.

    >>> list(until_stop(["ab", "c<", "e", "n", "<end>d"], ["<end>"]))
    ['ab', 'c', '<en']
    """
    seekers = [_Seeker(stop) for stop in stops]
    held = ""
    try:
        for piece in pieces:
            can_end = is_due()
            for place, character in enumerate(piece if seekers else ""):
                completed = [seeker.stop for seeker in seekers if seeker.completes(character)]
                if completed and can_end:
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
    """A search for one text in a stream of characters.

    Attributes:
        matched: Number of characters at the current end of the stream that match the beginning of ``stop``.
    """

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        # For each length of a match: the length of the shorter match to try if the next character does not fit.
        self._back = [0]
        length = 0
        for character in stop[1:]:
            while length and stop[length] != character:
                length = self._back[length - 1]
            length += stop[length] == character
            self._back.append(length)

    def completes(self, character: str) -> bool:
        """Add a character of the stream, and return whether it completes the text."""
        if self.matched == len(self.stop):
            self.matched = self._back[-1]
        while self.matched and self.stop[self.matched] != character:
            self.matched = self._back[self.matched - 1]
        self.matched += self.stop[self.matched] == character
        return self.matched == len(self.stop)
