"""Codecs: they convert text to token ids and back. `Codec` is written in readable Python, and `NativeCodec` uses fast native
kernels. Both cache the ids of words, up to a maximum size.

A codec does not apply templates, and it recognises only those special and other added tokens for which the caller passes
patterns.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hf_sgpe import kernels
from hf_sgpe.bpe.merging import MergeTable, apply_merges, symbols
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.normalization import Normalization, Space, prepare
from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer
from hf_sgpe.vocabulary.added_patterns import AddedPattern, AddedPatterns
from hf_sgpe.vocabulary.neighbours import Neighbours
from hf_sgpe.vocabulary.tokenizer_data import NO_ID, TokenizerData
from hf_sgpe.vocabulary.unknown_characters import UnknownCharacters
from hf_sgpe.vocabulary.vocabulary_arrays import native_vocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hf_sgpe._native import Decoder, Encoder, Neighbours as NativeNeighbours, Scanner, Vocabulary

MEMORY_BYTES = 64 << 20
"""The size at which the cache of words is emptied. With the native kernels, each thread has a cache of this size."""

# Longer words are rare and would displace other words.
_LONGEST_REMEMBERED = 256
# Below this number of characters, starting threads takes longer than encoding.
_WORTH_THREADS = 1 << 18
# The native kernels cannot hold more ids or merges.
_MOST_IDS = (1 << 21) - 512


class CacheInfo(NamedTuple):
    """The state of the word cache: how many look-ups were hits and misses, and the number and the size of cached words."""

    hits: int
    misses: int
    words: int
    bytes: int
    max_bytes: int

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that were hits, 0 to 1."""
        return self.hits / max(self.hits + self.misses, 1)


