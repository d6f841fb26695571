"""Learning a vocabulary from counted words, as in sections 3.3 to 3.7 of the SGPE document."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from hf_sgpe.bpe.merging import Pair
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.assembling import Languages, Learned, warn_of_absent
from hf_sgpe.learning.observer import NOBODY, Observer
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.learning.unit_choice import choose_units
from hf_sgpe.sgpe.sgpe_vocabulary import Merges, SGPEVocabulary
from hf_sgpe.splitting.syllables import LinguisTrie, is_boundary
from hf_sgpe.vocabulary.codec import make_codec

logger = logging.getLogger(__name__)

_OnMerges = Callable[[Merges, int, int], None]


def learn_sgpe(counts: WordCounts, config: TrainingConfig, *, languages: Languages, observer: Observer) -> Learned:
    """Learn the tokens and merges of a tokenizer with the recipe ``sgpe``. For the arguments, see
    `hf_sgpe.learning.learn.learn_tokenizer`.
    """
    if languages:
        raise SGPEError("the recipe sgpe does not support --balance-by merges: use --balance-by weights")
    return lossless(learn_vocabulary(counts, config, observer=observer))


def lossless(vocabulary: SGPEVocabulary) -> Learned:
    """Extend an SGPE vocabulary so that it encodes any text without loss. Its tokens keep their ids if special tokens are at
    the start.
    """
    data = vocabulary.to_data()
    return Learned([token for token, _ in data.get_mergeable_ranks()], data.merges)


def learn_vocabulary(
    counts: WordCounts,
    config: TrainingConfig,
    *,
    merged: Sequence[tuple[str, str]] = (),
    on_merge: _OnMerges | None = None,
    observer: Observer = NOBODY,
) -> SGPEVocabulary:
    """Learn a vocabulary from counted words, as in the SGPE document.

    The symbols (the tokens before any merge) are the sorted boundary tokens, followed by the syllables. The document does
    not define an order of the syllables. They are sorted so that the result does not depend on the order of the text.

    Args:
        config: A configuration of the recipe ``sgpe``. Its ``min_unit_frequency`` is the document's ``prune_freq``, and its
            ``min_frequency`` is the document's ``min_freq``. No merge contains a syllable that it does not choose.
        merged: Merges that were learned earlier from the same words. They are applied first.
        on_merge: Called at each new merge with all merges so far, their maximum number, and the count of the merged pair.
    """
    scripts, specials = config.splitting.scripts, tuple(config.special_tokens or ())
    trie = LinguisTrie(scripts)
    words, times = counts.words(), counts.values()
    units = trie.count_units(observer.steps(words, "Finding syllables"), times, every_word=True)
    warn_of_absent(scripts, map(trie.script_of, units))
    boundary = sorted(unit for unit in units if is_boundary(unit, scripts))
    least = config.min_unit_frequency and config.min_unit_frequency * counts.scale
    chosen = choose_units(
        {unit: count for unit, count in units.items() if count >= (least or 0)},
        trie,
        letter_coverage=config.letter_coverage or 0,
        syllable_coverage=config.syllable_coverage or 0,
        min_unit_frequency=least,
    )
    symbols = [*boundary, *sorted(chosen.syllables.difference(boundary))]
    ids = {symbol: id for id, symbol in enumerate(symbols)}
    runs = _known_runs(observer.steps(words, "Cutting words"), times, trie, ids.keys())
    num_merges = max(config.vocab_size - len(specials) - len(symbols), 0)
    if config.vocab_size < len(specials) + len(symbols):
        logger.warning(
            "vocab_size %d is too small even for the characters and the frequent syllables: give a larger vocab_size",
            config.vocab_size,
        )
    if len(merged) > num_merges:
        raise SGPEError(
            f"vocab_size {config.vocab_size} allows only {num_merges:,} merges, but {len(merged):,} merges were learned "
            "before: give a larger vocab_size"
        )

    replay: list[Pair] = []
    for left, right in merged:
        if left not in ids or right not in ids:
            raise SGPEError(f"the merge of {left!r} and {right!r} was not learned from this text with these settings")
        replay.append((ids[left], ids[right]))
        ids[left + right] = len(symbols)
        symbols.append(left + right)

    def note(id: int, pair: Pair, count: int) -> None:
        left, right = symbols[pair[0]], symbols[pair[1]]
        symbols.append(left + right)
        merges.append((left, right))
        if on_merge:
            on_merge(merges, num_merges, count)
        if observer.merged:
            observer.merged(id, pair, count)

    merges = list(merged)
    learn_merges(
        [[ids[unit] for unit in run] for run in runs],
        list(runs.values()),
        vocabulary=[symbol.encode() for symbol in symbols[: len(symbols) - len(replay)]],
        merged=replay,
        num_merges=num_merges - len(replay),
        tie_break=config.tie_break,
        min_frequency=config.min_frequency * counts.scale,
        on_merge=note,
    )
    if len(merges) < num_merges:
        logger.warning(
            "learning ended after %d of %d merges: no other pair occurs %d times",
            len(merges),
            num_merges,
            config.min_frequency,
        )
    vocabulary = SGPEVocabulary(
        {token: id for id, token in enumerate([*specials, *symbols])},
        merges,
        special_tokens=specials,
        prune_freq=config.min_unit_frequency or 1,
        scripts=scripts,
    )
    return replace(vocabulary, vocab=_by_frequency(vocabulary, runs))


def _known_runs(
    words: Iterable[bytes], counts: Iterable[int], trie: LinguisTrie, known: Set[str]
) -> Counter[tuple[str, ...]]:
    """Count the runs of known units from which SGPE learns merges. No merge contains an unknown unit.

    >>> _known_runs(["කකිකක".encode()], [2], LinguisTrie(), {"ක"})
    Counter({('ක',): 2, ('ක', 'ක'): 2})
    """
    runs: Counter[tuple[str, ...]] = Counter()
    for word, count in zip(words, counts, strict=True):
        run: list[str] = []
        for unit in trie.tokenize(word.decode(), leading_space=True):
            if unit in known:
                run.append(unit)
            elif run:
                runs[tuple(run)] += count
                run = []
        if run:
            runs[tuple(run)] += count
    return runs


def _by_frequency(vocabulary: SGPEVocabulary, runs: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    """Return a dict from tokens to ids, as in section 3.7 of the SGPE document: special tokens, then all other tokens from
    the most frequent to the least frequent. A token that occurs only as a part of longer tokens has the frequency 0.
    """
    import numpy as np

    ids, ends = make_codec(vocabulary.to_data()).encode_batch_to_numpy(list(map("".join, runs)))
    times = np.repeat(np.array(list(runs.values())), np.diff(ends, prepend=0))
    frequency = np.zeros(len(vocabulary.vocab), dtype=np.int64)
    np.add.at(frequency, ids, times)
    specials = len(vocabulary.special_tokens)
    order = [*range(specials), *(specials + np.argsort(-frequency[specials:], kind="stable"))]
    tokens = list(vocabulary.vocab)
    return {tokens[old]: new for new, old in enumerate(order)}
