"""The fast lane of `SGPETokenizerFast`: the native kernel of this package answers calls that need only ids, masks, offsets
and lengths.

The backend, a tokenizer of the ``tokenizers`` library, answers all other calls (pairs, overflow, text split into words). It
also answers all calls if `BPETokenizer` cannot reproduce the tokenizer exactly. For ``word_ids``, ``char_to_token`` and
similar methods of a result, transformers needs the backend's encodings. These encodings are computed on first use. Every
field of a result equals the backend's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from transformers import BatchEncoding, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import PaddingStrategy, TruncationStrategy

from hf_sgpe import kernels
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.tokenizer_json import from_transformers
from hf_sgpe.splitting.normalization import NONE, prepare
from hf_sgpe.tokenizer import BPETokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding

# Opening the lane takes time proportional to the vocabulary. The lane opens after the backend has encoded this number of
# characters per token of the vocabulary. That takes about the same time as opening the lane.
_WORTH_OPENING = 16
# The check that the added tokens are unchanged takes time for each added token. If a text has fewer characters per added
# token than this number, the backend is as fast.
_WORTH_CHECKING = 16

# Options that only the backend supports, or that need more than ids.
_BACKEND_ONLY = ("is_split_into_words", "return_overflowing_tokens", "stride")
_OFFSETS = "return_offsets_mapping"

Offsets = list[tuple[int, int]]


def batch_encoding(tokenizer: PreTrainedTokenizerFast, text: Any, options: dict[str, Any]) -> BatchEncoding | None:
    """Return the result of ``tokenizer._encode_plus(text, **options)``, computed by the native kernel. If the backend must
    compute the result, return None.
    """
    if needs_encodings({**options, _OFFSETS: False}) or options.get("sanitize_control_tokens"):
        return None
    texts = [text] if isinstance(text, str) else text
    if not isinstance(texts, (list, tuple)) or not texts or not all(isinstance(entry, str) for entry in texts):
        return None
    if not kernels.is_native():
        return None
    import hf_sgpe._native as _native

    if any(map(_native.has_surrogates, texts)):  # the backend raises an error for these texts
        return None
    lane = _lane_of(tokenizer, texts)
    if lane is None:
        return None
    return lane.batch_encoding(tokenizer, texts, options, is_batch=texts is text)


def needs_encodings(options: Mapping[str, Any], special_tokens: int = 0) -> bool:
    """Return whether a call needs the backend's encodings. It does if it needs more than ids, masks and lengths, or if it
    truncates the text to nothing.
    """
    if any(options.get(name) for name in (*_BACKEND_ONLY, _OFFSETS)):
        return True
    truncation = options.get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE)
    if truncation == TruncationStrategy.DO_NOT_TRUNCATE:
        return False
    return truncation == TruncationStrategy.ONLY_SECOND or (options.get("max_length") or 0) <= special_tokens


def from_ids(
    tokenizer: PreTrainedTokenizerFast,
    rows: list[list[int]],
    options: Mapping[str, Any],
    make: Callable[[], list[Encoding]],
    *,
    is_batch: bool,
    prefix: Sequence[int] = (),
    suffix: Sequence[int] = (),
    offsets: list[Offsets] | None = None,
) -> BatchEncoding:
    """Truncate and pad rows of ids, and return them as the result of ``tokenizer._encode_plus``.

    Args:
        make: Function that computes the backend's encodings. It is called when these encodings are first used.
        is_batch: Whether the call had a list of texts instead of a single text.
        prefix: Ids of special tokens to put before each row.
        suffix: Ids of special tokens to put after each row.
        offsets: Offsets of each row, or None if the call does not request offsets.
    """
    get = options.get
    max_length: Any = get("max_length")
    if get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE) != TruncationStrategy.DO_NOT_TRUNCATE:
        room = max_length - len(prefix) - len(suffix)
        kept = slice(-room, None) if tokenizer.truncation_side == "left" else slice(room)
        rows = [row if len(row) <= room else row[kept] for row in rows]
        offsets = offsets and [row if len(row) <= room else row[kept] for row in offsets]
    if prefix or suffix:
        rows = [[*prefix, *row, *suffix] for row in rows]
        offsets = offsets and [[(0, 0)] * len(prefix) + row + [(0, 0)] * len(suffix) for row in offsets]
    data = _columns(tokenizer, rows, len(prefix), len(suffix), options, offsets)
    for row in data["input_ids"]:
        tokenizer._eventual_warn_about_too_long_sequence(row, max_length, get("verbose", True))
    encodings = _Encodings(tokenizer, len(rows), make)
    _waiting.setdefault(tokenizer, WeakSet()).add(encodings)
    batch = BatchEncoding(data, encodings, tensor_type=get("return_tensors"), n_sequences=1)
    if is_batch or get("return_tensors") is not None:
        return batch
    single = {name: value[0] if value and isinstance(value[0], list) else value for name, value in batch.items()}
    return BatchEncoding(single, encodings, n_sequences=1)


def tokens(tokenizer: PreTrainedTokenizerFast, text: Any, add_special_tokens: bool) -> list[str] | None:
    """Return the tokens of a text, as ``tokenizer.tokenize`` does without other options. If the backend must compute them,
    return None.
    """
    encoded = batch_encoding(tokenizer, text, {"add_special_tokens": add_special_tokens}) if isinstance(text, str) else None
    if encoded is None:
        return None
    return [tokenizer.backend_tokenizer.id_to_token(id) for id in encoded["input_ids"]]


def open_for(tokenizer: PreTrainedTokenizerFast, bpe: BPETokenizer) -> None:
    """Open the fast lane of a tokenizer that was made from ``bpe``. If tokens have been added to the tokenizer since then,
    do nothing.
    """
    if tokenizer.get_added_vocab() == bpe.data.added_ids:
        _lanes[tokenizer] = _Lane(bpe, _fingerprint(tokenizer))


def close_for(tokenizer: PreTrainedTokenizerFast) -> None:
    """Close the fast lane of a tokenizer whose tokens are about to change. A later call opens a new lane."""
    for encodings in list(_waiting.pop(tokenizer, ())):
        encodings.make()  # with the tokens as they are before the change
    _lanes.pop(tokenizer, None)


class _Lane:
    """A fast lane: the tokenizer ``bpe`` that answers calls, and the fingerprint of the backend from which it was made. If
    ``bpe`` is None, the lane is closed.
    """

    def __init__(self, bpe: BPETokenizer | None, fingerprint: tuple[Any, ...] | None) -> None:
        self.bpe = bpe
        self.fingerprint = fingerprint
        self.waiting = 0
        self.prefix: list[int] = []
        self.suffix: list[int] = []
        # The readable kernels are no faster than the backend.
        self.is_open = bpe is not None and bpe.encodes_natively
        if bpe is not None and bpe.template is not None:
            self.prefix, self.suffix = bpe.data.ids_around
            # The backend handles templates with more than one token type id.
            self.is_open &= {type_id for _, type_id in bpe.template.single} == {0}

    def batch_encoding(
        self, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], options: dict[str, Any], *, is_batch: bool
    ) -> BatchEncoding | None:
        get = options.get
        add_special_tokens = get("add_special_tokens", True)
        prefix, suffix = (self.prefix, self.suffix) if add_special_tokens else ([], [])
        if needs_encodings({**options, _OFFSETS: False}, len(prefix) + len(suffix)):
            return None
        split_special = get("split_special_tokens")
        if split_special is None:
            split_special = tokenizer.split_special_tokens
        settings = {
            "padding_strategy": get("padding_strategy", PaddingStrategy.DO_NOT_PAD),
            "truncation_strategy": get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE),
            "max_length": get("max_length"),
            "stride": 0,
            "pad_to_multiple_of": get("pad_to_multiple_of"),
            "padding_side": get("padding_side"),
        }
        # When a tokenizer is saved, the backend's settings are saved. So set them as a call of the backend would. Skip this
        # if another thread holds the lock: if two calls run at the same time, either may set them last.
        lock = backend_lock(tokenizer)
        if lock.acquire(blocking=False):
            try:
                tokenizer.set_truncation_and_padding(**settings)
                backend = tokenizer.backend_tokenizer
                if backend.encode_special_tokens != split_special:  # setting it blocks threads that read it
                    backend.encode_special_tokens = split_special
            finally:
                lock.release()

        assert self.bpe is not None
        allowed = "none" if split_special else "all"
        offsets: list[Offsets] | None = None
        if get(_OFFSETS):
            # The backend computes different offsets for characters that normalization changed. (A lane is open only if no
            # normalizer comes before a Metaspace.)
            normalization = NONE if self.bpe.by_characters else self.bpe.normalization
            if any(prepare(text, normalization) != text for text in texts):
                return None
            pairs = [self.bpe.encode_with_offsets(text, allowed_special=allowed) for text in texts]
            rows, offsets = [ids for ids, _ in pairs], [places for _, places in pairs]
        else:
            rows = self.bpe.encode_batch(texts, allowed_special=allowed)
        make = _maker(tokenizer, list(texts), settings, add_special_tokens, split_special, self.fingerprint)
        return from_ids(tokenizer, rows, options, make, is_batch=is_batch, prefix=prefix, suffix=suffix, offsets=offsets)


def _columns(
    tokenizer: PreTrainedTokenizerFast,
    rows: list[list[int]],
    before: int,
    after: int,
    options: Mapping[str, Any],
    offsets: list[Offsets] | None = None,
) -> dict[str, Any]:
    """Return the fields of a result, such as ``input_ids`` and ``attention_mask``, padded. The rows already begin with
    ``before`` special tokens, and end with ``after`` special tokens.
    """
    lengths = [len(row) for row in rows]
    target = padded_length(lengths, options)
    pads = [max(target - length, 0) for length in lengths]
    on_left = (options.get("padding_side") or tokenizer.padding_side) == "left"

    def padded(rows: Sequence[list[Any]], pad: Any) -> Sequence[list[Any]]:
        if pad is None:
            return rows
        return [
            row if not missing else [pad] * missing + row if on_left else row + [pad] * missing
            for row, missing in zip(rows, pads, strict=True)
        ]

    def wanted(name: str, default: bool) -> bool:
        value = options.get(f"return_{name}")
        return default if value is None else value

    def pad_with(pad: str | int) -> Any:
        # Read the property only if it is needed, because reading it takes microseconds.
        return None if not any(pads) else getattr(tokenizer, pad) if isinstance(pad, str) else pad

    data: dict[str, Any] = {"input_ids": padded(rows, pad_with("pad_token_id"))}
    if wanted("token_type_ids", "token_type_ids" in tokenizer.model_input_names):
        data["token_type_ids"] = padded([[0] * length for length in lengths], pad_with("pad_token_type_id"))
    if wanted("attention_mask", "attention_mask" in tokenizer.model_input_names):
        data["attention_mask"] = padded([[1] * length for length in lengths], pad_with(0))
    if wanted("special_tokens_mask", False):
        masks = [[1] * before + [0] * (length - before - after) + [1] * after for length in lengths]
        data["special_tokens_mask"] = padded(masks, pad_with(1))
    if offsets is not None:
        data["offset_mapping"] = padded(offsets, (0, 0))
    if wanted("length", False):
        data["length"] = [len(row) for row in data["input_ids"]]
    return data


_lanes: WeakKeyDictionary[PreTrainedTokenizerFast, _Lane] = WeakKeyDictionary()
# Encodings that may not be computed yet.
_waiting: WeakKeyDictionary[PreTrainedTokenizerFast, WeakSet[_Encodings]] = WeakKeyDictionary()

# Not attributes of the tokenizer, because tokenizers are pickled, copied and hashed with their attributes.
_locks: WeakKeyDictionary[PreTrainedTokenizerFast, RLock] = WeakKeyDictionary()
if hasattr(os, "register_at_fork"):  # a forked child does not have the thread that holds a lock
    os.register_at_fork(after_in_child=_locks.clear)


def backend_lock(tokenizer: PreTrainedTokenizerFast) -> RLock:
    """Return the lock for the backend's truncation and padding. Hold the lock while setting them and encoding with them."""
    lock = _locks.get(tokenizer)  # faster than creating a lock for setdefault in every call
    return _locks.setdefault(tokenizer, RLock()) if lock is None else lock


