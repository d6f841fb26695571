"""Counted words: how often each word occurs in some text, as a value, and how texts are counted.

What a word is, a `TrainingConfig` decides. Nothing here reads corpora; that is the business of `trainers`.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from functools import cache
from itertools import chain, groupby
from math import gcd, isfinite, lcm
from typing import TYPE_CHECKING, Any

from hf_sgpe import kernel
from hf_sgpe.counts.files import (
    BUCKETS,
    MOST,
    CountsInfo,
    Digest,
    Source,
    bucket_of,
    different,
    in_order,
    read,
    read_info,
    table_of,
    write,
)
from hf_sgpe.errors import SGPEError
from hf_sgpe.special_tokens import any_of
from hf_sgpe.splitting.normalization import normalize
from hf_sgpe.splitting.regex_splits import RegexPreTokenizer

if TYPE_CHECKING:
    import pyarrow as pa

    from hf_sgpe.training import TrainingConfig

logger = logging.getLogger(__name__)

LONGEST_WORD = 1 << 16
"""Bytes of the longest word that is counted as a whole."""

_FINEST_WEIGHT = 10**6
_ROWS = 1 << 16
# Of the readable counter: a string, a number and their places in a table that may just be growing.
_BYTES_PER_WORD = 300


def exact_weight(weight: float) -> Fraction:
    """A weight as the fraction that its decimals spell: 0.3 is 3/10.

    Raises:
        SGPEError: it is no number above 0, or has more than six decimals.

    >>> exact_weight(0.3)
    Fraction(3, 10)
    """
    if isinstance(weight, (int, float)) and not isinstance(weight, bool) and isfinite(weight):
        exact = Fraction(str(weight))
        if exact > 0 and exact.denominator <= _FINEST_WEIGHT:
            return exact
    raise SGPEError(f"a weight must be a number above 0 with no more than six decimals, not {weight!r}")


class WordCounts:
    """How often each word occurs in some text: all that training needs to know of it, and a value.

    Counts of parts add up to the counts of the whole, wherever and in whatever order the parts were counted; training on
    the sum gives the identical tokenizer. Counts can be weighted, exactly: ``si * 2.5 + en`` is a mixture in which every
    word of ``si`` counts two and a half times. Memory grows with distinct words.

    Args:
        counts: Word (UTF-8) → how often it occurs, in parts of 1 / ``scale``.
        counting: `TrainingConfig.counting` of the configuration that the words were cut with.
        scale: How many parts make one occurrence: 1 but for weights that are no whole numbers.
        sources: What was counted, for whoever reads a file of them; equal counts may have other ones.

    Raises:
        SGPEError: weights and counts together are too large to be counted.

    >>> from hf_sgpe import TrainingConfig
    >>> config = TrainingConfig(vocab_size=1000, recipe="bpe", pattern="gpt2")
    >>> counts = WordCounts.from_texts(["a b"], config) + WordCounts.from_texts(["a"], config)
    >>> sorted(counts.items())
    [(b' b', 1), (b'a', 2)]
    >>> (counts * 0.5).total()
    1.5
    """

    def __init__(
        self, counts: Mapping[bytes, int], counting: Mapping[str, Any], *, scale: int = 1, sources: Iterable[Source] = ()
    ) -> None:
        self.counting = dict(counting)
        self.sources = tuple(dict(source) for source in sources)
        # In lowest terms, so that equal counts are equally written.
        common = gcd(scale, *counts.values()) if scale > 1 else 1
        self.scale = scale // common
        self._counts = {word: count // common for word, count in counts.items()} if common > 1 else dict(counts)
        if sum(self._counts.values()) > MOST:
            raise SGPEError(
                "there are too many running words to be added up: give fewer files, smaller weights, or weights with fewer "
                "decimals"
            )

    @classmethod
    def from_texts(cls, texts: Iterable[str], config: TrainingConfig) -> WordCounts:
        """Counts the words of ``texts``, each text by itself, without its special tokens.

        Raises:
            SGPEError: ``texts`` is one text, whose characters would be taken for texts, or holds something else.
        """
        counter = make_word_counter(config)
        for batch in in_batches(only_texts(texts)):
            counter.add(batch)
        return counter.result()

    def __add__(self, other: WordCounts) -> WordCounts:
        if setting := different(self.counting, other.counting):
            raise SGPEError(
                f"word counts cannot be added: {setting.replace('_', ' ')} {self.counting.get(setting)!r} and "
                f"{other.counting.get(setting)!r} cut other words"
            )
        scale = lcm(self.scale, other.scale)
        total: Counter[bytes] = Counter()
        for counts in (self, other):
            factor = scale // counts.scale
            total.update(counts._counts if factor == 1 else {word: n * factor for word, n in counts.items()})
        return WordCounts(total, self.counting, scale=scale, sources=self.sources + other.sources)

    def __mul__(self, weight: float) -> WordCounts:
        """The same words, each ``weight`` times as often; any number above 0 with up to six decimals.

        Raises:
            SGPEError: the weight is no such number.
        """
        factor = exact_weight(weight)
        if factor == 1:
            return self
        counts = {word: count * factor.numerator for word, count in self._counts.items()}
        return WordCounts(counts, self.counting, scale=self.scale * factor.denominator, sources=self.sources)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordCounts):
            return NotImplemented
        return (self.counting, self.scale, self._counts) == (other.counting, other.scale, other._counts)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        """The number of distinct words."""
        return len(self._counts)

    def __getitem__(self, word: bytes) -> int:
        return self._counts.get(word, 0)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._counts)

    def items(self) -> Collection[tuple[bytes, int]]:
        """(word, count in parts of 1 / ``scale``), in no particular order."""
        return self._counts.items()

    def values(self) -> Collection[int]:
        """The counts in parts of 1 / ``scale``, in the order of `items`."""
        return self._counts.values()

    def total(self) -> int | float:
        """The number of running words, weighted."""
        parts = sum(self._counts.values())
        return parts if self.scale == 1 else parts / self.scale

    def __repr__(self) -> str:
        return f"WordCounts({len(self):,} distinct words, {self.total():,} running words)"

    def digest(self) -> str:
        """SHA-256 (hexadecimal) of the words, their counts and how they were cut: equal counts, equal digest."""
        import numpy as np

        words = in_order(self._counts)
        digest = Digest(self.counting if self.scale == 1 else {**self.counting, "scale": self.scale})
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        counts = np.fromiter(map(self._counts.__getitem__, words), np.int64, len(words))
        digest.update(b"".join(words), lengths, counts)
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> CountsInfo:
        """Writes one Parquet file, the same bytes for the same counts of the same sources.

        Raises:
            SGPEError: the counts are weighted, or pyarrow is not installed.
        """
        if self.scale != 1:
            raise SGPEError("weighted counts are not kept: save them as they were counted, and weight them when you train")
        words = in_order(self._counts)
        parts = (words[start : start + _ROWS] for start in range(0, len(words), _ROWS))
        tables = (table_of(part, [self._counts[word] for word in part]) for part in parts)
        return write(path, tables, self.counting, sources=self.sources)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordCounts:
        """Reads what `save`, or counting on disk, wrote.

        Raises:
            SGPEError: the file holds no word counts, or damaged ones.
            OSError: the file cannot be opened.
        """
        info = read_info(path)
        words: dict[bytes, int] = {}
        for _, table in read(path):
            words.update(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))
        return cls(words, info.counting, sources=info.sources)


def only_texts(texts: Iterable[str]) -> Iterator[str]:
    """``texts`` as they are.

    Raises:
        SGPEError: it is a single text, whose characters would be taken for texts, or gives something that is none.
    """
    if isinstance(texts, str):
        raise SGPEError("expected an iterable of texts, not one text: put it in a list")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise SGPEError(f"item {number} of the iterator is no text but {type(text).__name__}")
        yield text


def in_batches(texts: Iterable[str], characters: int = 1 << 20) -> Iterator[list[str]]:
    """The texts in lists of at least so many characters, the last one excepted."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def pieces_of(word: str, longest: int = LONGEST_WORD) -> Iterator[str]:
    """A word as it is counted: whole, or in pieces of at most ``longest`` bytes of UTF-8, between characters.

    >>> list(pieces_of("aකab", 4))
    ['aක', 'ab']
    """
    encoded = word.encode()
    start = 0
    while len(encoded) - start > longest:
        end = start + longest
        while encoded[end] & 0xC0 == 0x80:
            end -= 1
        yield encoded[start:end].decode()
        start = end
    yield encoded[start:].decode()


