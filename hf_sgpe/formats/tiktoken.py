"""``.tiktoken`` files, and tokenizers of the ``tiktoken`` package.

tiktoken has no list of merges. It merges any two neighbours whose concatenation is a token, and begins with the token of
lowest rank. It has a single split pattern and no normalization. This module refuses a tokenizer for which tiktoken would
return other tokens.

In tiktoken, the rank of a token is also its id. A tokenizer whose ids differ from its ranks, such as an extended tokenizer,
cannot be written to a file. For such a tokenizer, `to_tiktoken` returns an encoding that maps ranks to ids.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.bpe.closed_pairs import pairs_of, rank_of_last_merge
from hf_sgpe.bpe.merging import MergeTable, apply_merges
from hf_sgpe.bpe.unit_tier import BYTES, build_unit_tier
from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.files.unreadable import check_no_pointer, read_data
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.byte_strings import BYTES_OF_TEXT
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

if TYPE_CHECKING:
    from tiktoken import Encoding


def write(tokenizer: TokenizerData, path: str | os.PathLike[str]) -> None:
    """Write the tokens and their ids to a ``.tiktoken`` file, in the order of ids, without special and added tokens."""
    one_pattern(tokenizer.splitting)  # for its errors
    ranks = _ranks(tokenizer)
    if ranks != tokenizer.vocab:
        raise SGPEError(
            "a .tiktoken file requires ids in the order of merges, but the tokenizer's ids are in another order: use "
            "BPETokenizer.to_tiktoken to get an encoding of the tiktoken package"
        )
    _check(tokenizer, ranks)
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        file.writelines(b"%s %d\n" % (base64.b64encode(token), id) for token, id in tokenizer.get_mergeable_ranks())


def read(
    path: str | os.PathLike[str], *, pattern: str = "cl100k", special_tokens: Mapping[str, int] | None = None
) -> TokenizerData:
    """Return the tokenizer in a ``.tiktoken`` file, which contains neither the split pattern nor the special tokens.

    Args:
        pattern: Name of one of `SPLIT_PATTERNS`, or a regex.
    """
    path = Path(path)
    ranks = read_ranks(path)
    try:
        return of_ranks(ranks, splitting=Splitting("bpe", pattern=pattern), special_tokens=special_tokens or {})
    except SGPEError as error:
        raise SGPEError(f"{path}: {error}") from None


def read_ranks(path: Path) -> dict[bytes, int]:
    """Return the ranks in a ``.tiktoken`` file, keyed by token."""
    ranks: dict[bytes, int] = {}
    lines: dict[bytes, int] = {}
    for number, line in enumerate(read_data(path).splitlines(), 1):
        if not line:
            continue
        try:
            token, id = line.split()
            decoded = base64.b64decode(token, validate=True)
            ranks[decoded] = int(id)
        except (ValueError, binascii.Error):
            check_no_pointer(path)
            raise SGPEError(f"{path}, line {number}: expected a token in base64 and its id, not {line[:40]!r}") from None
        if lines.setdefault(decoded, number) != number:
            raise SGPEError(f"{path}, line {number}: the token {decoded!r} is already in line {lines[decoded]}")
    return ranks


def of_ranks(ranks: Mapping[bytes, int], *, first_id: int = 0, **parts: Any) -> TokenizerData:
    """Return a tokenizer that encodes every text to the same tokens as tiktoken does with these ranks. The id of a token is
    ``first_id`` plus its rank, and ``parts`` are the other arguments of `TokenizerData`.
    """
    merges, unreachable = _merges(ranks)
    vocab = {token: rank + first_id for token, rank in ranks.items()}
    return TokenizerData(vocab, merges, ignore_merges=bool(unreachable), **parts)


def to_tiktoken(tokenizer: TokenizerData, name: str = "hf_sgpe") -> Encoding:
    """Return an ``Encoding`` of the ``tiktoken`` package with the same ids for text that is already normalized."""
    tiktoken = optional("tiktoken", "to_tiktoken needs tiktoken", extra="tiktoken")
    if tokenizer.matching:
        raise SGPEError(
            f"the added token {next(iter(tokenizer.matching))!r} takes white space around it or matches only whole words, "
            "but tiktoken supports neither: encode with BPETokenizer"
        )
    pattern = one_pattern(tokenizer.splitting)
    ranks = _ranks(tokenizer)
    _check(tokenizer, ranks)
    specials = tokenizer.added_ids
    renumbered = ranks != tokenizer.vocab
    try:
        encoding = tiktoken.Encoding(
            name,
            pat_str=pattern,
            mergeable_ranks=ranks,
            special_tokens={token: len(ranks) + n for n, token in enumerate(specials)} if renumbered else specials,
        )
        return _renumbered(encoding, tokenizer, ranks) if renumbered else encoding
    except ValueError as error:
        raise SGPEError(f"tiktoken does not accept the split pattern of this tokenizer ({error})") from None


def one_pattern(splitting: Splitting) -> str:
    """Return a single regex that splits text into the same words as ``splitting``. The regex matches all of the text, also
    where the splitting's own pattern matches nothing.

    For the recipe ``hybrid``, each word of the scripts is a separate match, and no other match extends into it.
    """
    if not splitting.regexes:
        raise SGPEError("this tokenizer merges characters across the whole text, but tiktoken splits text and merges bytes")
    if len(splitting.patterns) > 1:
        raise SGPEError("this tokenizer splits text in several steps, but tiktoken has a single split pattern")
    if splitting.recipe != "hybrid":
        (pattern,) = splitting.regexes
    else:
        words = splitting.words_regex
        guarded = _MATCHES_SOME_CHARACTER.sub(lambda atom: f"(?:(?!{words}){atom[0]})", splitting.patterns[0])
        pattern = f"{words}|{guarded}"
    last = len(splitting.regexes) - 1
    # The second alternative matches the text between two matches.
    return pattern if splitting.covers_all(last) else rf"{pattern}|(?:(?!{pattern})[\s\S])+"


# The atoms of a split pattern that can match a letter or a space: classes, \p{…}, \s, \S and the space.
_MATCHES_SOME_CHARACTER = re.compile(r"\[(?:\\.|[^\]\\])+\]|\\p\{\w+\}|\\[sS]| ")


def _ranks(tokenizer: TokenizerData) -> dict[bytes, int]:
    """Return the ranks in the order of the merges, as tiktoken requires. In most tokenizers, they are the ids."""
    vocab, merges = tokenizer.vocab, tokenizer.merges
    made: dict[bytes, int] = {}
    several: set[bytes] = set()
    for rank, (left, right) in enumerate(merges):
        several.update((left + right,) if left + right in made else ())
        made[left + right] = rank
    rank_of = {pair: rank for rank, pair in enumerate(merges)}
    for token in several:
        symbols = [bytes([byte]) for byte in token]
        made[token] = rank_of_last_merge(symbols, rank_of, default=made[token])
    order = sorted(vocab, key=lambda token: (made.get(token, -1 if len(token) == 1 else len(merges)), vocab[token]))
    in_order = sorted(vocab.values()) == [vocab[token] for token in order]
    return dict(vocab) if in_order else {token: rank for rank, token in enumerate(order)}


def _check(tokenizer: TokenizerData, ranks: Mapping[bytes, int]) -> None:
    """Check that tiktoken, with these ranks, encodes every text to the same tokens as the tokenizer."""
    for byte in sorted(BYTES_OF_TEXT):
        if bytes([byte]) not in ranks:
            raise SGPEError(
                f"the tokenizer has no token for the byte 0x{byte:02x}, but tiktoken needs a token for each byte of text"
            )
    merges, unreachable = _merges(ranks)
    # All other merges of the tokenizer are never applied, because their two parts are never neighbours.
    if missing := set(merges).difference(tokenizer.merges):
        left, right = min(missing, key=lambda pair: ranks[pair[0] + pair[1]])
        raise SGPEError(
            f"the tokenizer has no merge of {left!r} and {right!r}, but tiktoken would merge them into {left + right!r}"
        )
    if unreachable and not tokenizer.ignore_merges:
        raise SGPEError(
            f"the tokenizer's merges cannot build its token {unreachable[0]!r}, but tiktoken would use this token wherever "
            "a whole word equals it"
        )


def _merges(ranks: Mapping[bytes, int]) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
    """Return merges that give the same tokens as tiktoken with these ranks, and the tokens that they cannot make.

    For each token, all merges of lower rank are applied to its bytes. If two tokens remain, the list contains only the merge
    of these two. This is enough, because in longer text the token is made from the same two tokens or not at all. For each
    other token, the list contains every pair of tokens that joins to it, because a later merge may make such a pair. Llama 3
    has 678 of these other tokens.
    """
    ranked = sorted(ranks.items(), key=lambda item: item[1])
    longer = [token for token, _ in ranked if len(token) > 1]
    names = [*BYTES, *longer]
    merges = [(names[left], names[right]) for left, right in build_unit_tier(longer) if max(left, right) < len(names)]
    if list(map(b"".join, merges)) == longer:
        return merges, []
    numbers = {token: number for number, token in enumerate(names)}
    table = MergeTable()
    merges, unreachable = [], []
    for token in longer:
        pieces = apply_merges(token, table)
        if len(pieces) == 2:
            pairs = [(names[pieces[0]], names[pieces[1]])]
        else:
            unreachable.append(token)
            pairs = pairs_of(token, numbers)
        for left, right in pairs:
            table.add((numbers[left], numbers[right]), numbers[token])
        merges += pairs
    return merges, unreachable


def _renumbered(encoding: Encoding, tokenizer: TokenizerData, ranks: Mapping[bytes, int]) -> Encoding:
    """Return an encoding that returns the tokenizer's ids where ``encoding`` returns ranks."""
    from tiktoken import Encoding

    specials = tokenizer.added_ids
    ids = {rank: tokenizer.vocab[token] for token, rank in ranks.items()}
    ids |= {encoding._special_tokens[token]: id for token, id in specials.items()}

    class Renumbered(Encoding):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(
                encoding.name,
                pat_str=encoding._pat_str,
                mergeable_ranks=encoding._mergeable_ranks,
                special_tokens=encoding._special_tokens,
            )
            self._core_bpe: Any = _Core(self._core_bpe, ids)
            self._mergeable_ranks, self._special_tokens = dict(tokenizer.vocab), dict(specials)
            self.max_token_value = max(ids.values())

        def __reduce__(self) -> tuple[Any, ...]:
            return to_tiktoken, (tokenizer, self.name)

    return Renumbered()


