"""SGPE as its architecture document has it: a vocabulary of whole syllables with merges over them, and its encoder.

`SGPEVocabulary` is what the document's ``vocab.json`` holds, `learn_vocabulary` learns one from counted words, `SGPEEncoder`
encodes with it as the document does: a syllable that is not in the vocabulary becomes ``[UNK]``. `SGPEVocabulary.to_bpe`
gives the same tokens with the same ids in a lossless byte-level tokenizer, which loads everywhere.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from hf_sgpe.bpe.encoder import MergeTable, Pair, apply_merges, spell_tokens
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.bpe.unit_tier import BYTES, ChosenUnits, build_unit_tier, order_units
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.special_tokens import SGPE_SPECIAL_TOKENS, cls_sep_template
from hf_sgpe.splitting.scripts import resolve_script
from hf_sgpe.splitting.syllables import LinguisTrie, is_boundary, segment_into_words
from hf_sgpe.splitting.words import sgpe_pattern
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.training import Track, known_runs

logger = logging.getLogger(__name__)

Merges = list[tuple[str, str]]
OnMerge = Callable[[Merges, int, int], None]


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
        from hf_sgpe.formats import sgpe_vocab

        return sgpe_vocab.read(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a ``vocab.json``."""
        from hf_sgpe.formats import sgpe_vocab

        sgpe_vocab.write(self, path)

    def to_bpe(self) -> BPETokenizer:
        """The same tokens with the same ids as byte-level BPE: lossless, loads everywhere, wraps texts in [CLS] and [SEP].

        Text whose units are all in the vocabulary has the tokens that `SGPEEncoder` gives. A unit that is not falls apart
        at its letters, characters or bytes, which have the ids after the vocabulary's.

        Raises:
            SGPEError: the vocabulary was made without leading spaces.
        """
        if not self.leading_space:
            raise SGPEError("only vocabularies with leading_space can be exported: words could not be told apart")
        trie = LinguisTrie(self.scripts)
        made = {left + right for left, right in self.merges}
        units = {token for token in self.vocab if token not in made and token not in self.special_tokens}
        letters = {letter for unit in units if trie.script_of(unit) for letter in trie.letters(unit)}
        ordered = order_units(ChosenUnits(units, letters), trie)
        unit_merges = build_unit_tier([unit.encode() for unit in ordered])
        tokens = spell_tokens(BYTES, unit_merges)
        vocab = {token.encode(): id for token, id in self.vocab.items() if token not in self.special_tokens}
        next_id = max(self.vocab.values(), default=-1) + 1
        for token in tokens:
            if token not in vocab:
                vocab[token] = next_id
                next_id += 1
        special_tokens = {token: self.vocab[token] for token in self.special_tokens if token in self.vocab}
        return BPETokenizer(
            vocab,
            [(tokens[left], tokens[right]) for left, right in unit_merges]
            + [(left.encode(), right.encode()) for left, right in self.merges],
            special_tokens=special_tokens,
            patterns=[sgpe_pattern(self.scripts)],
            template=cls_sep_template(special_tokens),
        )


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


def learn_vocabulary(
    counts: WordCounts,
    *,
    vocab_size: int,
    prune_freq: int,
    min_freq: int,
    scripts: Sequence[str] = ("sinhala",),
    merged: Sequence[tuple[str, str]] = (),
    on_merge: OnMerge | None = None,
    track: Track = lambda steps, what: steps,
) -> SGPEVocabulary:
    """Learns a vocabulary from counted words (sections 3.3 to 3.7).

    Symbols are the boundary tokens in order, then the syllables in order. The document leaves the order of the syllables
    open; this one makes the result independent of the order of the text.

    Args:
        counts: Words of the recipe ``sgpe``.
        vocab_size: Number of tokens to aim for, special tokens included; symbols are never left out to reach it.
        prune_freq: Syllables that occur less often are unknown: they take no part in any pair.
        min_freq: Merging stops before the first pair that occurs less often.
        scripts: Whose syllables.
        merged: Merges learned from the same words before, which are done again first.
        on_merge: Called at each further merge with all merges up to it, how many there can be at most, and its count.
        track: As for `train_from_counts`.

    Raises:
        SGPEError: there are no words, or ``merged`` was not learned from them or is more than ``vocab_size`` allows.
    """
    if not len(counts):
        raise SGPEError("the corpus is empty: it has no words to learn from")
    trie = LinguisTrie(scripts)
    words, times = list(counts), list(counts.values())
    units = trie.count_units(track(words, "Finding syllables"), times, every_word=True)
    boundary = sorted(unit for unit in units if is_boundary(unit, scripts))
    frequent = {unit for unit, count in units.items() if count >= prune_freq * counts.scale}
    symbols = [*boundary, *sorted(frequent.difference(boundary))]
    ids = {symbol: id for id, symbol in enumerate(symbols)}
    runs = known_runs(track(words, "Cutting words"), times, trie, ids.keys())
    num_merges = max(vocab_size - len(SGPE_SPECIAL_TOKENS) - len(symbols), 0)
    if vocab_size < len(SGPE_SPECIAL_TOKENS) + len(symbols):
        logger.warning("characters and frequent syllables alone are more than the %d tokens asked for", vocab_size)
    if len(merged) > num_merges:
        raise SGPEError(
            f"vocab_size {vocab_size} allows {num_merges:,} merges, fewer than the {len(merged):,} learned before"
        )

    def replayed() -> Iterator[Pair]:
        for left, right in merged:
            if left not in ids or right not in ids:
                raise SGPEError(f"the merge of {left!r} and {right!r} was not learned from this text with these settings")
            yield ids[left], ids[right]
            ids[left + right] = len(symbols)
            symbols.append(left + right)

    replay = list(replayed())

    def note(id: int, pair: Pair, count: int) -> None:
        left, right = symbols[pair[0]], symbols[pair[1]]
        symbols.append(left + right)
        merges.append((left, right))
        if on_merge:
            on_merge(merges, num_merges, count)

    merges = list(merged)
    learn_merges(
        [[ids[unit] for unit in run] for run in runs],
        list(runs.values()),
        vocabulary=[symbol.encode() for symbol in symbols[: len(symbols) - len(replay)]],
        merged=replay,
        num_merges=num_merges - len(replay),
        min_frequency=min_freq * counts.scale,
        on_merge=note,
    )
    if len(merges) < num_merges:
        logger.warning("the corpus gives %d of %d merges: no other pair occurs %d times", len(merges), num_merges, min_freq)
    tokens = [*SGPE_SPECIAL_TOKENS, *symbols]
    made = SGPEVocabulary(
        {token: id for id, token in enumerate(tokens)}, merges, prune_freq=prune_freq, scripts=tuple(scripts)
    )
    return replace(made, vocab=_by_frequency(made, runs))


def _by_frequency(vocabulary: SGPEVocabulary, runs: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    """The ids of section 3.7: special tokens, then the most frequent first. Those of equal frequency stay in order, and so
    do those that occur no more, since each stands inside a longer one."""
    import numpy as np

    ids, ends = vocabulary.to_bpe().encode_batch_to_numpy(map("".join, runs))
    times = np.repeat(np.array(list(runs.values())), np.diff(ends, prepend=0))
    frequency = np.zeros(len(vocabulary.vocab), dtype=np.int64)
    np.add.at(frequency, ids, times)
    specials = len(vocabulary.special_tokens)
    order = [*range(specials), *(specials + np.argsort(-frequency[specials:], kind="stable"))]
    tokens = list(vocabulary.vocab)
    return {tokens[old]: new for new, old in enumerate(order)}
