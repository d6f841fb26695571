"""One form for measuring tokenizers of any kind: a function that returns the ids of a text's tokens and where each token
ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from hf_sgpe.errors import NotByteLevelError, NotInstalledError, SGPEError
from hf_sgpe.files.unreadable import read_utf8
from hf_sgpe.formats import loading, tokenizer_json
from hf_sgpe.kernels import tokenizers_library
from hf_sgpe.splitting.normalization import Normalization, prepare
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.vocabulary.byte_strings import SPACE_MARK

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

    from hf_sgpe.formats.piece_folder import PieceFolder
    from hf_sgpe.tokenization_sgpe import SGPETokenizerFast

TokenEnds = Callable[[str], list[int]]
"""A function that returns the byte offsets at which a text's tokens end. A token may end inside a character."""


@dataclass(frozen=True)
class Measurable:
    """A tokenizer in the form that `evaluate` needs. A call with a text returns the byte offsets at which its tokens end.

    Attributes:
        encode: Function that returns two lists for a text: the ids of its tokens, and the byte offsets at which they end.
        vocab_size: Number of tokens, including special tokens; 0 if it is unknown.
        unknown: Id of the token that replaces text without tokens, or None if there is no such token.
    """

    encode: Callable[[str], tuple[list[int], list[int]]]
    vocab_size: int
    unknown: int | None = None

    def __call__(self, text: str) -> list[int]:
        return self.encode(text)[1]


def byte_offsets(text: str) -> list[int]:
    """Return the UTF-8 byte offset of each character, followed by the length in bytes."""
    return list(accumulate((len(character.encode()) for character in text), initial=0))


class _ForeignTokenizer(NamedTuple):
    """A tokenizer that `BPETokenizer` cannot read: the content of its ``tokenizer.json``, and its source for messages."""

    content: str
    where: str


def read_tokenizer(tokenizer: Any) -> BPETokenizer | _ForeignTokenizer:
    """Read a tokenizer of any kind.

    Args:
        tokenizer: A `BPETokenizer`, a fast tokenizer from transformers, a tokenizer from the ``tokenizers`` package, or a
            file, folder or Hub repository with a ``tokenizer.json``.
    """
    if isinstance(tokenizer, BPETokenizer):
        return tokenizer
    if isinstance(tokenizer, (str, os.PathLike)):
        try:
            return BPETokenizer.from_pretrained(tokenizer)
        except NotByteLevelError:
            path = loading.find(tokenizer)
            if loading.is_translated(path):
                return _ForeignTokenizer(json.dumps(loading.contents_of(path)[0]), str(path))
            return _ForeignTokenizer(read_utf8(path), str(path))
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        raise TypeError(f"expected a tokenizer, or its file, folder or Hub repository, not {type(tokenizer).__name__}")
    content = backend.to_str()
    try:
        return BPETokenizer.of(tokenizer_json.from_dict(json.loads(content)))
    except NotByteLevelError:
        return _ForeignTokenizer(content, type(tokenizer).__name__)


def tokenizer_in(path_or_repo: str | os.PathLike[str]) -> BPETokenizer | PieceFolder:
    """Return a tokenizer from a file, folder or Hub repository: one that merges, or one that looks up pieces."""
    try:
        return BPETokenizer.from_pretrained(path_or_repo)
    except NotByteLevelError:
        from hf_sgpe.formats.piece_folder import read_pieces  # imported here, because few tokenizers need it

        if (pieces := read_pieces(path_or_repo)) is None:
            raise
        return pieces


def load(source: str | os.PathLike[str] | PreTrainedTokenizerBase) -> BPETokenizer | Measurable:
    """Load a tokenizer from a file, folder or Hub repository with a ``tokenizer.json``, or from transformers. It neither
    adds nor recognizes special tokens. If `BPETokenizer` cannot read it, it runs in the ``tokenizers`` package.
    """
    tokenizer = read_tokenizer(source)
    return tokenizer if isinstance(tokenizer, BPETokenizer) else _foreign(*tokenizer)