class Codec:
    """The encoder and decoder of one tokenizer, written in readable Python."""

    def __init__(self, data: TokenizerData) -> None:
        self.vocab = data.vocab
        self.merges = data.merges
        self.added_tokens = data.added_ids
        needs_python = data.normalized_tokens or not data.matching.keys().isdisjoint(data.added_tokens)
        self._found_by_kernels = {} if needs_python else data.added_tokens
        self.special_ids = frozenset(data.special_tokens.values())
        self.pre_tokenizer = RegexPreTokenizer.of(data.splitting)
        self.normalization = data.normalization
        self.ignore_merges = data.ignore_merges
        self.puts_space = data.normalization.puts_space
        self.stripping = data.stripping
        self.unknown = (data.unknown_id, data.unknown.is_fused) if data.unknown and data.unknown_id is not None else None
        self._cuts_at_spaces = data.splitting.cuts_at_spaces
        self._keeps_unknown = self.unknown is not None and self.unknown[1]
        self._unknown_characters = UnknownCharacters(data) if data.lacks_bytes else None
        # Whether text is changed in Python before it is encoded, in ways that depend on more than each single character.
        self.is_changed_first = bool(data.normalization.steps) or (data.lacks_bytes and self.unknown is None)
        self._data = data
        self._memory: dict[str, tuple[int, ...]] = {}
        self._memory_bytes = self._hits = self._misses = 0

    @cached_property
    def encodes_natively(self) -> bool:
        """True if native kernels encode whole texts."""
        return False

    @cached_property
    def neighbours(self) -> Neighbours:
        """The pairs of characters between which text is not cut, if merges join characters."""
        return Neighbours(self.vocab, cuts_at_spaces=self._cuts_at_spaces, keeps_unknown=self._keeps_unknown)

    @cached_property
    def bytes_of(self) -> dict[int, bytes]:
        """The bytes to which each id decodes, keyed by id."""
        return self._data.bytes_by_id()

    @cached_property
    def _table(self) -> MergeTable:
        return self._data.merge_table()

    # ---------------------------------------------------------------- encoding

    def encode(self, text: str, added: AddedPatterns | None = None, *, continues: bool = False) -> list[int]:
        """Return the ids of ``text``.

        Args:
            added: Patterns of the added tokens to recognise. If None, all text is ordinary text.
            continues: Whether the text continues an earlier text. If so, no space is put before it.
        """
        normalization = self._normalization_of(continues)
        if added is None:
            return self._ordinary(text, normalization)
        normalizations = (normalization, self.normalization.later)
        then = added.then
        if then is None:
            return self._around(added.first, text, self._ordinary, normalizations)

        def between(part: str, normalization: Normalization) -> list[int]:
            matched, rest = normalization.in_two
            return self._around(then, prepare(part, matched), self._ordinary, (rest, rest.later))

        return self._around(added.first, text, between, normalizations)

    def _normalization_of(self, continues: bool) -> Normalization:
        return self.normalization.inside if continues else self.normalization

    def words(self, text: str, *, continues: bool = False) -> list[str]:
        """Normalize a text without added tokens and split it into the words that are encoded separately."""
        return self._cut(prepare(text, self._normalization_of(continues)))

    def encode_normalized(self, text: str) -> list[int]:
        """Encode a normalized text without recognising added tokens."""
        kernels.note_slow_use(len(text))
        return self.encode_words(self._cut(text))

    def _around(
        self,
        added: AddedPattern,
        text: str,
        between: Callable[[str, Normalization], list[int]],
        normalizations: tuple[Normalization, Normalization],
    ) -> list[int]:
        """Encode the added tokens that ``added`` finds in a text, and the parts between them with the function ``between``.
        The two normalizations are for the part before the first match, and for all later parts.
        """
        normalization, after = normalizations
        ids: list[int] = []
        position = 0
        for start, stop, name in added.find(text):
            if position < start:
                ids += between(text[position:start], normalization)
            ids.append(self.added_tokens[name])
            position, normalization = stop, after
        return ids + between(text[position:], normalization) if position < len(text) else ids

    def encode_to_numpy(self, text: str, added: AddedPatterns | None = None) -> NDArray[np.int32]:
        """Return the ids of `encode` as a one-dimensional int32 array."""
        import numpy as np

        return np.array(self.encode(text, added), dtype=np.int32)

    def encode_batch(
        self, texts: Sequence[str], added: AddedPatterns | None = None, threads: int | None = None
    ) -> list[list[int]]:
        """Encode each of ``texts``. The readable form always uses one thread."""
        return [self.encode(text, added) for text in texts]

    def encode_batch_to_numpy(
        self, texts: Sequence[str], added: AddedPatterns | None = None, threads: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return one array with the ids of all texts, and for each text the index at which its ids end."""
        import numpy as np

        rows = [self.encode_to_numpy(text, added) for text in texts]
        ids = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
        return ids, np.cumsum([len(row) for row in rows], dtype=np.int64)

    def _ordinary(self, text: str, normalization: Normalization) -> list[int]:
        return self.encode_normalized(prepare(text, normalization))

    def _known(self, text: str) -> str:
        """Return a normalized text without the characters that encoding leaves out."""
        return self._unknown_characters.without(text) if self._unknown_characters else text

    def _cut(self, text: str) -> list[str]:
        return (self.neighbours if self._data.by_characters else self.pre_tokenizer).split(self._known(text))

    def encode_words(self, words: Iterable[str]) -> list[int]:
        """Encode words that the method `words` returned. Return all ids in one list."""
        ids: list[int] = []
        for word in words:
            cached = self._memory.get(word)
            if cached is None:
                self._misses += 1
                cached = self._merge(word)
                if len(word) <= _LONGEST_REMEMBERED:
                    self._remember(word, cached)
            else:
                self._hits += 1
            ids += cached
        return ids

    def _merge(self, word: str) -> tuple[int, ...]:
        encoded = word.encode()
        if self.ignore_merges and encoded in self.vocab:
            return (self.vocab[encoded],)
        ids = symbols(encoded, self._data.characters, self._data.byte_ids, self.unknown)
        return tuple(apply_merges([id for id in ids if id != NO_ID], self._table))

    def _remember(self, word: str, ids: tuple[int, ...]) -> None:
        # Size of the string, the ids (mostly shared ints) and the dictionary entry.
        size = sys.getsizeof(word) + sys.getsizeof(ids) + 100
        # When the cache is full, it is emptied. Words of the current text are soon cached again, and words of earlier texts
        # are gone.
        if self._memory_bytes + size > MEMORY_BYTES:
            self._memory, self._memory_bytes = {}, 0
        self._memory[word] = ids
        self._memory_bytes += size

    # ---------------------------------------------------------------- decoding

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> bytes:
        """Decode ids to bytes. The space that encoding put before the text is removed.

        Raises:
            TypeError: an id is not a whole number.
        """
        return b"".join(self.pieces_of_text(ids, skip_special_tokens))

    def pieces_of_text(self, ids: Iterable[int], skip_special_tokens: bool = False) -> Iterator[bytes]:
        """Yield the result of `decode` in parts: the bytes of one id at a time."""
        pieces = iter(self.pieces(ids, skip_special_tokens))
        if self.stripping != "none":
            first = next(pieces, b"")
            yield first.lstrip(b" ") if self.stripping == "all" else first.removeprefix(b" ")
        yield from pieces

    def pieces(self, ids: Iterable[int], skip_special_tokens: bool = False) -> Iterator[bytes]:
        """Yield the bytes of each id in turn, without removing any space. Raise the same errors as `decode`."""
        for place, id in enumerate(map(operator.index, ids)):
            piece = self.bytes_of.get(id)
            if piece is None:
                raise SGPEError(f"id {id} at position {place} is not in the vocabulary (ids 0 to {max(self.bytes_of)})")
            if not (skip_special_tokens and id in self.special_ids):
                yield piece

    def offsets(self, ids: NDArray[np.int32], text: str) -> NDArray[np.int32]:
        """Return the range of characters that each id covers, as an array of shape (number of ids, 2): the index of the
        first character, and the index after the last character. ``ids`` must be the encoding of the normalized ``text``.

        If a token begins or ends inside a character, its range includes the whole character.
        """
        import numpy as np

        if self._unknown_characters:
            return self._unknown_characters.offsets(ids, text, self.bytes_of.__getitem__)
        lengths = [len(piece) for piece in self.pieces(ids.tolist())]
        ends = np.cumsum(lengths, dtype=np.int64)
        encoded = np.frombuffer(text.encode(), np.uint8)
        character_of = np.cumsum(encoded & 0xC0 != 0x80, dtype=np.int32) - 1
        starts = ends - lengths
        return np.stack([character_of[starts], character_of[ends - 1] + 1], axis=1).astype(np.int32).reshape(-1, 2)

    # ---------------------------------------------------------------- the cache of words

    def cache_info(self) -> CacheInfo:
        return CacheInfo(self._hits, self._misses, len(self._memory), self._memory_bytes, MEMORY_BYTES)

    def clear_cache(self) -> None:
        self._memory = {}
        self._memory_bytes = self._hits = self._misses = 0


class NativeCodec(Codec):
    """A codec with native kernels.

    If the kernels can also split text into words (``encodes_natively``), they receive whole texts. Otherwise, Python splits
    the texts, and the kernels receive the words.

    The Python code of `Codec` handles uncommon cases: texts that contain the text of a special token, and texts that NFC
    changes.
    """

    @cached_property
    def _encoder(self) -> Encoder:
        import hf_sgpe._native as _native

        return _native.Encoder(
            self._native_vocabulary,
            self._data.byte_ids,
            self._data.by_characters,
            self.ignore_merges,
            self._cutter,
            [token.encode() for token in self.added_tokens if token not in self._found_by_kernels],
            MEMORY_BYTES,
            added_tokens=[(token.encode(), id) for token, id in self._found_by_kernels.items()],
            prefix=self._prefix,
            unknown=self.unknown,
        )

    @cached_property
    def _native_vocabulary(self) -> Vocabulary:
        return native_vocabulary(self.vocab, self.merges)

    @cached_property
    def _cutter(self) -> Scanner | NativeNeighbours | None:
        """A native kernel that cuts text into words, or None if there is none."""
        if not self._data.by_characters:
            return self.pre_tokenizer.scanner
        import hf_sgpe._native as _native

        return _native.Neighbours(self._native_vocabulary, self._cuts_at_spaces, self._keeps_unknown)

    @cached_property
    def _decoder(self) -> Decoder:
        import hf_sgpe._native as _native

        others, added = self._data.bytes_beside_vocab()
        return _native.Decoder(self._native_vocabulary, list(others.items()), list(added.items()), sorted(self.special_ids))

    @cached_property
    def encodes_natively(self) -> bool:
        return not self.is_changed_first and self._cutter is not None

    @cached_property
    def _prefix(self) -> Space:
        """The spaces that the encoder puts. Text that is changed first has its spaces already."""
        return self.normalization.space if self.encodes_natively else Space.NEVER

    @cached_property
    def _encodes_normalized(self) -> bool:
        """True if the encoder encodes whole normalized texts. It must not put a further space before them."""
        return self._cutter is not None and self._prefix == Space.NEVER

    @cached_property
    def _nfc(self) -> bool:
        return self.normalization.scheme == "nfc"

    def encode(self, text: str, added: AddedPatterns | None = None, *, continues: bool = False) -> list[int]:
        scans = self.encodes_natively and not (continues and self.puts_space)
        ids = self._encoder.encode(text, self._nfc, added is not None) if scans else None
        return super().encode(text, added, continues=continues) if ids is None else ids

    def encode_to_numpy(self, text: str, added: AddedPatterns | None = None) -> NDArray[np.int32]:
        ids = self._encoder.encode_to_numpy(text, self._nfc, added is not None) if self.encodes_natively else None
        return self._uncommon_rows([text], added)[0] if ids is None else ids

    def encode_batch(
        self, texts: Sequence[str], added: AddedPatterns | None = None, threads: int | None = None
    ) -> list[list[int]]:
        """Encode each of ``texts``. ``threads`` defaults to `available_cores`, or to 1 if the texts are short."""
        if not self.encodes_natively:
            return super().encode_batch(texts, added)
        batch = self._encoder.encode_batch(texts, self._nfc, added is not None, _threads(texts, threads))
        return [super(NativeCodec, self).encode(texts[i], added) if ids is None else ids for i, ids in enumerate(batch)]

    def encode_batch_to_numpy(
        self, texts: Sequence[str], added: AddedPatterns | None = None, threads: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        if not self.encodes_natively:
            return super().encode_batch_to_numpy(texts, added)
        ids, ends, left_out = self._encoder.encode_batch_to_numpy(
            texts, self._nfc, added is not None, _threads(texts, threads)
        )
        if left_out:
            import numpy as np

            rows = np.split(ids, ends[:-1])
            for i, row in zip(left_out, self._uncommon_rows([texts[i] for i in left_out], added, threads), strict=True):
                rows[i] = row
            return np.concatenate(rows), np.cumsum([len(row) for row in rows], dtype=np.int64)
        return ids, ends

    def _uncommon_rows(
        self, texts: Sequence[str], added: AddedPatterns | None, threads: int | None = None
    ) -> list[NDArray[np.int32]]:
        import numpy as np

        if added is None and self._encodes_normalized:
            prepared = [self._known(prepare(text, self.normalization)) for text in texts]
            ids, ends, _ = self._encoder.encode_batch_to_numpy(prepared, False, False, _threads(texts, threads))
            return np.split(ids, ends[:-1])
        return [np.array(super(NativeCodec, self).encode(text, added), dtype=np.int32) for text in texts]

    def encode_normalized(self, text: str) -> list[int]:
        if not self._encodes_normalized:
            return super().encode_normalized(text)
        ids = self._encoder.encode(self._known(text), False, False)
        assert ids is not None
        return ids

    def _cut(self, text: str) -> list[str]:
        return self._cutter.split(self._known(text)) if self._cutter else super()._cut(text)

    def encode_words(self, words: Iterable[str]) -> list[int]:
        return self._encoder.encode_words(words)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> bytes:
        if isinstance(ids, Iterator) or ids is None:
            ids = list(ids)
        decoded = self._decoder.decode(ids, skip_special_tokens)
        if decoded is None:
            return super().decode(ids, skip_special_tokens)
        if self.stripping == "all":
            first = next(iter(self.pieces(ids, skip_special_tokens)), b"")
            return decoded[len(first) - len(first.lstrip(b" ")) :]
        return decoded.removeprefix(b" ") if self.stripping == "one" else decoded

    def offsets(self, ids: NDArray[np.int32], text: str) -> NDArray[np.int32]:
        if self._unknown_characters:
            return self._unknown_characters.offsets(ids, text, self.bytes_of.__getitem__)
        return self._decoder.offsets(ids, text).reshape(-1, 2)

    def cache_info(self) -> CacheInfo:
        """Return the sums over the word caches of all threads."""
        hits, misses, words, size = self._encoder.memory_info()
        return CacheInfo(hits, misses, words, size, MEMORY_BYTES)

    def clear_cache(self) -> None:
        if "_encoder" in self.__dict__:
            self._encoder.forget()


def make_codec(data: TokenizerData) -> Codec:
    """Return a `NativeCodec` if the native kernels are in use and can hold all ids and merges, otherwise a `Codec`."""
    has_room = max(data.highest_id, len(data.merges)) < _MOST_IDS
    return NativeCodec(data) if kernels.is_native() and has_room else Codec(data)


def _threads(texts: Sequence[str], threads: int | None) -> int:
    if threads is not None:
        return min(threads, len(texts) + 1)
    return available_cores() if sum(map(len, texts)) >= _WORTH_THREADS else 1


def available_cores() -> int:
    """Return the number of cores that this process may use, or 1 if ``TOKENIZERS_PARALLELISM`` is off."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in ("off", "false", "f", "no", "n", "0"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
