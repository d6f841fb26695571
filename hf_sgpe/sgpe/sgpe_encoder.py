"""SGPEEncoder: the encoder of the SGPE document. An unknown syllable becomes ``[UNK]``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

from hf_sgpe.bpe.merging import MergeTable, apply_merges
from hf_sgpe.sgpe.sgpe_vocabulary import SGPEVocabulary
from hf_sgpe.splitting.syllables import LinguisTrie, is_boundary, segment_into_words


class SGPEEncoder:
    """The encoder of section 4 of the SGPE document, including ``[UNK]``. Encoding time is linear in the length of the text.

    The encoder is not lossless, because ``[UNK]`` cannot be decoded. The tokenizer from `SGPEVocabulary.to_data` is
    lossless.

    >>> vocabulary = SGPEVocabulary({"[UNK]": 0, "ක": 1, " ල": 2, "ක ල": 3, " ලල": 4, "ල": 5}, [(" ල", "ල")])
    >>> encoder = SGPEEncoder(vocabulary)
    >>> encoder.tokenize("ක ලල ෆ"), encoder.encode("ක ලල ෆ")
    (['ක', ' ලල', '[UNK]'], [1, 4, 0])
    """

    def __init__(self, vocabulary: SGPEVocabulary) -> None:
        self.vocabulary = vocabulary
        self.vocab = vocabulary.vocab
        self.unk_id = self.vocab.get("[UNK]", 1)
        self.trie = LinguisTrie(vocabulary.scripts)
        self._tokens = list(self.vocab)
        symbols = {token: symbol for symbol, token in enumerate(self._tokens)}
        self._symbols = symbols
        self._table = MergeTable(
            ((symbols[left], symbols[right]), symbols[left + right]) for left, right in vocabulary.merges
        )
        self._merged = lru_cache(1 << 16)(self._merge)

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of ``text``. Each character outside the scripts is a token, even if the vocabulary lacks it. Any
        other unit that the vocabulary lacks becomes ``[UNK]``.
        """
        units = self.trie.tokenize(text, leading_space=self.vocabulary.leading_space)
        tokens: list[str] = []
        for word in segment_into_words(units, self.vocabulary.scripts):
            if len(word) == 1 and is_boundary(word[0], self.vocabulary.scripts):
                tokens += word
            else:
                tokens += self._merged(tuple(word))
        return tokens

    def _merge(self, word: Sequence[str]) -> list[str]:
        symbols = [self._symbols.get(unit, -1) for unit in word]
        # Unknown units do not merge, so each run of known units is merged separately.
        tokens: list[str] = []
        start = 0
        for place, symbol in enumerate([*symbols, -1]):
            if symbol < 0:
                tokens += map(self._tokens.__getitem__, apply_merges(symbols[start:place], self._table))
                if place < len(symbols):
                    tokens.append("[UNK]")
                start = place + 1
        return tokens

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``. Each token that is not in the vocabulary has the id of ``[UNK]``."""
        return [self.vocab.get(token, self.unk_id) for token in self.tokenize(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ``ids``. Skip ids that are not in the vocabulary."""
        return "".join(self._text_of.get(id, "") for id in ids)

    @cached_property
    def _text_of(self) -> dict[int, str]:
        return {id: token for token, id in self.vocab.items()}
