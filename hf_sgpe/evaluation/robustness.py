"""Small changes of a text, as people make them: what a tokenizer makes of them says how well a model will cope."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

CHANGES = {
    "typing error": "two neighbouring characters of a word swapped",
    "missing joiner": "the zero-width joiners of a word left out",
    "missing space": "the space in front of a word left out",
}
"""Name of a small change → what it is."""

_JOINERS = str.maketrans("", "", "\u200c\u200d")
_WORD = re.compile(r"\S+")
_SHARE = 10


def small_changes(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of `CHANGES` and the text with that change in one word of ten, but in at least one.

    A change that no word can have is left out. Which words have it depends on the text alone.

    >>> [(name, changed) for name, changed in small_changes("කා ab")]
    [('typing error', 'ාක ab'), ('missing space', 'කාab')]
    """
    words = list(_WORD.finditer(text))
    able = {
        "typing error": [
            word for word in words if any(one != other for one, other in zip(word[0], word[0][1:], strict=False))
        ],
        "missing joiner": [word for word in words if word[0] != word[0].translate(_JOINERS)],
        "missing space": [word for word in words if text[word.start() - 1 : word.start()] == " "],
    }
    for name, those in able.items():
        if not those:
            continue
        random = Random(f"{name} {text}".encode(errors="surrogatepass"))
        parts, at = [], 0
        chosen = random.sample(those, min(len(those), max(1, len(words) // _SHARE)))
        for word in sorted(chosen, key=lambda word: word.start()):
            start, written = word.start(), word[0]
            if name == "typing error":
                written = _swapped(written, random)
            elif name == "missing joiner":
                written = written.translate(_JOINERS)
            else:
                start -= 1
            parts += [text[at:start], written]
            at = word.end()
        yield name, "".join([*parts, text[at:]])


def _swapped(word: str, random: Random) -> str:
    places = [place for place in range(len(word) - 1) if word[place] != word[place + 1]]
    place = random.choice(places)
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