def load_measurable(path_or_repo: str | os.PathLike[str]) -> Measurable:
    """Load a tokenizer, as `load` does."""
    return measurable(load(path_or_repo))


def without_transformers(tokenizer: Any) -> Any:
    """Convert an `SGPETokenizerFast` to a `BPETokenizer`. No class of transformers reports token ends in bytes."""
    if hasattr(tokenizer, "to_bpe"):
        return tokenizer.to_bpe()
    if hasattr(tokenizer, "backend_tokenizer"):
        raise SGPEError(
            f"a {type(tokenizer).__name__} cannot be measured: save it, and load it with hf_sgpe.evaluation.measurable.load"
        )
    return tokenizer


def measurable(tokenizer: TokenEnds | BPETokenizer | SGPETokenizerFast) -> Measurable:
    """Convert a tokenizer to the form that `evaluate` needs."""
    tokenizer = without_transformers(tokenizer)
    if not isinstance(tokenizer, BPETokenizer):
        return tokenizer if isinstance(tokenizer, Measurable) else Measurable(lambda text: ([], tokenizer(text)), 0)
    lengths = {id: len(token) for id, token in tokenizer.data.bytes_by_id().items()}
    is_changed = tokenizer.lacks_bytes or bool(tokenizer.data.normalization.steps)

    def encode(text: str) -> tuple[list[int], list[int]]:
        if is_changed:  # tokens need not have the bytes of the text
            ids, places = tokenizer.encode_with_offsets(text)
            starts = byte_offsets(text)
            return ids, [starts[end] for _, end in places]
        ids = tokenizer.encode(text)
        ends = list(accumulate(map(lengths.__getitem__, ids)))
        return ids, _places_in(text, tokenizer.data.normalization, ends) if tokenizer.by_characters else ends

    return Measurable(encode, tokenizer.vocab_size, tokenizer.data.unknown_id)


def _places_in(text: str, normalization: Normalization, ends: Sequence[int]) -> list[int]:
    """Convert byte offsets in the normalized text to byte offsets in the text. The normalization can put a space before the
    text, and replaces each U+2581 by a space.
    """
    space = len(prepare(text, normalization)) - len(text)  # 1 if a space is added before the text
    places: Sequence[int] = range(len(text.encode()) + 1)
    if SPACE_MARK in text:
        starts = byte_offsets(text)
        lengths = (1 if character == SPACE_MARK else len(character.encode()) for character in text)
        places = [start + byte for start, length in zip(starts, lengths, strict=False) for byte in range(length)]
        places.append(starts[-1])
    return [places[max(end - space, 0)] for end in ends]


def foreign_backend(content: str, where: str) -> Tokenizer:
    """Load a ``tokenizer.json`` with the ``tokenizers`` package, without truncation, padding and special tokens."""
    try:
        tokenizer = tokenizers_library.load(json.dumps({**json.loads(content), "padding": None, "truncation": None}))
    except NotInstalledError:
        raise
    except Exception as error:  # the library raises the bare class
        raise SGPEError(f"{where} is damaged or not a tokenizer.json ({error})") from None
    tokenizer.encode_special_tokens = True
    return tokenizer


def _foreign(content: str, where: str) -> Measurable:
    tokenizer = foreign_backend(content, where)

    def encode(text: str) -> tuple[list[int], list[int]]:
        starts = byte_offsets(text)
        encoded = tokenizer.encode(text, add_special_tokens=False)
        spans = encoded.offsets
        ends: list[int] = []
        for (_, end), (next_start, _) in zip(spans, [*spans[1:], (len(text), len(text))], strict=False):
            # If two tokens share a character, the first token ends somewhere inside the character.
            ends.append(starts[end - 1] + 1 if next_start < end else starts[end])
        return encoded.ids, ends

    model = json.loads(content)["model"]
    unknown = model["unk_id"] if "unk_id" in model else tokenizer.token_to_id(model.get("unk_token") or "")
    return Measurable(encode, tokenizer.get_vocab_size(), unknown)