def _lane_of(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> _Lane | None:
    """Return an open lane that matches the present state of the tokenizer. If the backend should answer the call, return
    None.
    """
    lane = _lanes.get(tokenizer)
    if lane is None:
        lane = _lanes[tokenizer] = _Lane(None, None)
    characters = sum(map(len, texts))
    if lane.bpe is not None and characters < _WORTH_CHECKING * (len(lane.bpe.special_tokens) + len(lane.bpe.added_tokens)):
        return None
    fingerprint = _fingerprint(tokenizer)
    if fingerprint is None:
        return None
    if lane.fingerprint != fingerprint:
        lane.waiting += characters
        if lane.waiting < _WORTH_OPENING * fingerprint[0]:
            return None
        try:
            lane = _Lane(BPETokenizer.of(from_transformers(tokenizer)), fingerprint)
        except SGPEError:
            lane = _Lane(None, fingerprint)
        _lanes[tokenizer] = lane
    return lane if lane.is_open else None


_MODEL_OPTIONS = (
    "dropout",
    "ignore_merges",
    "unk_token",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "fuse_unk",
    "byte_fallback",
)


def _fingerprint(tokenizer: PreTrainedTokenizerFast) -> tuple[Any, ...] | None:
    """Return the part of a backend's state that affects ids and can be read in microseconds. If the backend has components
    written in Python, return None.

    Of the vocabulary, only the size is included, so another model with a vocabulary of the same size is not noticed.
    """
    backend = tokenizer.backend_tokenizer
    model = backend.model
    parts = (backend.normalizer, backend.pre_tokenizer, backend.post_processor)
    try:
        states = [part and part.__getstate__() for part in parts]
    except Exception:  # the library raises the bare class
        return None
    return (
        backend.get_vocab_size(True),
        backend.get_vocab_size(False),
        *(getattr(model, option, None) for option in _MODEL_OPTIONS),
        *((id, token.__getstate__()) for id, token in backend.get_added_tokens_decoder().items()),
        *states,
    )


def padded_length(lengths: list[int], options: Mapping[str, Any]) -> int:
    """Return the length to which rows with these lengths are padded. If they are not padded, return 0."""
    strategy = options.get("padding_strategy", PaddingStrategy.DO_NOT_PAD)
    if strategy == PaddingStrategy.DO_NOT_PAD:
        return 0
    max_length, multiple = options.get("max_length"), options.get("pad_to_multiple_of")
    length = max_length if strategy == PaddingStrategy.MAX_LENGTH and max_length is not None else max(lengths)
    return length + (-length % multiple if multiple else 0)


class _Encodings(Sequence[Any]):
    """The backend's encodings of a batch, computed on first use. A pickle or a copy of this sequence is a list."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, size: int, make: Callable[[], list[Encoding]]) -> None:
        self._tokenizer = tokenizer
        self._size = size
        self._make = make
        self._encodings: list[Encoding] | None = None

    def make(self) -> list[Encoding]:
        """Return all encodings. They are computed by the first call."""
        with backend_lock(self._tokenizer):
            if self._encodings is None:
                self._encodings = self._make()
            return self._encodings

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, item: Any) -> Any:
        return self.make()[item]

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Encoding]]]:
        return list, (self.make(),)


def _maker(
    tokenizer: PreTrainedTokenizerFast,
    texts: list[str],
    settings: dict[str, Any],
    add_special_tokens: bool,
    split_special: bool,
    fingerprint: tuple[Any, ...] | None,
) -> Callable[[], list[Encoding]]:
    def make() -> list[Encoding]:
        if _fingerprint(tokenizer) != fingerprint:
            raise SGPEError("the tokenizer's backend changed after this batch was encoded: encode the batch again")
        backend = tokenizer.backend_tokenizer
        truncation, padding, split_before = backend.truncation, backend.padding, backend.encode_special_tokens
        try:
            tokenizer.set_truncation_and_padding(**settings)
            backend.encode_special_tokens = split_special
            encodings: list[Encoding] = backend.encode_batch(texts, add_special_tokens=add_special_tokens)
        finally:
            backend.encode_special_tokens = split_before
            backend.no_truncation() if truncation is None else backend.enable_truncation(**truncation)
            backend.no_padding() if padding is None else backend.enable_padding(**padding)
        return encodings

    return make
