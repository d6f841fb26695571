r"""Cutting a stream of text at safe places: between words (for every split pattern) or between letters.

A *safe cut* is a position of one of three kinds:

- after a letter or digit, and before a punctuation mark;
- after a letter, a digit or a combining mark, and before a single space with a letter or digit after it;
- after a line end that follows a character other than white space, and before a letter or digit.

Every named pattern has a word boundary at a safe cut. No pattern looks across a safe cut, and normalization does not change
characters across it. So the words of the parts are the words of the whole text. A safe cut is recognized by at most two
characters after it. So text that is appended later cannot remove a safe cut, and cannot change the words before the cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import regex

from hf_sgpe.splitting.patterns import CUT_MARKS
from hf_sgpe.splitting.regex_pre_tokenizer import engines_agree
from hf_sgpe.splitting.scripts.script_registry import resolve_script, resolve_scripts
from hf_sgpe.splitting.syllables import Walk, script_of_characters

_WORD = r"[\p{L}\p{N}]"
_WORD_OR_COMBINING = r"[\p{L}\p{N}\p{M}]"
_MARK = f"[{CUT_MARKS}]"
# Searched from the right, so that the time to find the last cut does not depend on the text before it.
_SAFE_CUT = regex.compile(rf"(?r)(?:(?<={_WORD})(?={_MARK})|(?<={_WORD_OR_COMBINING})(?= {_WORD})|(?<=\S\n)(?={_WORD}))")
_FIRST_CUT = regex.compile(_SAFE_CUT.pattern.removeprefix("(?r)"))
_CUT_INSIDE = regex.compile(rf"{_WORD}{_MARK}|{_WORD_OR_COMBINING} |\n{_WORD}")


def may_be_cut(special_tokens: Iterable[str]) -> bool:
    """Return whether all of these special tokens stay whole if text is cut at safe cuts."""
    return not any(map(_CUT_INSIDE.search, special_tokens))


def last_cut(text: str, start: int = 0) -> int:
    """Return the last safe cut of a text after ``start``, or 0 if there is none.

    >>> last_cut("one two three"), last_cut("one two th", 6), last_cut("onetwo")
    (7, 7, 0)
    """
    match = _SAFE_CUT.search(text, start)
    if match is None or not engines_agree(text[max(match.start() - 1, 0) : match.start() + 2], (_SAFE_CUT.pattern,)):
        return 0
    return int(match.start())


def cut_stream(chunks: Iterable[str], special_tokens: Iterable[str] = (), *, longest: int | None = None) -> Iterator[str]:
    r"""Regroup the chunks of a stream into texts that end at safe cuts. The concatenation of all texts stays the same.

    Memory is proportional to the longest stretch without a safe cut. If a special token contains a safe cut, the whole
    stream is one text.

    Args:
        longest: Maximum length of a yielded text, in characters. A longer stretch without a safe cut is cut at multiples of
            this length. No chunk may be longer.

    >>> list(cut_stream(["The qui", "ck brown fo", "x"]))
    ['The', ' quick brown', ' fox']
    """
    if not may_be_cut(special_tokens):
        yield "".join(chunks)
        return
    held: list[str] = []
    size = 0  # number of held characters
    last_two = ""
    for chunk in chunks:
        if not chunk:
            continue
        # A cut is recognized by the character after it, which may be the first of this chunk.
        window = last_two + chunk
        held.append(chunk)
        size += len(chunk)
        before = size - len(window)
        found = last_cut(window)
        cut = before + found
        if cut > 0 and found:
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
    """Return the greatest multiple of ``longest`` below ``size``."""
    return (size - 1) // longest * longest


def whole_letters(pieces: Iterable[str], scripts: Iterable[str] = ("all",)) -> Iterator[str]:
    """Regroup the pieces of a stream so that no piece ends inside a letter. The concatenation of all pieces stays the same.

    A letter is yielded as soon as the next character cannot belong to it. The time for a character does not depend on the
    length of the letter.

    Args:
        scripts: Scripts whose letters are kept whole. A character that is in none of these scripts is yielded at once.

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
    """An incomplete letter, to which characters are added one by one."""

    def __init__(self, scripts: Iterable[str]) -> None:
        self._script_of = script_of_characters(tuple(map(resolve_script, resolve_scripts(scripts))))
        self.held: list[str] = []
        self._walk = Walk({}, {}, None)
        self._state = ""
        self._whole = 0  # number of held characters up to the last possible end of the letter

    def add(self, character: str) -> str:
        """Add a character, and return the text that later characters cannot change."""
        ready: list[str] = []
        pending = [character]
        while pending:
            character = pending.pop()
            if not self.held:
                if not self._begins(character):
                    ready.append(character)
            elif not self._continues(character):
                # The letter ends at its last possible end; read the characters after that again.
                ready += self.held[: self._whole]
                pending += [character, *reversed(self.held[self._whole :])]
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

    def _continues(self, character: str) -> bool:
        state = self._walk.next_state(self._state, character)
        if state is None:
            return False
        self.held.append(character)
        self._state = state
        if self._walk.may_end(state):
            self._whole = len(self.held)
        return True
