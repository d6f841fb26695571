"""Counters of the words in texts: one in readable Python, and one that uses the native kernels."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from hf_sgpe import kernels
from hf_sgpe.counts.count_files import table_of
from hf_sgpe.counts.word_arrays import BUCKETS, Words, in_order
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer
from hf_sgpe.splitting.splitting import HasSplitting
from hf_sgpe.vocabulary.special_tokens import any_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from typing_extensions import Self

    _Part: TypeAlias = tuple[int, Words, NDArray[np.int64], NDArray[np.int64]]

logger = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

LONGEST_WORD = 1 << 16
"""The greatest length, in bytes, of a word that is counted as a whole."""

# Memory for one word in the readable counter: a string, a number, and their slots in a dict that may be growing.
_BYTES_PER_WORD = 300


def only_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield each item of ``texts`` unchanged, after checking that it is a string."""
    if isinstance(texts, str):
        raise SGPEError("expected an iterable of strings, not a single string: put the string into a list")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise SGPEError(f"item {number} of the iterator must be a string, not {type(text).__name__}")
        yield text


def in_batches(
    texts: Iterable[_Item], characters: int = 1 << 20, length: Callable[[Any], int] = len
) -> Iterator[list[_Item]]:
    """Group texts into lists of at least ``characters`` characters. Only the last list can be shorter.

    Args:
        length: Function that returns the number of characters of an item. It is needed if the items are not strings.
    """
    batch: list[_Item] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += length(text)
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def in_turn(pool: Executor, work: Callable[[_Item], _Result], items: Iterable[_Item], ahead: int) -> Iterator[_Result]:
    """Call ``work`` on each item in a pool, and yield the results in the order of the items. At most ``ahead`` items are
    read in advance, so that they cannot fill the memory.
    """
    running: deque[Future[_Result]] = deque()
    try:
        for item in items:
            running.append(pool.submit(work, item))
            if len(running) > ahead:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _pieces_of(word: str, longest: int = LONGEST_WORD) -> Iterator[str]:
    """Cut a word into pieces of at most ``longest`` bytes of UTF-8. No character is cut."""
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
    logger.warning(
        "the text has words of more than %s bytes: these words are counted in pieces of at most this size",
        f"{LONGEST_WORD:,}",
    )


