r"""Cutting a stream of text where it does not matter: between two words, whatever pattern is used.

A *safe cut* stands after a letter or digit and before a punctuation mark, or before a single space that a letter or digit
follows; or after a line end that follows something other than white space, before a letter or digit. Every named pattern has
a word boundary there, no pattern looks across it, and normalization does not reach across it either. So the words of the
parts are the words of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import regex

from hf_sgpe.splitting.regex_splits import engines_agree

_WORD = r"[\p{L}\p{N}]"
# Marks that every named pattern parts from a letter before them. The danda is not one of them: SGPE's words may hold it.
_MARK = "[.,!?()…。，、۔،]"
# searched from the right, so that the last cut is found in time that does not grow with what lies before it
_SAFE_CUT = regex.compile(rf"(?r)(?:(?<={_WORD})(?=(?:{_MARK}| {_WORD}))|(?<=\S\n)(?={_WORD}))")
_FIRST_CUT = regex.compile(_SAFE_CUT.pattern.removeprefix("(?r)"))
_CUT_INSIDE = regex.compile(rf"{_WORD}(?:{_MARK}| )|\n{_WORD}")


def cut_stream(chunks: Iterable[str], special_tokens: Iterable[str] = (), *, longest: int | None = None) -> Iterator[str]:
    r"""Chunks cut anywhere → texts cut only where it does not matter; the concatenation stays the same.

    Each chunk is held until a safe cut is seen after it, so memory grows with the longest stretch without one, not with the
    stream. A special token that a safe cut could fall into holds the whole text back.

    Args:
        longest: A stretch without a safe cut is cut after so many characters all the same, and again after so many more.
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
    """How much of a stretch is cut off in whole lengths, so that something is left."""
    return (size - 1) // longest * longest
