r"""Cutting a stream of text where it does not matter: between two words, whatever pattern is used, or between two letters.

A *safe cut* stands after a letter or digit and before a punctuation mark, or before a single space that a letter or digit
follows; or after a line end that follows something other than white space, before a letter or digit. Every named pattern has
a word boundary there, no pattern looks across it, and normalization does not reach across it either. So the words of the
parts are the words of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import regex

from hf_sgpe.splitting.regex_pre_tokenizer import engines_agree
from hf_sgpe.splitting.scripts.script_registry import resolve_script, resolve_scripts
from hf_sgpe.splitting.syllables import Walk, script_of_characters

_WORD = r"[\p{L}\p{N}]"
# Marks that every named pattern parts from a letter before them. The danda is not one of them: SGPE's words may hold it.
_MARK = "[.,!?()…。，、۔،]"
# searched from the right, so that the last cut is found in time that does not grow with what is before it
_SAFE_CUT = regex.compile(rf"(?r)(?:(?<={_WORD})(?=(?:{_MARK}| {_WORD}))|(?<=\S\n)(?={_WORD}))")
_FIRST_CUT = regex.compile(_SAFE_CUT.pattern.removeprefix("(?r)"))
_CUT_INSIDE = regex.compile(rf"{_WORD}(?:{_MARK}| )|\n{_WORD}")


def cut_stream(chunks: Iterable[str], special_tokens: Iterable[str] = (), *, longest: int | None = None) -> Iterator[str]:
    r"""Yield chunks cut anywhere as texts cut only where it does not matter; the concatenation stays the same.

    Each chunk is held until a safe cut is seen after it, so memory grows with the longest stretch without one, not with the
    stream. A special token that a safe cut could fall into holds the whole text back.

    Args:
        longest: A stretch without a safe cut is cut after this many characters all the same, and again after as many more.
            No chunk may be longer. None for never.

    >>> list(cut_stream(["The qui", "ck brown fo", "x"]))
    ['The', ' quick brown', ' fox']
    """
    if any(map(_CUT_INSIDE.search, special_tokens)):
        yield "".join(chunks)
        return
    held: list[str] = []
    size = 0  # characters that are held
    last_two = ""
    for chunk in chunks:
        if not chunk:
            continue
        # A cut is seen once the character after it is there, which may be the first of this chunk.
        window = last_two + chunk
        held.append(chunk)
        size += len(chunk)
        before = size - len(window)
        match = _SAFE_CUT.search(window)
        cut = before + match.start() if match else 0
        if cut > 0 and match and engines_agree(window[max(match.start() - 1, 0) : match.start() + 2], (_SAFE_CUT.pattern,)):
            text, start = "".join(held), 0
            if longest is not None and size > longest:
                first = _FIRST_CUT.search(window, max(1 - before, 0))
                start = _whole_lengths(before + first.start() if first else cut, longest)
                yield from (text[place : place + longest] for place in range(0, start, longest))
            yield text[start:cut]
            held, size = [text[cut:]], size - cut
        elif longest is not None and size > longest:
            text, cut = "".join(held), _whole_lengths(size, longest)
            yield from (text[place : place + longest] for place in range(0, cut, longest))
            held, size = [text[cut:]], size - cut
        last_two = window[-2:]
    rest = "".join(held)
    if rest:
        yield rest


def _whole_lengths(size: int, longest: int) -> int:
    """Return how much of a stretch is cut off in whole lengths, so that something is left."""
    return (size - 1) // longest * longest


def whole_letters(pieces: Iterable[str], scripts: Iterable[str] = ("all",)) -> Iterator[str]:
    """Yield pieces cut anywhere as pieces in which no letter changes any more; the concatenation stays the same.

    A letter is what a script's own grammar of letters makes it. It comes as soon as a character is there that is no part of
    it. Takes a few steps for each character, however long a letter is.

    Args:
        scripts: Whose letters are to stay whole; in others each character comes at once.

    >>> list(whole_letters(["න", "ම", "ස්", "ක", "ා", "ර", "ය!"]))
    ['න', 'ම', 'ස්', 'කා', 'රය!']
    """
    letter = _Letter(scripts)
    try:
        for piece in pieces:
            if text := "".join(map(letter.add, piece)):
                yield text
        if letter.held:
            yield "".join(letter.held)
    finally:
        if hasattr(pieces, "close"):
            pieces.close()


class _Letter:
    """The letter that is being written: the characters ``held``, and where in the script's grammar they lead."""

    def __init__(self, scripts: Iterable[str]) -> None:
        self._script_of = script_of_characters(tuple(map(resolve_script, resolve_scripts(scripts))))
        self.held: list[str] = []
        self._walk = Walk({}, {}, None)
        self._state = ""
        self._whole = 0  # characters held up to the last place where the letter may end

    def add(self, character: str) -> str:
        """Return what no longer changes once this character has come."""
        ready: list[str] = []
        coming = [character]
        while coming:
            character = coming.pop()
            if not self.held:
                if not self._begins(character):
                    ready.append(character)
            elif not self._goes_on(character):
                # As far as the letter is whole it is done; what was read beyond that begins the next.
                ready += self.held[: self._whole]
                coming += [character, *reversed(self.held[self._whole :])]
                self.held = []
        return "".join(ready)

    def _begins(self, character: str) -> bool:
        script = self._script_of.get(character)
        if script is None:
            return False
        self._walk = Walk.to_letters(script)
        state = self._walk.next_state("start", character)
        if state is None:
            return False
        self.held, self._state, self._whole = [character], state, 1
        return True

    def _goes_on(self, character: str) -> bool:
        state = self._walk.next_state(self._state, character)
        if state is None:
            return False
        self.held.append(character)
        self._state = state
        if self._walk.may_end(state):
            self._whole = len(self.held)
        return True
