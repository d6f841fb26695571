"""The parts of tokens: the two tokens that a token's last merge joins, and all tokens from which a token is built.

BPE builds a token by the same merges in every text, because no merge crosses the ends of the token, and the merges inside
the token have the same order. So these merges can be found by encoding the bytes of the token alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import replace

from hf_sgpe.bpe.merging import apply_merges, symbols
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


class TokenParts:
    """A look-up of the tokens from which each token of a tokenizer is built."""

    def __init__(self, data: TokenizerData) -> None:
        self._data = data
        self._tokens = {id: token for token, id in data.vocab.items()}
        self._table = data.merge_table()

    def of(self, token: bytes) -> tuple[bytes, bytes] | None:
        """Return the two tokens that the last merge of a token joins, or None if no merges build the token."""
        ids = symbols(token, self._data.characters, self._data.byte_ids)
        last = tuple(apply_merges(ids, self._table, fewest=2))
        if len(last) != 2 or last not in self._table.ranks:
            return None
        return self._tokens[last[0]], self._tokens[last[1]]

    def need(self, use: Mapping[bytes, int]) -> dict[bytes, int]:
        """Return how often a text needs each token, the most needed first and parts before the tokens built from them.

        The need is the number of uses of the token and of all tokens that are built from it. BPE applies the last merge of
        the token as often, so the text gets this number of tokens more if the token is removed.

        >>> from hf_sgpe import BPETokenizer
        >>> need = TokenParts(BPETokenizer.train_from_iterator(["low low"], 258).data).need({b"low": 2, b"l": 1})
        >>> [(token, times) for token, times in need.items() if times]
        [(b'l', 3), (b'o', 2), (b'w', 2), (b'lo', 2), (b'low', 2)]
        """
        need, parts = Counter(use), {token: self.of(token) or () for token in sorted(self._data.vocab, key=len)}
        for token in reversed(parts):
            for part in parts[token]:
                need[part] += need[token]
        latest: dict[bytes, int] = {}  # the highest id of a token and its parts
        for token, two in parts.items():
            latest[token] = max([self._data.vocab[token], *map(latest.__getitem__, two)])
        return {token: need[token] for token in sorted(parts, key=lambda token: (-need[token], latest[token]))}


def without_tokens(data: TokenizerData, gone: Set[bytes]) -> TokenizerData:
    """Return a tokenizer without the tokens ``gone``, and without the merges that build or use them."""
    vocab = {token: id for token, id in data.vocab.items() if token not in gone}
    return replace(data, vocab=vocab, merges=[pair for pair in data.merges if gone.isdisjoint((*pair, pair[0] + pair[1]))])
