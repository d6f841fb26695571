"""WordCounts: the count of each word in a text. Counts can be added, weighted, saved and loaded."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import gcd, lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_sgpe.corpora.corpus_weights import exact_weight
from hf_sgpe.counts.count_files import (
    MOST,
    CountsInfo,
    Digest,
    Source,
    columns,
    read,
    read_info,
    table_of,
    total_of,
    write,
)
from hf_sgpe.counts.counters import WordCounter, in_batches, make_word_counter, only_texts
from hf_sgpe.counts.word_arrays import Words, added, in_order
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.splitting import HasSplitting, Splitting

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WordCounts:
    """The count of each word in a text. Training needs no other information about the text. Immutable.

    A text can be counted in parts, in any order and on any machine: the sum of the parts is the counts of the whole text.
    Weights are exact: ``si * 2.5 + en`` is a mixture in which every word of ``si`` counts two and a half times. In memory,
    each distinct word takes up 16 bytes more than its length.

    Args:
        counts: Counts in units of 1 / ``scale``, keyed by word (UTF-8).
        splitting: The rules that split the text into words.
        scale: Number of units per occurrence of a word. With weights that are whole numbers, the scale is 1.
        sources: The sources of the text, recorded in files. The sources do not affect equality.

    >>> splitting = Splitting("bpe", pattern="gpt2")
    >>> counts = WordCounts.from_texts(["a b"], splitting) + WordCounts.from_texts(["a"], splitting)
    >>> sorted(counts.items())
    [(b' b', 1), (b'a', 2)]
    >>> counts[b"a"], counts[b"c"]
    (2, 0)
    >>> (counts * 0.5).total()
    1.5
    """

    def __init__(
        self, counts: Mapping[bytes, int], splitting: Splitting, *, scale: int = 1, sources: Iterable[Source] = ()
    ) -> None:
        words = in_order(counts)
        self._set(Words.from_sorted(words), np.array([counts[word] for word in words], object), splitting, scale, sources)

    def _set(self, words: Words, counts: NDArray[Any], splitting: Splitting, scale: int, sources: Iterable[Source]) -> None:
        """Set all attributes. ``counts`` are int64, or Python integers if 64 bits are too few."""
        self.splitting = splitting
        self.sources = tuple(dict(source) for source in sources)
        # Reduce the fractions to lowest terms, so that equal counts have equal attributes.
        common = gcd(scale, int(np.gcd.reduce(counts))) if scale > 1 else 1
        self.scale = scale // common
        if common > 1:
            counts = counts // common
        self._total = total_of(counts)
        if self._total > MOST:
            raise SGPEError(
                "there are too many running words to add up: give fewer files, smaller weights, or weights with "
                "fewer decimals"
            )
        self._words, self._counts = words, counts.astype(np.int64, copy=False)
        self._counts.flags.writeable = False

    @classmethod
    def _from_arrays(
        cls, words: Words, counts: NDArray[Any], splitting: Splitting, *, scale: int = 1, sources: Iterable[Source] = ()
    ) -> WordCounts:
        made = cls.__new__(cls)
        made._set(words, counts, splitting, scale, sources)
        return made

    @classmethod
    def of_counter(cls, counter: WordCounter, config: HasSplitting) -> WordCounts:
        """Return the counts of a counter that was made for ``config``."""
        return cls._from_arrays(*counter.columns(), config.splitting)

    @classmethod
    def from_texts(cls, texts: Iterable[str], config: HasSplitting) -> WordCounts:
        """Count the words of ``texts``. Each text is counted separately, without its special tokens.

        Args:
            config: A `TrainingConfig`, a `Splitting`, or another object with a ``splitting``.
        """
        counter = make_word_counter(config)
        for batch in in_batches(only_texts(texts)):
            counter.add(batch)
        return cls.of_counter(counter, config)

    @classmethod
    def sum(cls, parts: Iterable[WordCounts]) -> WordCounts:
        """Add up any number of word counts, as with ``+`` but in one pass."""
        parts = list(parts)
        if not parts:
            raise SGPEError("there are no word counts to add up")
        first = parts[0]
        for other in parts[1:]:
            setting = first.splitting.difference(other.splitting)
            if setting:
                ours, theirs = (splitting.to_dict()[setting] for splitting in (first.splitting, other.splitting))
                name = setting.replace("_", " ")
                raise SGPEError(
                    f"word counts with different settings cannot be added: {name} is {ours!r} in one and {theirs!r} "
                    "in the other"
                )
        scale = lcm(*(counts.scale for counts in parts))
        words, total = added([(counts._words, counts._times(scale // counts.scale)) for counts in parts])
        sources = chain.from_iterable(counts.sources for counts in parts)
        return cls._from_arrays(words, total, first.splitting, scale=scale, sources=sources)

    def __add__(self, other: WordCounts) -> WordCounts:
        return WordCounts.sum([self, other]) if isinstance(other, WordCounts) else NotImplemented

    def __mul__(self, weight: float) -> WordCounts:
        """Return the same words with their counts multiplied by ``weight``, a positive number with up to six decimals."""
        factor = exact_weight(weight)
        if factor == 1:
            return self
        scale = self.scale * factor.denominator
        counts = self._times(factor.numerator)
        return WordCounts._from_arrays(self._words, counts, self.splitting, scale=scale, sources=self.sources)

    def _times(self, factor: int) -> NDArray[Any]:
        """Return the counts multiplied by ``factor``, as Python integers if their sum might need more than 64 bits."""
        if factor == 1:
            return self._counts
        return self._counts * factor if self._total * factor <= MOST else self._counts.astype(object) * factor

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordCounts):
            return NotImplemented
        return (
            (self.splitting, self.scale) == (other.splitting, other.scale)
            and np.array_equal(self._counts, other._counts)
            and self._words == other._words
        )

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        """Return the number of distinct words."""
        return len(self._words)

    def __getitem__(self, word: bytes) -> int:
        """Return the count of a word in units of 1 / ``scale``, or 0 if the word does not occur."""
        if not isinstance(word, bytes):
            raise TypeError(f"words must be bytes, not {type(word).__name__}: pass word.encode()")
        place = self._words.find(word)
        return 0 if place is None else int(self._counts[place])

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._words)

    def __contains__(self, word: bytes) -> bool:
        return self[word] > 0

    def words(self) -> Words:
        """Return the words, sorted as in a file of counts."""
        return self._words

    def items(self) -> Collection[tuple[bytes, int]]:
        """Return pairs of word and count (in units of 1 / ``scale``), in the order of `words`."""
        return _Items(self)

    def values(self) -> Sequence[int]:
        """Return the counts in units of 1 / ``scale`` as a buffer of int64, in the order of `words`."""
        return self._counts.data

    def total(self) -> int | float:
        """Return the weighted number of words in the text."""
        return self._total if self.scale == 1 else self._total / self.scale

    def __repr__(self) -> str:
        return f"WordCounts({len(self):,} distinct words, {self.total():,} running words)"

    def digest(self) -> str:
        """Return the SHA-256 (hexadecimal) of the words, their counts and the splitting."""
        digest = Digest(self.splitting, self.scale)
        for block in self._words.blocks():
            words = self._words[block]
            digest.update(words.joined_bytes(), words.lengths(), self._counts[block])
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> CountsInfo:
        """Write the counts to a Parquet file. Equal counts with equal sources give equal bytes. Weighted counts cannot be
        saved.
        """
        if self.scale != 1:
            raise SGPEError(
                "weighted counts cannot be saved: save the counts without weights, and give the weights to training"
            )
        tables = (table_of(self._words[block], self._counts[block]) for block in self._words.blocks())
        return write(path, tables, self.splitting, sources=self.sources)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordCounts:
        """Read word counts from a file of counts."""
        info = read_info(path)
        # bytearrays grow in place, which avoids fragmented memory.
        blob, lengths, counts = bytearray(), bytearray(), bytearray()
        for _, table in read(path):
            for column, values in zip((blob, lengths, counts), columns(table), strict=True):
                column += values if isinstance(values, bytes) else values.data
        import pyarrow as pa  # `read` found it

        pa.default_memory_pool().release_unused()
        words = Words.cut(blob, np.frombuffer(lengths, np.int64))
        return cls._from_arrays(words, np.frombuffer(counts, np.int64), info.splitting, sources=info.sources)


class _Items(Collection[tuple[bytes, int]]):
    """A view of `WordCounts` as pairs of word and count, like ``dict.items()``."""

    def __init__(self, counts: WordCounts) -> None:
        self._counts = counts

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return zip(self._counts, self._counts.values(), strict=True)

    def __contains__(self, item: object) -> bool:
        match item:
            case (bytes() as word, count):
                return word in self._counts.words() and self._counts[word] == count
        return False
