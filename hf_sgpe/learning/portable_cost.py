"""The cost of the recipe ``portable``: how many more tokens and cut syllables it causes than the recipe ``hybrid``.

Some runtimes know only named split patterns. They split all text with one pattern, including the words of the scripts, and
do not normalize text. This has three costs. If the pattern cuts inside a word, a token must end there. If a word has two
spellings, both spellings need tokens. If the pattern differs from the pattern of ``hybrid``, text outside the scripts is
split differently, too. To measure this last cost, `more_tokens` learns a tokenizer with each pattern.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import regex

from hf_sgpe.bpe.merging import merge_words, spell_tokens
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.bpe.unit_tier import BYTES
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.splitting.patterns import resolve_pattern
from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.splitting.syllables import LinguisTrie

_MOST_TOKENS = 0.005
"""A limit for two costs: the share of additional tokens, and the share of words that NFC changes. ``portable`` is the
default recipe if neither is above this limit.
"""

_MOST_CUTS = 0.001
"""A limit for the share of syllables that the pattern cuts. ``portable`` is the default recipe if the share is not above
this limit.
"""

TRIAL_TOKENS, TRIAL_CHARACTERS = 8000, 1 << 20
"""The number of tokens to learn when two patterns are compared, and the maximum number of characters of the text."""


class SplitCost(NamedTuple):
    """The cost of a split pattern on some text.

    Attributes:
        tokens: Number of additional tokens, as a share of the tokens with ``hybrid``; negative if there are fewer.
        cuts: Share of the scripts' syllables that the pattern cuts.
        respelled: Share of words that are not in NFC.
        pieces: Average number of pieces into which the pattern cuts a word of the scripts.
    """

    tokens: float
    cuts: float
    respelled: float
    pieces: float = 1

    @property
    def size(self) -> float:
        """The greatest of the three costs, each divided by its limit."""
        return max(self.tokens / _MOST_TOKENS, self.respelled / _MOST_TOKENS, self.cuts / _MOST_CUTS)

    @property
    def is_small(self) -> bool:
        """True if all three costs are within their limits."""
        return self.size <= 1

    def __str__(self) -> str:
        respelled = f", and {self.respelled:.2%} of the words not in NFC"
        if self.respelled < 5e-5:
            respelled = ""
        tokens = f"{abs(self.tokens):.2%} {'fewer' if round(self.tokens, 4) < 0 else 'more'} tokens"
        return f"{tokens}{',' if respelled else ' and'} {self.cuts:.2%} more cut syllables{respelled}"


def cost_of_one_split(counts: WordCounts, pattern: str | None = None) -> SplitCost:
    """Return the cost of splitting all text with one pattern, estimated from word counts: each word, and each piece into
    which the pattern cuts a word of the scripts, counts as one token. For the effect on other text, see `more_tokens`.

    Args:
        counts: Words counted with the recipe ``hybrid``, without normalization.
        pattern: Name or regex of the pattern. None means the pattern with which ``counts`` split text outside the scripts.

    >>> counts = WordCounts.from_texts(["ශ්‍රී ලංකාව"], Splitting(normalization="none"))
    >>> for pattern in ("bloom", "o200k"):
    ...     print(cost_of_one_split(counts, pattern))
    0.00% more tokens and 0.00% more cut syllables
    50.00% more tokens and 25.00% more cut syllables
    """
    splitting = counts.splitting
    patterns = splitting.patterns if pattern is None else (resolve_pattern(pattern),)
    splitter, trie = RegexPreTokenizer(*patterns), LinguisTrie(splitting.scripts, whole_clusters=True)
    words = of_scripts = more = syllables = cuts = respelled = 0
    for raw, count in zip(counts.words(), counts.values(), strict=True):
        words += count
        word = raw.decode()
        respelled += count * (not unicodedata.is_normalized("NFC", word))
        if trie.script_of(word) is None:
            continue
        ends = set(trie.ends(word, leading_space=True).tolist())
        place = 0
        for piece in splitter.split(word)[:-1]:
            place += len(piece)
            more += count
            cuts += count * (place not in ends)
        syllables += len(ends) * count
        of_scripts += count
    return SplitCost(
        more / max(words, 1), cuts / max(syllables, 1), respelled / max(words, 1), 1 + more / max(of_scripts, 1)
    )


def more_tokens(texts: Sequence[str], pattern: str, instead_of: Splitting) -> float:
    """Return how many more tokens text needs if it is split by ``pattern`` instead of ``instead_of``. The result is a share:
    0.01 means 1 % more tokens, and a negative share means fewer tokens.

    For each of the two splits, a plain BPE tokenizer with `TRIAL_TOKENS` tokens is learned from every second line. Then the
    tokens of the remaining lines are counted. Of the shares in all these lines and in those with words of the scripts, the
    greater is returned, so that the gain of one language does not hide the loss of another.

    Args:
        texts: The texts to learn from and to measure. If they are longer than `TRIAL_CHARACTERS` in total, only the
            beginning of each text is used.
        instead_of: The split to compare with, of the recipe ``hybrid``.
    """
    total = max(sum(map(len, texts)), TRIAL_CHARACTERS)
    lines = [text[: len(text) * TRIAL_CHARACTERS // total].splitlines(keepends=True) for text in texts]
    learning = "".join(line for text in lines for line in text[::2])
    of_scripts = regex.compile(instead_of.words_regex)
    parts: tuple[list[str], list[str]] = ([], [])
    for line in (line for text in lines for line in text[1::2]):
        parts[of_scripts.search(line) is None].append(line)
    held_out = ["".join(part) for part in parts]

    def tokens(splitting: Splitting) -> tuple[int, int]:
        words = WordCounts.from_texts([learning], splitting)
        merges = learn_merges(
            words.words(),
            words.values(),
            vocabulary=spell_tokens(BYTES, []),
            num_merges=TRIAL_TOKENS - len(BYTES),
            tie_break="smallest-pair-id",
            min_frequency=2,
        )

        def tokens_in(part: str) -> int:
            counted = WordCounts.from_texts([part], splitting)
            merged = merge_words(counted.words(), merges)
            return sum(len(ids) * count for ids, count in zip(merged, counted.values(), strict=True))

        theirs, others = map(tokens_in, held_out)
        return theirs, theirs + others

    before, after = tokens(instead_of), tokens(Splitting("bpe", pattern=pattern))
    return max((new / old - 1 for new, old in zip(after, before, strict=True) if old), default=0)