class WordCounter:
    """A counter of words, in readable Python. It removes special tokens from texts, and normalizes and splits the rest.
    Longer words than `LONGEST_WORD`, which do not occur in any language, are counted in pieces.
    """

    is_native = False
    """True if the native kernel counts. Then several counters can count in parallel threads."""

    def __init__(self, config: HasSplitting) -> None:
        self._splitter = RegexPreTokenizer.of(config.splitting)
        self._normalization = config.splitting.normalization
        self._special_tokens = config.splitting.special_tokens or ()
        self._special_pattern = any_of(frozenset(self._special_tokens)) if self._special_tokens else None
        self._counts: Counter[str] = Counter()

    def add(self, texts: Sequence[str]) -> None:
        """Add the words of ``texts`` to the counts. A word never extends across two texts."""
        kernels.note_slow_use(sum(map(len, texts)))
        for text in texts:
            for part in self._prepared(text):
                words: Iterable[str] = self._splitter.split(part)
                if len(part) > LONGEST_WORD // 4:  # a shorter part cannot contain a word of more than LONGEST_WORD bytes
                    words = list(words)
                    pieces = list(chain.from_iterable(map(_pieces_of, words)))
                    if len(pieces) > len(words):
                        _say_that_words_are_cut()
                    words = pieces
                self._counts.update(words)

    def __len__(self) -> int:
        """Return the number of distinct words."""
        return len(self._counts)

    def update(self, other: Self) -> None:
        """Add the counts of ``other``, a counter with the same configuration."""
        self._counts.update(other._counts)

    def columns(self) -> tuple[Words, NDArray[np.int64]]:
        """Return the counted words and their counts."""
        counts = {word.encode(): count for word, count in self._counts.items()}
        words = in_order(counts)
        return Words.from_sorted(words), np.fromiter(map(counts.__getitem__, words), np.int64, len(words))

    def peak(self, size: int) -> int:
        """Return an upper limit, in bytes, on the memory in use while texts of ``size`` bytes are added."""
        return (len(self._counts) + size // 4) * _BYTES_PER_WORD

    def take(self, *, threads: int = 1) -> Iterator[tuple[int, pa.Table]]:
        """Yield the counts bucket by bucket, as `hf_sgpe.counts.count_files.read` does. Then reset the counter.

        Args:
            threads: Number of threads in which the kernel sorts; 1 means only the caller's thread.
        """
        words, counts = self.columns()
        for bucket, (start, stop) in enumerate(pairwise(words.bucket_starts().tolist())):
            if stop > start:
                yield bucket, table_of(words[start:stop], counts[start:stop])
        self._counts.clear()

    def _prepared(self, text: str) -> list[str]:
        """Return the parts of a text between its special tokens, normalized."""
        pattern = self._special_pattern
        parts = pattern.split(text) if pattern and pattern.search(text) else [text]
        return [prepare(part, self._normalization) for part in parts]


class _NativeWordCounter(WordCounter):
    """A counter that uses the native kernels, which release the GIL."""

    is_native = True

    def __init__(self, config: HasSplitting) -> None:
        import hf_sgpe._native as _native

        super().__init__(config)
        scanner, special_tokens = self._splitter.scanner, [token.encode() for token in self._special_tokens]
        assert scanner is not None
        self._native = _native.WordCounter(scanner, self._normalization.scheme == "nfc", special_tokens, LONGEST_WORD)

    def add(self, texts: Sequence[str]) -> None:
        for left_out in self._native.add(texts):
            self._native.add_prepared(self._prepared(texts[left_out]))
        if self._native.has_cut:
            _say_that_words_are_cut()

    def __len__(self) -> int:
        return len(self._native)

    def update(self, other: Self) -> None:
        self._native.merge(other._native)

    def peak(self, size: int) -> int:
        return int(self._native.peak(size))

    def take(self, *, threads: int = 1) -> Iterator[tuple[int, pa.Table]]:
        for first, words, counts, bucket_ends in self._parts(threads):
            start = 0
            for bucket, stop in enumerate(bucket_ends.tolist(), first):
                if stop > start:
                    yield bucket, table_of(words[start:stop], counts[start:stop])
                    start = stop
        self._native.clear()

    def columns(self) -> tuple[Words, NDArray[np.int64]]:
        blob, starts, counts, _ = self._native.part(0, BUCKETS)
        return Words(blob, starts), counts

    def _parts(self, threads: int) -> Iterator[_Part]:
        """Yield parts of several buckets: the number of the first bucket, the words, their counts, and the index after the
        last word of each bucket. Each thread prepares one part in advance.
        """
        # Each part is in memory twice, so a large number of words is divided into several parts.
        width = BUCKETS >> min(max(len(self._native) >> 17, 1).bit_length() - 1, 5)

        def part(first: int) -> _Part:
            blob, starts, counts, bucket_ends = self._native.part(first, first + width)
            return first, Words(blob, starts), counts, bucket_ends

        firsts = range(0, BUCKETS, width)
        if threads == 1:
            yield from map(part, firsts)
            return
        with ThreadPoolExecutor(threads) as pool:
            yield from in_turn(pool, part, firsts, threads)


def make_word_counter(config: HasSplitting) -> WordCounter:
    """Return a counter that uses the native kernels, if they can split text as ``config`` requires."""
    has_scanner = kernels.has_scanners() and RegexPreTokenizer.of(config.splitting).scanner is not None
    return _NativeWordCounter(config) if has_scanner else WordCounter(config)
