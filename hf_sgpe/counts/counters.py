"""Counting the words of texts, in the readable form and by the native kernels. Nothing here reads corpora."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from hf_sgpe import kernel
from hf_sgpe.counts.files import BUCKETS, bucket_of, in_order, table_of
from hf_sgpe.errors import SGPEError
from hf_sgpe.special_tokens import any_of
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.regex_splits import RegexPreTokenizer
from hf_sgpe.splitting.splitting import HasSplitting

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

LONGEST_WORD = 1 << 16
"""Bytes of the longest word that is counted as a whole."""

# Of the readable counter: a string, a number and their places in a table that may just be growing.
_BYTES_PER_WORD = 300


def only_texts(texts: Iterable[str]) -> Iterator[str]:
    """``texts`` as they are.

    Raises:
        SGPEError: it is a single text, whose characters would be taken for texts, or an item is not text.
    """
    if isinstance(texts, str):
        raise SGPEError("expected an iterable of texts, not one text: put it in a list")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise SGPEError(f"item {number} of the iterator must be text, not {type(text).__name__}")
        yield text


def in_batches(texts: Iterable[str], characters: int = 1 << 20) -> Iterator[list[str]]:
    """The texts in lists of at least this many characters, except the last."""
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
        config: Says how text is cut.
    """

    def __init__(self, config: HasSplitting) -> None:
        self._splitter = RegexPreTokenizer.of(config.splitting)
        self._normalization = config.splitting.normalization or "none"
        self._special_tokens = config.splitting.special_tokens or ()
        self._special_pattern = any_of(frozenset(self._special_tokens)) if self._special_tokens else None
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

    def counts(self) -> dict[bytes, int]:
        """Each word (UTF-8) that was met so far, and how often."""
        return {word.encode(): count for word, count in self._counts.items()}

    def peak(self, size: int) -> int:
        """How many bytes of memory this takes, roughly and at the most, while texts of ``size`` bytes are added."""
        return (len(self._counts) + size // 4) * _BYTES_PER_WORD

    def take(self, *, threads: int = 1) -> Iterator[tuple[int, pa.Table]]:
        """Yields the counts so far as `hf_sgpe.counts.files.read` does, and starts anew in the end.

        Args:
            threads: To sort words by, if the kernel can; 1 for none besides the caller's.
        """
        words = in_order(word.encode() for word in self._counts)
        for bucket, group in groupby(words, key=bucket_of):
            inside = list(group)
            yield bucket, table_of(inside, [self._counts[word.decode()] for word in inside])
        self._counts.clear()

    def _prepared(self, text: str) -> list[str]:
        """The parts of a text between special tokens, normalized."""
        pattern = self._special_pattern
        parts = pattern.split(text) if pattern and pattern.search(text) else [text]
        return [prepare(part, self._normalization) for part in parts]


class NativeWordCounter(WordCounter):
    """The same by the native kernels, which release the GIL: several counters can be at work in threads."""

    def __init__(self, config: HasSplitting) -> None:
        import hf_sgpe._native as _native

        super().__init__(config)
        scanner, special_tokens = self._splitter.scanner, [token.encode() for token in self._special_tokens]
        assert scanner is not None
        self._native = _native.WordCounter(scanner, self._normalization == "nfc", special_tokens, LONGEST_WORD)

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

    def counts(self) -> dict[bytes, int]:
        """Each word (UTF-8) that was met so far, and how often."""
        return self._native.counts()

    def peak(self, size: int) -> int:
        """How many bytes of memory this takes, at the most, while texts of ``size`` bytes are added."""
        return int(self._native.peak(size))

    def take(self, *, threads: int = 1) -> Iterator[tuple[int, pa.Table]]:
        """Yields the counts so far; see `WordCounter.take`."""
        import pyarrow as pa

        # The words of a part are in memory twice, so many words come in several parts.
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
        """The words of ``width`` buckets at a time: (the first bucket, arrays). Each thread is one part ahead."""
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


def make_word_counter(config: HasSplitting) -> WordCounter:
    """The word counter of the kernel in use; the readable one where no native scanner cuts text as ``config`` says."""
    has_scanner = kernel.has_scanners() and RegexPreTokenizer.of(config.splitting).scanner is not None
    return NativeWordCounter(config) if has_scanner else WordCounter(config)
