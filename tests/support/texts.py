"""Strategies for text that is difficult for split patterns, grammars and byte-level tokenizers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import strategies as st

SINHALA = "කරයසතනඅඉාිීුේ්ංඃ\u0d81\u0db2\u0dd5෴෦"
DEVANAGARI = "कषत्रज़ड़आइािीुेंँः्ऽॐ।०"
TAMIL = "கஷ்ஸ்ரீஜாிௌஃ௧"
JOINERS = "\u200c\u200d"
WHITE = " \t\n\r\u00a0\u2028\u0085\u3000"
LATIN = "aAbzSstTdDlLvVeErRmM'’“é1290_-/.,!?(|<>"
OTHERS = "中あ한ไท😀👩\u0301\u0307\ufe0f\ufeff\u0345ǅʰªßſK½Ⅷ²€"
NEWEST = "\U00011de0\U0001c900\u088f\ua7ce\u0c5c\U00016ebb"  # later than the engine's Unicode, or moved since

nasty = st.text(st.sampled_from(SINHALA + DEVANAGARI + TAMIL + JOINERS * 4 + WHITE + " " * 8 + LATIN + OTHERS), max_size=40)
indic = st.text(st.sampled_from(SINHALA + DEVANAGARI + JOINERS + " "), max_size=30)
newest = st.text(st.sampled_from(SINHALA + WHITE + LATIN + NEWEST * 3), max_size=20)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
texts = nasty | indic | newest | any_text

COUNTED_WORDS = st.text(min_size=1, max_size=12).map(str.encode) | st.sampled_from(
    [b"a", b"ab", "ශ්‍රී".encode(), b"\0", b"\x7f" * 40]
)
COUNTS = st.dictionaries(COUNTED_WORDS, st.integers(1, 1 << 40), max_size=40)
"""Word → its frequency."""


def chunked(data, cuts: Iterable[int]):
    """Cut a text or bytes at some positions."""
    return [data[start:stop] for start, stop in pairwise([0, *sorted(cuts), len(data)])]
