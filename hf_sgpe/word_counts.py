"""Counted words: how often each word occurs in some text, as a value, and how texts are counted.

What a word is, a `TrainingConfig` decides. Nothing here reads corpora; that is the business of `trainers`.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd, isfinite, lcm
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe import kernel
from hf_sgpe.atomic import atomic_file
from hf_sgpe.errors import SGPEError
from hf_sgpe.normalization import normalize
from hf_sgpe.pretokenizers.regex import RegexPreTokenizer
from hf_sgpe.special_tokens import any_of

if TYPE_CHECKING:
    from hf_sgpe.training import TrainingConfig

# The trainer adds counts of pairs up in 64 bits.
_MOST = 1 << 60
_FINEST_WEIGHT = 10**6


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

    def __init__(self, counts: Mapping[bytes, int], counting: Mapping[str, Any], *, scale: int = 1) -> None:
        self.counting = dict(counting)
        # In lowest terms, so that equal counts are equally written.
        common = gcd(scale, *counts.values()) if scale > 1 else 1
        self.scale = scale // common
        self._counts = {word: count // common for word, count in counts.items()} if common > 1 else dict(counts)
        if sum(self._counts.values()) > _MOST:
            raise SGPEError("the weighted counts are too large: give smaller weights, or weights with fewer decimals")

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
        if self.counting != other.counting:
            raise SGPEError("word counts cannot be added: they were cut by different patterns, normalization or specials")
        scale = lcm(self.scale, other.scale)
        total: Counter[bytes] = Counter()
        for counts in (self, other):
            factor = scale // counts.scale
            total.update(counts._counts if factor == 1 else {word: n * factor for word, n in counts.items()})
        return WordCounts(total, self.counting, scale=scale)

    def __mul__(self, weight: float) -> WordCounts:
        """The same words, each ``weight`` times as often; any number above 0 with up to six decimals.

        Raises:
            SGPEError: the weight is no such number.
        """
        factor = exact_weight(weight)
        if factor == 1:
            return self
        counts = {word: count * factor.numerator for word, count in self._counts.items()}
        return WordCounts(counts, self.counting, scale=self.scale * factor.denominator)

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
        hasher = hashlib.sha256()
        for array in self._arrays().values():
            hasher.update(array.tobytes())
        return hasher.hexdigest()

    def _arrays(self) -> dict[str, Any]:
        """What is saved: the words in order, one after another, their lengths and counts, and how they were cut."""
        import numpy as np

        words = sorted(self._counts)
        return {
            "counting": np.frombuffer(json.dumps(self.counting, sort_keys=True).encode(), dtype=np.uint8),
            "scale": np.array(self.scale, dtype=np.int64),
            "words": np.frombuffer(b"".join(words), dtype=np.uint8),
            "lengths": np.array(list(map(len, words)), dtype=np.int64),
            "counts": np.array(list(map(self._counts.__getitem__, words)), dtype=np.int64),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one file (a numpy ``.npz`` whatever its name), the same bytes for the same counts."""
        import numpy as np

        with atomic_file(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordCounts:
        """Reads what `save` wrote.

        Raises:
            SGPEError: the file holds no word counts, or damaged ones.
            OSError: the file cannot be opened.
        """
        import numpy as np

        with Path(path).open("rb") as raw:
            try:
                if not zipfile.is_zipfile(raw):
                    raise ValueError("no .npz")
                raw.seek(0)
                with np.load(raw, allow_pickle=False) as file:
                    counting = json.loads(file["counting"].tobytes())
                    blob, lengths, counts = file["words"].tobytes(), file["lengths"], file["counts"]
                    scale = int(file["scale"])
                if scale < 1:
                    raise ValueError("its scale is below 1")
                return cls(_unpack_words(blob, lengths, counts), dict(counting), scale=scale)
            except Exception as error:  # each layer of the format has exceptions of its own
                reason = str(error) or type(error).__name__
                raise SGPEError(f"{path}: not a file of word counts, or damaged ({reason}): count the text again") from None


def _unpack_words(blob: bytes, lengths: Any, counts: Any) -> dict[bytes, int]:
    if lengths.dtype.kind != "i" or counts.dtype.kind != "i" or lengths.shape != counts.shape or lengths.ndim != 1:
        raise ValueError("its arrays do not fit together")
    if lengths.sum() != len(blob) or (lengths <= 0).any() or (counts <= 0).any():
        raise ValueError("its numbers do not fit together")
    words: dict[bytes, int] = {}
    start = 0
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        words[blob[start : start + length]] = count
        start += length
    if len(words) != len(counts):
        raise ValueError("a word occurs twice")
    b"\n".join(words).decode()  # words are text; better known here than in the middle of training
    return words


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


class WordCounter:
    """Counts words as texts come: special tokens taken out, the rest normalized and split. The readable form.

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
        for text in texts:
            for part in self._prepared(text):
                self._counts.update(self._splitter.split(part))

    def result(self) -> WordCounts:
        """What was counted so far, as a value."""
        return WordCounts({word.encode(): count for word, count in self._counts.items()}, self._counting)

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
        self._native = kernel.native().WordCounter(scanner, self._normalization == "nfc", special_tokens)

    def add(self, texts: Sequence[str]) -> None:
        """Counts the words of texts, each by itself."""
        for left_out in self._native.add(texts):
            self._native.add_prepared(self._prepared(texts[left_out]))

    def update(self, other: NativeWordCounter) -> None:
        """Adds what ``other``, of the same configuration, has counted."""
        self._native.merge(other._native)

    def result(self) -> WordCounts:
        """What was counted so far, as a value."""
        return WordCounts(self._native.counts(), self._counting)


def make_word_counter(config: TrainingConfig) -> WordCounter:
    """The word counter of the kernel in use; the readable one where no native scanner knows the split pattern."""
    chosen = NativeWordCounter if kernel.scanner(config.pre_tokenizer().patterns) is not None else WordCounter
    return chosen(config)
