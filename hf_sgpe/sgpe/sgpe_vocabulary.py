"""SGPEVocabulary: the vocabulary of the SGPE document, with syllables and merges of syllables, saved as ``vocab.json``.

`hf_sgpe.learning.sgpe_learning.learn_vocabulary` trains such a vocabulary. `hf_sgpe.sgpe.sgpe_encoder.SGPEEncoder` encodes
text with it.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sgpe.bpe.merging import spell_tokens
from hf_sgpe.bpe.unit_tier import BYTES, ChosenUnits, build_unit_tier, order_units
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import read_json, write_json
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.splitting.splitting import SGPE_SPECIAL_TOKENS, Splitting
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.vocabulary.special_tokens import cls_sep_template
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

VOCAB_FILE = "vocab.json"
VERSION = "sgpe_v1.0.0"

Merges = list[tuple[str, str]]


@dataclass(frozen=True)
class SGPEVocabulary:
    """The content of ``vocab.json`` (section 3.7 of the SGPE document).

    Args:
        vocab: Dict from tokens to ids, including the special tokens.
        merges: Pairs of tokens in the order of their ranks.
        special_tokens: Texts of the special tokens.
        prune_freq: Minimum number of occurrences that a syllable needs in the training text to be in the vocabulary.
        leading_space: Whether a space belongs to the syllable after it.
        scripts: Names of the scripts to which the syllables belong. The document covers only Sinhala.

    Raises:
        SGPEError: two tokens share an id, or a merge uses a token that is not in the vocabulary.
    """

    vocab: dict[str, int]
    merges: Merges
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
        """Read a ``vocab.json`` that this package or the program of the SGPE document has written.

        Raises:
            SGPEError: the file is damaged or not an SGPE vocabulary.
            FileNotFoundError: the file does not exist.
        """
        path = Path(path)
        content = read_json(path)
        vocab, special_tokens = content.get("vocab"), content.get("special_tokens")
        if not isinstance(vocab, dict) or not all(type(id) is int and id >= 0 for id in vocab.values()):
            raise SGPEError(f"{path} is not an SGPE vocabulary: its entry 'vocab' does not map tokens to ids")
        if not isinstance(special_tokens, list) or not all(isinstance(token, str) for token in special_tokens):
            raise SGPEError(f"{path} is not an SGPE vocabulary: its entry 'special_tokens' must be a list of tokens")
        prune_freq, scripts = content.get("prune_freq", 1), content.get("scripts", ["sinhala"])
        if type(prune_freq) is not int or not isinstance(scripts, list):
            raise SGPEError(f"{path}: prune_freq must be a whole number, and scripts must be a list")
        merges = merges_in(content, path)
        leading_space = content.get("leading_space", False)
        if not isinstance(leading_space, bool):
            raise SGPEError(f"{path}: leading_space must be true or false, not {leading_space!r}")
        for name, size in {"vocab_size": len(vocab), "num_merges": len(merges)}.items():
            if content.get(name, size) != size:
                raise SGPEError(f"{path} is damaged: its {name} is {content[name]!r}, but the file contains {size}")
        try:
            return cls(vocab, merges, tuple(special_tokens), prune_freq, leading_space, tuple(scripts))
        except SGPEError as error:
            raise SGPEError(f"{path}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``vocab.json``. For scripts other than Sinhala, add the entry ``scripts``, an extension of the document's
        format.
        """
        content: dict[str, Any] = {
            "version": VERSION,
            "vocab_size": len(self.vocab),
            "special_tokens": list(self.special_tokens),
            "num_merges": len(self.merges),
            "prune_freq": self.prune_freq,
            "leading_space": self.leading_space,
            "merges": [list(pair) for pair in self.merges],
            "vocab": dict(sorted(self.vocab.items(), key=lambda item: item[1])),
        }
        if self.scripts != ("sinhala",):
            content["scripts"] = list(self.scripts)
        write_json(Path(path), content)

    def to_data(self) -> TokenizerData:
        """Return a lossless byte-level BPE tokenizer with the same tokens and ids. This tokenizer puts [CLS] and [SEP]
        around texts.

        If all units of a text are in the vocabulary, the tokens are the same as with `SGPEEncoder`. Any other unit is
        encoded as tokens for its letters, characters or bytes. The ids of these tokens follow the ids of the vocabulary.

        Raises:
            SGPEError: the vocabulary was trained without ``leading_space``.
        """
        if not self.leading_space:
            raise SGPEError(
                "the vocabulary has no leading_space, so words have no boundaries: train it again with leading_space"
            )
        trie = LinguisTrie(self.scripts)
        merged = {left + right for left, right in self.merges}
        units = {token for token in self.vocab if token not in merged and token not in self.special_tokens}
        letters = {letter for unit in units if trie.script_of(unit) for letter in trie.letters(unit)}
        unit_merges = build_unit_tier([unit.encode() for unit in order_units(ChosenUnits(units, letters), trie)])
        tokens = spell_tokens(BYTES, unit_merges)
        ids = {token.encode(): id for token, id in self.vocab.items() if token not in self.special_tokens}
        next_id = max(self.vocab.values(), default=-1) + 1
        for token in tokens:
            if token not in ids:
                ids[token] = next_id
                next_id += 1
        special_ids = {token: self.vocab[token] for token in self.special_tokens if token in self.vocab}
        return TokenizerData(
            ids,
            [(tokens[left], tokens[right]) for left, right in unit_merges]
            + [(left.encode(), right.encode()) for left, right in self.merges],
            special_tokens=special_ids,
            splitting=Splitting("sgpe", self.scripts),
            template=cls_sep_template(special_ids),
        )


def merges_in(content: dict[str, Any], path: Path) -> Merges:
    """Return the merges in ``content``, the JSON object of a ``vocab.json``. The error message names ``path``.

    Raises:
        SGPEError: the entry ``merges`` is not a list of pairs of tokens.
    """
    merges = content.get("merges")
    if not isinstance(merges, list):
        raise SGPEError(f"{path}: the list 'merges' is missing")
    for rank, pair in enumerate(merges):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(token, str) for token in pair):
            raise SGPEError(f"{path}: merge {rank} must be two tokens, not {pair!r}")
    return [(left, right) for left, right in merges]
