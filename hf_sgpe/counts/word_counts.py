"""WordCounts: how often each word occurs in some text, as a value that can be added up, weighted, saved and loaded."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import chain
from math import gcd, isfinite, lcm

from hf_sgpe.counts.counters import in_batches, make_word_counter, only_texts
from hf_sgpe.counts.files import MOST, CountsInfo, Digest, Source, in_order, read, read_info, table_of, write
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.splitting import HasSplitting, Splitting

_FINEST_WEIGHT = 10**6
_ROWS = 1 << 16


def exact_weight(weight: float) -> Fraction:
    """A weight as the fraction that its decimals spell: 0.3 is 3/10.

    Raises:
        SGPEError: it is not a number above 0, or has more than six decimals.

    >>> exact_weight(0.3)
    Fraction(3, 10)
    """
    if isinstance(weight, (int, float)) and not isinstance(weight, bool) and isfinite(weight):
        exact = Fraction(str(weight))
        if exact > 0 and exact.denominator <= _FINEST_WEIGHT:
            return exact
    raise SGPEError(f"a weight must be a number above 0 with no more than six decimals, not {weight!r}")


def checked_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """Name of a file or glob → its weight, as given.

    Raises:
        SGPEError: it is no mapping, or `exact_weight` refuses one.
    """
    if not isinstance(weights, Mapping):
        raise SGPEError(f"weights must map names of files to numbers, not be {weights!r}")
    for name, weight in weights.items():
        try:
            exact_weight(weight)
        except SGPEError as error:
            raise SGPEError(f"weights, {name!r}: {error}") from None
    return dict(weights)


class WordCounts:
    """How often each word occurs in some text: all that training needs to know of it, and a value.

    Counts of parts add up to the counts of the whole, wherever and in whatever order the parts were counted; training on
    the sum gives the identical tokenizer. Counts can be weighted, exactly: ``si * 2.5 + en`` is a mixture in which every
    word of ``si`` counts two and a half times. Memory grows with distinct words.

    Args:
        counts: Word (UTF-8) → how often it occurs, in parts of 1 / ``scale``.
        splitting: How the words were cut.
        scale: How many parts make one occurrence: 1, unless weights are not whole numbers.
        sources: What was counted, told to the readers of a file. Equal counts may come from different sources.

    Raises:
        SGPEError: weights and counts together are too large to be counted.

    >>> splitting = Splitting("bpe", pattern="gpt2")
    >>> counts = WordCounts.from_texts(["a b"], splitting) + WordCounts.from_texts(["a"], splitting)
    >>> sorted(counts.items())
    [(b' b', 1), (b'a', 2)]
    >>> (counts * 0.5).total()
    1.5
    """

    def __init__(
        self, counts: Mapping[bytes, int], splitting: Splitting, *, scale: int = 1, sources: Iterable[Source] = ()
    ) -> None:
        self.splitting = splitting
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
    def from_texts(cls, texts: Iterable[str], config: HasSplitting) -> WordCounts:
        """Counts the words of ``texts``, each text by itself, without its special tokens.

        Args:
            config: A `TrainingConfig`, a `Splitting`, or whatever else says how text is cut.

        Raises:
            SGPEError: ``texts`` is one text, whose characters would be taken for texts, or holds something else.
        """
        counter = make_word_counter(config)
        for batch in in_batches(only_texts(texts)):
            counter.add(batch)
        return cls(counter.counts(), config.splitting)

    @classmethod
    def sum(cls, parts: Iterable[WordCounts]) -> WordCounts:
        """Adds up counts as ``+`` does, in one go: time grows with the words of all parts.

        Raises:
            SGPEError: there are none, or they were cut in different ways.
        """
        parts = list(parts)
        if not parts:
            raise SGPEError("there are no word counts to add up")
        first = parts[0]
        for other in parts[1:]:
            if setting := first.splitting.difference(other.splitting):
                ours, theirs = (one.to_dict()[setting] for one in (first.splitting, other.splitting))
                name = setting.replace("_", " ")
                raise SGPEError(f"word counts cannot be added: {name} {ours!r} and {theirs!r} cut other words")
        scale = lcm(*(counts.scale for counts in parts))
        total: Counter[bytes] = Counter()
        for counts in parts:
            factor = scale // counts.scale
            total.update(counts._counts if factor == 1 else {word: n * factor for word, n in counts.items()})
        return cls(total, first.splitting, scale=scale, sources=chain.from_iterable(counts.sources for counts in parts))

    def __add__(self, other: WordCounts) -> WordCounts:
        return WordCounts.sum([self, other])

    def __mul__(self, weight: float) -> WordCounts:
        """The same words, each ``weight`` times as often; any number above 0 with up to six decimals.

        Raises:
            SGPEError: the weight is not such a number.
        """
        factor = exact_weight(weight)
        if factor == 1:
            return self
        counts = {word: count * factor.numerator for word, count in self._counts.items()}
        return WordCounts(counts, self.splitting, scale=self.scale * factor.denominator, sources=self.sources)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordCounts):
            return NotImplemented
        return (self.splitting, self.scale, self._counts) == (other.splitting, other.scale, other._counts)

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
        digest = Digest(self.splitting, self.scale)
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
        return write(path, tables, self.splitting, sources=self.sources)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordCounts:
        """Reads a file that `save`, or counting on disk, wrote.

        Raises:
            SGPEError: the file holds no word counts, or damaged ones.
            OSError: the file cannot be opened.
        """
        info = read_info(path)
        words: dict[bytes, int] = {}
        for _, table in read(path):
            words.update(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))
        return cls(words, info.splitting, sources=info.sources)