class _Core:
    """A wrapper of tiktoken's native encoder. It takes and returns the tokenizer's ids instead of ranks."""

    def __init__(self, core: Any, ids: Mapping[int, int]) -> None:
        self._core = core
        self._ids = ids
        self._ranks = {id: rank for rank, id in ids.items()}

    def _rank(self, id: int) -> int:
        if id not in self._ranks:
            raise KeyError(f"Invalid token for decoding: {id}")
        return self._ranks[id]

    def _ids_of(self, ranks: Iterable[int]) -> list[int]:
        return [self._ids[rank] for rank in ranks]

    def encode(self, text: str, allowed_special: Any) -> list[int]:
        return self._ids_of(self._core.encode(text, allowed_special))

    def encode_ordinary(self, text: str) -> list[int]:
        return self._ids_of(self._core.encode_ordinary(text))

    def encode_to_tiktoken_buffer(self, text: str, allowed_special: Any) -> bytes:
        import numpy as np

        return np.array(self.encode(text, allowed_special), dtype=np.uint32).tobytes()

    def encode_with_unstable(self, text: str, allowed_special: Any) -> tuple[list[int], list[list[int]]]:
        stable, completions = self._core.encode_with_unstable(text, allowed_special)
        return self._ids_of(stable), list(map(self._ids_of, completions))

    def encode_single_token(self, piece: Any) -> int:
        return self._ids[self._core.encode_single_token(piece)]

    def encode_single_piece(self, piece: Any) -> list[int]:
        return self._ids_of(self._core.encode_single_piece(piece))

    def _encode_bytes(self, data: bytes) -> list[int]:
        return self._ids_of(self._core._encode_bytes(data))

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return bytes(self._core.decode_bytes([self._rank(id) for id in ids]))

    def decode_single_token_bytes(self, id: int) -> bytes:
        return bytes(self._core.decode_single_token_bytes(self._rank(id)))

    def token_byte_values(self) -> list[bytes]:
        return list(self._core.token_byte_values())
