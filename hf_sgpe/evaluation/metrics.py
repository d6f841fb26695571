"""Measures of tokenizers on text: tokens per word, the shares of syllables, letters and clusters that are cut, and other
measures.

Text is measured line by line, in NFC. A word is a run of characters without white space (`hf_sgpe.corpora.measured_text`,
`hf_sgpe.corpora.held_out`). In scripts without spaces between words, words are not counted. A syllable, letter or cluster is
cut if a token ends strictly inside it, between two characters or two bytes. For measures that compare languages, the texts
must be line-by-line translations of each other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from math import log
from typing import TYPE_CHECKING, Any

import regex

from hf_sgpe.corpora.measured_text import normalized, words_of
from hf_sgpe.counts.counters import only_texts
from hf_sgpe.evaluation.languages import letters_of
from hf_sgpe.evaluation.measurable import Measurable, TokenEnds, byte_offsets, measurable
from hf_sgpe.evaluation.robustness import small_changes
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS, every_script
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.tokenizer import BPETokenizer

if TYPE_CHECKING:
    from hf_sgpe.tokenization_sgpe import SGPETokenizerFast

# A word of letters and digits, with marks and joiners.
_LETTERS = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}\u200C\u200D]*")

# Extended grapheme clusters (UAX #29). Flags have their own alternative, because at each flag, \X looks back over all flags.
_CLUSTER = regex.compile(r"\p{RI}{2}[\p{GCB=Extend}\p{GCB=SpacingMark}\u200D]*+|\X")
# Only clusters with a character that matches this pattern are counted. Punctuation, digits and ASCII are left out. (No
# tokenizer can cut a single byte.)
_BEYOND_ASCII = regex.compile(r"(?![\x00-\x7F])[\p{L}\p{M}\p{Extended_Pictographic}\p{RI}]")

RENYI_ALPHA = 2.5
"""The order of the Rényi entropy that correlates best with BLEU (Zouhar et al. 2023, "Tokenization and the Noiseless
Channel").
"""


@dataclass
class Evaluation:
    """Counts of a text's units, and the measures computed from them. A measure is None if there is nothing to measure.

    Attributes:
        unspaced: Number of letters and marks in scripts without spaces between words. If they are more than half of the
            characters, measures per word are None.
        clusters: Number of extended grapheme clusters with a letter, mark or emoji outside ASCII.
        cut_clusters: Number of the ``clusters`` that are cut.
        fallback_tokens: Number of tokens whose bytes are not valid UTF-8 because a character is incomplete.
        unknown_bytes: Number of bytes that the unknown token replaces. None if the tokenizer has no unknown token.
        vocab_size: Number of tokens in the vocabulary; 0 if it is unknown.
        whole_words: Number of words that consist only of letters, marks and digits.
        single_words: Number of the ``whole_words`` that are one token.
        token_lengths: Numbers of tokens, keyed by their length in characters. Fallback tokens are left out.
        token_counts: Numbers of tokens, keyed by id; empty if the ids are unknown.
        compared: Numbers of tokens, before the change, in lines with a small change, keyed by its name in `CHANGES`.
        changed: Numbers of the ``compared`` tokens that the change replaced, with the same keys.
    """

    lines: int = 0
    words: int = 0
    characters: int = 0
    unspaced: int = 0
    bytes: int = 0
    tokens: int = 0
    syllables: int = 0
    cut_syllables: int = 0
    letters: int = 0
    cut_letters: int = 0
    clusters: int = 0
    cut_clusters: int = 0
    fallback_tokens: int = 0
    unknown_bytes: int | None = None
    vocab_size: int = 0
    whole_words: int = 0
    single_words: int = 0
    token_lengths: Counter[int] = field(default_factory=Counter, repr=False)
    token_counts: Counter[int] = field(default_factory=Counter, repr=False)
    compared: Counter[str] = field(default_factory=Counter, repr=False)
    changed: Counter[str] = field(default_factory=Counter, repr=False)

    def has_spaces(self) -> bool:
        """Return whether most of the text is in scripts with spaces between words."""
        return 2 * self.unspaced <= self.characters

    @property
    def tokens_per_word(self) -> float | None:
        """Fertility: tokens divided by words."""
        return self.tokens / self.words if self.words and self.has_spaces() else None

    @property
    def tokens_per_character(self) -> float | None:
        """Tokens divided by code points."""
        return self.tokens / self.characters if self.characters else None

    @property
    def bytes_per_token(self) -> float | None:
        """Compression: UTF-8 bytes divided by tokens."""
        return self.bytes / self.tokens if self.tokens else None

    @property
    def characters_per_token(self) -> float | None:
        """Code points divided by tokens."""
        return self.characters / self.tokens if self.tokens else None

    @property
    def cut_syllable_share(self) -> float | None:
        """Share of cut syllables among the syllables of the supported scripts, 0 to 1."""
        return self.cut_syllables / self.syllables if self.syllables else None

    @property
    def cut_letter_share(self) -> float | None:
        """Share of cut letters among the visible letters of the supported scripts, 0 to 1."""
        return self.cut_letters / self.letters if self.letters else None

    @property
    def cut_cluster_share(self) -> float | None:
        """Share of cut clusters among the extended grapheme clusters of all scripts, 0 to 1.

        Clusters of only ASCII characters, which cannot be cut, and punctuation and digits are left out. The share is None if
        at most one character in a thousand begins a counted cluster, as in English text with a few accents.
        """
        return self.cut_clusters / self.clusters if self.clusters * 1000 > self.characters else None

    @property
    def fallback_rate(self) -> float | None:
        """Share of the tokens that contain only a part of a character, 0 to 1."""
        return self.fallback_tokens / self.tokens if self.tokens else None

    @property
    def unknown_share(self) -> float | None:
        """Share of the text's bytes that the unknown token replaces, 0 to 1. Decoding does not restore this text."""
        return None if self.unknown_bytes is None or not self.bytes else self.unknown_bytes / self.bytes

    @property
    def single_token_words(self) -> float | None:
        """Share of the words that are one token, 0 to 1: the single-token retention rate (STRR)."""
        return self.single_words / self.whole_words if self.whole_words and self.has_spaces() else None

    @property
    def changed_tokens(self) -> float | None:
        """Share of the tokens that are replaced if one word in ten gets a small change (see `CHANGES`), 0 to 1."""
        return self.changed.total() / self.compared.total() if self.compared and self.has_spaces() else None

    @property
    def renyi_efficiency(self) -> float | None:
        """Evenness of vocabulary use: the Rényi entropy (order 2.5) of the ids, divided by its maximum."""
        if not self.token_counts or self.vocab_size < 2:
            return None
        return _renyi_entropy(self.token_counts.values(), RENYI_ALPHA) / log(self.vocab_size)

    @property
    def vocabulary_used(self) -> float | None:
        """Share of the vocabulary that occurs in the text, 0 to 1. The share grows with the length of the text."""
        return len(self.token_counts) / self.vocab_size if self.token_counts else None

    def parity(self, reference: Evaluation) -> float | None:
        """Return the number of tokens divided by that of ``reference``, the same lines in another language. If the numbers
        of lines differ, return None.
        """
        return self.tokens / reference.tokens if reference.tokens and self.lines == reference.lines else None

    def add_syllable(
        self, letters: Sequence[str], ends: list[int], start: int, stop: int, length: Callable[[str], int]
    ) -> bool:
        """Count a syllable and its letters, and return whether one of ``ends`` cuts the syllable. The ends (ascending),
        ``start``, ``stop`` and the ``length`` of a letter have the same unit.
        """
        self.syllables += 1
        self.letters += len(letters)
        if not ends_inside(ends, start, stop):
            return False
        self.cut_syllables += 1
        places = accumulate(map(length, letters), initial=start)
        self.cut_letters += sum(ends_inside(ends, *span) for span in pairwise(places))
        return True

    def _add_clusters(self, text: str, ends: Sequence[int]) -> None:
        if text.isascii():
            return
        stop = 0
        for cluster in _CLUSTER.findall(text):
            start, stop = stop, stop + len(cluster.encode())
            if _BEYOND_ASCII.search(cluster):
                self.clusters += 1
                self.cut_clusters += ends_inside(ends, start, stop)

    def _add_words(self, text: str, ends: Sequence[int]) -> None:
        """Count the words of only letters, marks and digits, and those that are one token, with or without the space."""
        places = byte_offsets(text)
        boundaries = {0, *ends}
        for word in _LETTERS.finditer(text):
            start, stop = places[word.start()], places[word.end()]
            self.whole_words += 1
            begins = start in boundaries or (text[word.start() - 1 : word.start()] == " " and start - 1 in boundaries)
            self.single_words += stop in boundaries and begins and not ends_inside(ends, start, stop)

    def _add_changes(self, text: str, ids: Sequence[int], form: Measurable) -> None:
        before = Counter(ids)
        for change, changed in small_changes(text):
            self.compared[change] += len(ids)
            self.changed[change] += (before - Counter(form.encode(changed)[0])).total()

    def to_dict(self) -> dict[str, Any]:
        """Return counts, measures and the distribution of token lengths as plain JSON values."""
        counters = ("token_counts", "token_lengths", "compared", "changed")
        sums = {name: value for name, value in vars(self).items() if name not in counters}
        lengths = dict(sorted(self.token_lengths.items()))
        sums["changed_by"] = {change: self.changed[change] / total for change, total in self.compared.items()}
        return {**sums, **{name: getattr(self, name) for name in MEASURES}, "token_lengths": lengths}


MEASURES = tuple(name for name, member in vars(Evaluation).items() if isinstance(member, property))
"""Names of the measures, the properties of `Evaluation`."""


@cache
def _unspaced() -> regex.Pattern[str]:
    return letters_of(tuple(script for script in every_script().values() if not script.spaced))


def count_unspaced(text: str) -> int:
    """Return the number of letters and marks in scripts without spaces between words."""
    return len(_unspaced().findall(text))


def evaluate(tokenizer: TokenEnds | BPETokenizer | SGPETokenizerFast, lines: Iterable[str]) -> Evaluation:
    """Measure a tokenizer on lines of text. Memory grows with the vocabulary, not with the text.

    Args:
        tokenizer: A tokenizer of this package, or any tokenizer from `load_measurable`. A plain `TokenEnds` has no ids, so
            the measures that need ids are None.

    >>> result = evaluate(lambda text: [3, len(text.encode())], ["කා"])
    >>> result.cut_syllable_share
    1.0
    """
    trie = LinguisTrie(SCRIPTS, whole_clusters=True)
    form = measurable(tokenizer)
    result = Evaluation(vocab_size=form.vocab_size, unknown_bytes=None if form.unknown is None else 0)
    for line in only_texts(lines):
        text = normalized(line)
        ids, ends = form.encode(text)
        result.token_counts.update(ids)
        result.lines += 1
        result.words += len(words_of(text))
        result.characters += len(text)
        result.unspaced += count_unspaced(text)
        result.bytes += len(text.encode())
        result.tokens += len(ends)
        for length, number in Counter(_token_lengths(text, ends)).items():
            if length is None:
                result.fallback_tokens += number
            else:
                result.token_lengths[length] += number
        if result.unknown_bytes is not None:
            spans = zip(ids, pairwise([0, *ends]), strict=True)
            result.unknown_bytes += sum(stop - start for id, (start, stop) in spans if id == form.unknown)
        result._add_words(text, ends)
        result._add_clusters(text, ends)
        if ids:
            result._add_changes(text, ids, form)
        for syllable, start, stop in syllable_spans(trie, text):
            result.add_syllable(trie.letters(syllable), ends, start, stop, lambda letter: len(letter.encode()))
    return result


def _token_lengths(text: str, ends: Iterable[int]) -> Iterator[int | None]:
    """Yield the length of each token in characters; None for a token that begins or ends inside a character.

    >>> list(_token_lengths("aක", [1, 2, 4]))
    [1, None, None]
    """
    number_at = {offset: number for number, offset in enumerate(byte_offsets(text))}
    start: int | None = 0
    for end in ends:
        stop = number_at.get(end)
        yield None if start is None or stop is None else stop - start
        start = stop


def _renyi_entropy(counts: Iterable[int], alpha: float) -> float:
    """Return the Rényi entropy of counts, in nats. The order ``alpha`` must not be 1."""
    counts = list(counts)
    total = sum(counts)
    return log(sum((count / total) ** alpha for count in counts)) / (1 - alpha)


def syllable_spans(trie: LinguisTrie, text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each syllable in the scripts of the trie, with the byte offsets at which it starts and ends."""
    start = 0
    for unit in trie.tokenize(text):
        stop = start + len(unit.encode())
        if trie.script_of(unit):
            yield unit, start, stop
        start = stop


def ends_inside(ends: Sequence[int], start: int, stop: int) -> bool:
    """Return whether any of ``ends`` (ascending) is strictly between ``start`` and ``stop``."""
    place = bisect_right(ends, start)
    return place < len(ends) and ends[place] < stop
