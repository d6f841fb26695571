"""What it costs to cut text by one split pattern alone, and words of the scripts with it: the recipe ``portable``.

Runtimes that know split patterns by name cut text by one of them, and they do not normalize it. Where it cuts inside words
of a script, tokens end there; and what is spelled in two ways needs tokens for both.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.splitting.regex_splits import RegexPreTokenizer
from hf_sgpe.splitting.syllables import LinguisTrie

MOST_WORDS = 0.005
"""The share of more words, and of words that NFC respells, up to which ``portable`` is taken if nobody names a recipe."""

MOST_CUTS = 0.001
"""The same for the share of syllables that are cut."""


class SplitCost(NamedTuple):
    """What is lost, on some text.

    Attributes:
        words: How many more words there are, each of which is a token at least, as a share of them.
        cuts: The share of the scripts' syllables that are cut.
        respelled: The share of words that NFC changes.
    """

    words: float
    cuts: float
    respelled: float

    @property
    def is_small(self) -> bool:
        """Whether it is within `MOST_WORDS` and `MOST_CUTS`."""
        return max(self.words, self.respelled) <= MOST_WORDS and self.cuts <= MOST_CUTS

    def __str__(self) -> str:
        return (
            f"{self.words:.2%} more words, {self.cuts:.2%} of the syllables cut, and {self.respelled:.2%} of the words in "
            "another spelling than NFC's"
        )


def cost_of_one_split(counts: WordCounts) -> SplitCost:
    """What is lost where the pattern of a ``hybrid`` splitting cuts the words of its scripts, too. O(length of the words).

    Args:
        counts: Words of the recipe ``hybrid``, without normalization.

    >>> from hf_sgpe.splitting.splitting import Splitting
    >>> for pattern in ("bloom", "o200k"):
    ...     splitting = Splitting(pattern=pattern, normalization="none")
    ...     print(cost_of_one_split(WordCounts.from_texts(["ශ්‍රී ලංකාව"], splitting)))
    0.00% more words, 0.00% of the syllables cut, and 0.00% of the words in another spelling than NFC's
    50.00% more words, 25.00% of the syllables cut, and 0.00% of the words in another spelling than NFC's
    """
    splitting = counts.splitting
    one, trie = RegexPreTokenizer(*splitting.patterns), LinguisTrie(splitting.scripts, whole_clusters=True)
    words = more = syllables = cuts = respelled = 0
    for raw, count in zip(counts.words(), counts.values(), strict=True):
        words += count
        word = raw.decode()
        respelled += count * (not unicodedata.is_normalized("NFC", word))
        if trie.script_of(word) is None:
            continue
        ends = set(trie.ends(word, leading_space=True).tolist())
        place = 0
        for piece in one.split(word)[:-1]:
            place += len(piece)
            more += count
            cuts += count * (place not in ends)
        syllables += len(ends) * count
    return SplitCost(more / max(words, 1), cuts / max(syllables, 1), respelled / max(words, 1))