@cache
def _say_that_words_are_cut() -> None:
    logger.warning("the text has words of more than %s bytes: they are counted in pieces of that size", f"{LONGEST_WORD:,}")


class WordCounter:
    """Counts words as texts come: special tokens taken out, the rest normalized and split. The readable form.

    Words of more than `LONGEST_WORD` bytes, which no language has, count in pieces of that size.

    Args:
        config: Decides what a word is.
    """

    def __init__(self, config: TrainingConfig) -> None:
        self._counting = config.counting()
        self._splitter = RegexPreTokenizer(*config.pre_tokenizer().patterns)
        self._normalization = config.normalization or "none"
        self._special_pattern = any_of(frozenset(config.special_tokens)) if config.special_tokens else None
        self._counts: Counter[str] = Counter()

    def add(self, texts: Sequence[str]) -> None:
        """Counts the words of texts, each by itself."""
        kernel.note_slow_use(sum(map(len, texts)))
        for text in texts:
            for part in self._prepared(text):
                words: Iterable[str] = self._splitter.split(part)
                if len(part) > LONGEST_WORD // 4:  # shorter ones have no such word
                    words = list(words)
                    pieces = list(chain.from_iterable(map(pieces_of, words)))
                    if len(pieces) > len(words):
                        _say_that_words_are_cut()
                    words = pieces
                self._counts.update(words)

    def result(self) -> WordCounts:
        """What was counted so far, as a value."""
        return WordCounts({word.encode(): count for word, count in self._counts.items()}, self._counting)

    def peak(self, size: int) -> int:
        """How many bytes of memory this takes, roughly and at the most, while texts of ``size`` bytes are added."""
        return (len(self._counts) + size // 4) * _BYTES_PER_WORD

    def take(self, *, threads: int = 1) -> Iterator[tuple[int, pa.Table]]:
        """What was counted so far, as `hf_sgpe.counts.files.read` gives it, and forgets it in the end.

        Args:
            threads: To sort words by, if the kernel can; 1 for none besides the caller's.
        """
        words = in_order(word.encode() for word in self._counts)
        for bucket, group in groupby(words, key=bucket_of):
            found = list(group)
            yield bucket, table_of(found, [self._counts[word.decode()] for word in found])
        self._counts.clear()

    def _prepared(self, text: str) -> list[str]:
        """The parts of a text between special tokens, normalized."""
        pattern = self._special_pattern
        parts = pattern.split(text) if pattern and pattern.search(text) else [text]
        return [normalize(part, self._normalization) for part in parts]


class NativeWordCounter(WordCounter):
    """The same by the native kernels, which release the GIL: several counters can be at work in threads."""

    def __init__(self, config: TrainingConfig) -> None:
        super().__init__(config)
        special_tokens = [token.encode() for token in config.special_tokens or ()]
        scanner = self._splitter.scanner
        self._native = kernel.native().WordCounter(scanner, self._normalization == "nfc", special_tokens, LONGEST_WORD)

    def add(self, texts: Sequence[str]) -> None:
        """Counts the words of texts, each by itself."""
        for left_out in self._native.add(texts):
            self._native.add_prepared(self._prepared(texts[left_out]))
        if self._native.has_cut:
            _say_that_words_are_cut()

    def __len__(self) -> int:
        return len(self._native)

    def update(self, other: NativeWordCounter) -> None:
        """Adds what ``other``, of the same configuration, has counted."""
        self._native.merge(other._native)

    def result(self) -> WordCounts:
        """What was counted so far, as a value."""
        return WordCounts(self._native.counts(), self._counting)

    def peak(self, size: int) -> int:
        """How many bytes of memory this takes, at the most, while texts of ``size`` bytes are added."""
        return int(self._native.peak(size))

    def take(self, *, threads: int = 1) -> Iterator[tuple[int, pa.Table]]:
        """As the readable one's."""
        import pyarrow as pa

        # The words of a part are in memory twice, so there are several of many words.
        width = BUCKETS >> min(max(len(self._native) >> 17, 1).bit_length() - 1, 5)
        for first, (words, ends, counts, bucket_ends) in self._parts(width, threads):
            # From an array of NumPy's, pyarrow would import pandas, which takes a second.
            buffers = {"word": (pa.large_binary(), ends, words), "count": (pa.int64(), counts)}
            table = pa.table(
                {
                    name: pa.Array.from_buffers(kind, len(counts), [None, *map(pa.py_buffer, parts)])
                    for name, (kind, *parts) in buffers.items()
                }
            )
            start = 0
            for bucket, stop in enumerate(bucket_ends.tolist(), first):
                if stop > start:
                    yield bucket, table.slice(start, stop - start)
                    start = stop
        self._native.clear()

    def _parts(self, width: int, threads: int) -> Iterator[tuple[int, Any]]:
        """The words of so many buckets at a time: (the first of them, arrays). Each thread is one part ahead."""
        if threads == 1:
            for first in range(0, BUCKETS, width):
                yield first, self._native.part(first, first + width)
            return
        with ThreadPoolExecutor(threads) as pool:
            coming: deque[tuple[int, Future[Any]]] = deque()
            for first in range(0, BUCKETS, width):
                coming.append((first, pool.submit(self._native.part, first, first + width)))
                if len(coming) > threads:
                    begun, part = coming.popleft()
                    yield begun, part.result()
            for begun, part in coming:
                yield begun, part.result()


def make_word_counter(config: TrainingConfig) -> WordCounter:
    """The word counter of the kernel in use; the readable one where no native scanner knows the split pattern."""
    chosen = NativeWordCounter if kernel.scanner(config.pre_tokenizer().patterns) is not None else WordCounter
    return chosen(config)
