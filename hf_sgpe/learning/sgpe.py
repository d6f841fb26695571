"""SGPE as its architecture document has it: a vocabulary of whole syllables with merges over them, and its encoder.

`SGPEEncoder` encodes as the document does: a syllable that is not in the vocabulary becomes ``[UNK]``.
`SGPEVocabulary.to_bpe` gives the same tokens with the same ids in a lossless byte-level tokenizer, which loads everywhere.
A vocabulary is learned by `hf_sgpe.learning.training.learn_vocabulary`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from hf_sgpe.bpe.merging import MergeTable, apply_merges
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import sgpe_files
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.splitting.splitting import SGPE_SPECIAL_TOKENS
from hf_sgpe.splitting.syllables import LinguisTrie, is_boundary, segment_into_words
from hf_sgpe.tokenizer import BPETokenizer

Merges = list[tuple[str, str]]


@dataclass(frozen=True)
class SGPEVocabulary:
    """What the document's ``vocab.json`` holds.

    Args:
        vocab: Token → id, special tokens included.
        merges: Pairs of tokens in the order of their ranks.
        prune_freq: Syllables that occurred less often were left out.
        leading_space: Whether a space belongs to the syllable after it.
        scripts: Whose syllables: the document knows Sinhala only.

    Raises:
        SGPEError: two tokens share an id, or a merge uses a token that is not in the vocabulary.
    """

    vocab: dict[str, int]
    merges: list[tuple[str, str]]
    special_tokens: tuple[str, ...] = SGPE_SPECIAL_TOKENS
    prune_freq: int = 1
    leading_space: bool = True
    scripts: tuple[str, ...] = ("sinhala",)

    def __post_init__(self) -> None:
        for script in self.scripts:
            resolve_script(script)
        if len(set(self.vocab.values())) < len(self.vocab):
            twice = next(id for id, count in Counter(self.vocab.values()).items() if count > 1)
            raise SGPEError(f"two tokens of the vocabulary have the id {twice}")
        for rank, (left, right) in enumerate(self.merges):
            for token in (left, right, left + right):
                if token not in self.vocab:
                    raise SGPEError(f"merge {rank} uses {token!r}, which is not in the vocabulary")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SGPEVocabulary:
        """Reads a ``vocab.json``, ours or the document's.

        Raises:
            SGPEError: the file is damaged or of another kind.
            FileNotFoundError: there is no such file.
        """
        fields = sgpe_files.read(path)
        try:
            return cls(**fields)
        except SGPEError as error:
            raise SGPEError(f"{os.fspath(path)}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a ``vocab.json``."""
        sgpe_files.write(path, **vars(self))

    def to_bpe(self) -> BPETokenizer:
        """The same tokens with the same ids as byte-level BPE: lossless, loads everywhere, wraps texts in [CLS] and [SEP].

        Text whose units are all in the vocabulary has the tokens that `SGPEEncoder` gives. A unit that is not falls apart
        at its letters, characters or bytes, which have the ids after the vocabulary's.

        Raises:
            SGPEError: the vocabulary was made without leading spaces.
        """
        return BPETokenizer.of(sgpe_files.to_data(**vars(self)))


class SGPEEncoder:
    """Encodes as section 4 of the document does, ``[UNK]`` included. Time grows linearly with the text.

    Not lossless: what became ``[UNK]`` cannot be decoded. `SGPEVocabulary.to_bpe` is.

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
        """The tokens of ``text``, as text. Characters of no script are tokens whether or not the vocabulary has them."""
        units = self.trie.tokenize(text, leading_space=self.vocabulary.leading_space)
        tokens: list[str] = []
        for word in segment_into_words(units, self.vocabulary.scripts):
            if len(word) == 1 and is_boundary(word[0], self.vocabulary.scripts):
                tokens += word
            else:
                tokens += self._merged(tuple(word))
        return tokens

    def _merge(self, word: Sequence[str]) -> list[str]:
        known = [self._symbols.get(unit, -1) for unit in word]
        # An unknown unit merges with nothing: what stands between two of them merges by itself.
        tokens: list[str] = []
        start = 0
        for place, symbol in enumerate([*known, -1]):
            if symbol < 0:
                tokens += map(self._tokens.__getitem__, apply_merges(known[start:place], self._table))
                if place < len(known):
                    tokens.append("[UNK]")
                start = place + 1
        return tokens

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``; that of ``[UNK]`` for every token that is not in the vocabulary."""
        return [self.vocab.get(token, self.unk_id) for token in self.tokenize(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``; ids that are not in the vocabulary give nothing."""
        return "".join(self._text_of.get(id, "") for id in ids)

    @cached_property
    def _text_of(self) -> dict[int, str]:
        return {id: token for token, id in self.vocab.items()}
