"""Small changes of a text, such as typing errors. The share of tokens that a change replaces indicates how well a model
copes with this change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

CHANGES = {
    "typing error": "two neighbouring characters of a word swapped",
    "missing joiner": "the zero-width joiners of a word left out",
    "missing space": "the space in front of a word left out",
}
"""Descriptions of the small changes, keyed by name."""

_JOINERS = str.maketrans("", "", "\u200c\u200d")
_WORD = re.compile(r"\S+")
_SHARE = 10


def small_changes(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of those `CHANGES` that are possible in a text, with the changed text. One word in ten is changed, and
    at least one. The choice of words depends only on the text.

    >>> [(name, changed) for name, changed in small_changes("කා ab")]
    [('typing error', 'ාක ab'), ('missing space', 'කාab')]
    """
    words = list(_WORD.finditer(text))
    candidates_of = {
        "typing error": [word for word in words if len(set(word[0])) > 1],
        "missing joiner": [word for word in words if word[0] != word[0].translate(_JOINERS)],
        "missing space": [word for word in words if text[word.start() - 1 : word.start()] == " "],
    }
    for name, candidates in candidates_of.items():
        if not candidates:
            continue
        random = Random(f"{name} {text}".encode(errors="surrogatepass"))
        parts, at = [], 0
        chosen = random.sample(candidates, min(len(candidates), max(1, len(words) // _SHARE)))
        for word in sorted(chosen, key=lambda word: word.start()):
            start, changed = word.start(), word[0]
            if name == "typing error":
                changed = _swapped(changed, random)
            elif name == "missing joiner":
                changed = changed.translate(_JOINERS)
            else:
                start -= 1
            parts += [text[at:start], changed]
            at = word.end()
        yield name, "".join([*parts, text[at:]])


def _swapped(word: str, random: Random) -> str:
    places = [place for place in range(len(word) - 1) if word[place] != word[place + 1]]
    place = random.choice(places)
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
