"""Training of tokenizers that are fair: no language needs many more tokens than another for the same content. There are two
ways: the text of each language is weighted, or each merge is chosen for the language that has the highest cost at that time.

The cost of each language is measured on held-out texts. If the texts are translations of each other (with equal numbers of
lines), the cost is the number of tokens. Otherwise, the cost is a ratio: the number of tokens is divided by the number that
a tokenizer of the same size needs if it has learned from this language alone. A corpus is assumed to be in the language of
the held-out text with which it shares the most words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import exp, inf, log
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.text_files import read_lines
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.fairness import gini
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.terminal.progress import bar_disabled
from hf_sgpe.tokenizer import BPETokenizer, train_from_counts
from trainers.counting.parallel_counting import count_corpus

logger = logging.getLogger(__name__)

_PRICE = 0.005
"""The default limit on the price of fairness. The price is the share of additional tokens in all held-out texts."""

_WAYS = ("weights", "merges")
"""The ways to balance: weights for the corpora of each language, or the merges of Parity-aware BPE."""

_ROUNDS = 12
# In each round, a language's weight is multiplied by this power of its cost relative to the mean cost. If a weight is
# doubled, the language needs about two to four per cent fewer tokens, so weights have to change much more than costs.
_FIRST_STEP = 6.0
_SMALLEST_STEP = 0.5
# Weights have three digits and at most six decimals, so there is no smaller weight.
_LEAST_WEIGHT = 0.0001
# A corpus is in the language of a text if its share of the text's running words is at least this part of the best corpus's
# share. English in source code has about 0.8.
_SHARE_OF_BEST = 0.9
# The least share of a text's running words that its best corpus must have. Corpora of another language have up to 0.2
# (numbers, punctuation, names).
_LEAST_SHARE = 0.3


class Trial(NamedTuple):
    """The weight of each corpus, and the number of tokens and the cost of each held-out text with the tokenizer that was
    trained with these weights.
    """

    weights: dict[str, float]
    tokens: dict[str, int]
    costs: dict[str, float]

    @property
    def total(self) -> int:
        """The number of tokens of all held-out texts."""
        return sum(self.tokens.values())

    @property
    def gini(self) -> float:
        """The Gini coefficient of the costs, which is 0 if all costs are equal."""
        return gini(self.costs.values()) or 0.0

    @property
    def parity(self) -> float:
        """The ratio of the highest cost to the lowest."""
        return max(self.costs.values()) / min(self.costs.values())


class Balanced(NamedTuple):
    """A tokenizer that is fair to some languages, and the trials of the search that found it.

    Attributes:
        tokenizer: The trained tokenizer. Its ``metadata`` records how it was balanced.
        words: The weighted word counts of all corpora, from which the tokenizer learned.
        languages: Dict from the name of each held-out text to the corpora in the language of this text.
        trials: All trials in order. The first has the given weights.
    """

    tokenizer: BPETokenizer
    words: WordCounts
    languages: dict[str, list[str]]
    trials: list[Trial]
    best: Trial


def train_balanced(
    counts: Mapping[str, WordCounts],
    texts: Mapping[str, Sequence[str]],
    config: TrainingConfig,
    *,
    by: str = "weights",
    price: float | None = None,
    parity: float | None = None,
    progress: bool | None = None,
) -> Balanced:
    """Train a tokenizer that is fair to several languages, either by weighting their corpora or with Parity-aware BPE.

    With ``by="weights"``, several tokenizers are trained with different weights. The result is the fairest of those that are
    within ``price``, or the one with the fewest tokens of those that are within ``parity``. The search starts with the
    weights of ``config`` (1 by default), and has up to 12 rounds. Each round trains a tokenizer, then raises the weights of
    the languages whose cost is above the mean.

    With ``by="merges"``, the result is that of `train_from_counts` with its argument ``languages``. The same input always
    produces the same tokenizer.

    Args:
        counts: Word counts, keyed by corpus. If a language has several corpora, their weights change together.
        texts: The lines of one held-out text for each language, keyed by the name of the text.
        price: The greatest acceptable increase in the tokens of all texts, as a share of those in the first trial. None for
            0.005.
        parity: Instead of ``price``, the greatest acceptable ratio between the costs of two texts.
        progress: Whether to show a bar on stderr; None shows it only on a terminal.
    """
    texts = {name: lines if isinstance(lines, str) else list(lines) for name, lines in texts.items()}
    _check(texts, by, price, parity)
    price = _PRICE if price is None else price
    weighted = Corpus(tuple(map(Path, counts)), weights=config.weights)
    given = {name: float(weighted.weight_of(Path(name))) for name in counts}
    nearest, languages = _languages(counts, texts, config)
    foreign = [corpus for corpus in counts if corpus not in nearest]
    if by == "merges" and foreign:
        raise SGPEError(
            f"{foreign[0]} shares no word with any held-out text, so no language learns from it: leave this file out"
        )
    rounds = _ROUNDS if by == "weights" else 2
    with tqdm(total=rounds, unit=" rounds", desc="Balancing", disable=bar_disabled(progress), leave=False) as bar:
        trials = _Trials(counts, texts, config, given, languages, bar)
        first = trials.with_weights(given)
        if by == "merges":
            parts = []
            for name, lines in texts.items():
                learning = _mixture({corpus: counts[corpus] for corpus, its in nearest.items() if its == name}, given)
                parts.append((learning, WordCounts.from_texts(lines, config)))
            together = WordCounts.sum(learning for learning, _ in parts)
            tokenizer = train_from_counts(together, replace(config, weights=given), languages=parts)
            best = trials.measured(given, tokenizer)
            tried = [first, best]
        else:
            tried = _search(first, trials.with_logs, price, parity)
            best = _best(tried, price, parity)
            tokenizer = trials.train(best.weights)
    note = {"by": by, "before": _summary(first), "after": _summary(best)}
    data = replace(tokenizer.data, metadata={**tokenizer.metadata, "balance": note})
    return Balanced(BPETokenizer.of(data), _mixture(counts, best.weights), languages, tried, best)


def _summary(trial: Trial) -> dict[str, float]:
    return {"tokens": trial.total, "gini": round(trial.gini, 4)}


class _Trials:
    """Trials with different weights for the same corpora and held-out texts."""

    def __init__(
        self,
        counts: Mapping[str, WordCounts],
        texts: Mapping[str, Sequence[str]],
        config: TrainingConfig,
        given: Mapping[str, float],
        languages: Mapping[str, Sequence[str]],
        bar: tqdm[Any],
    ) -> None:
        self._counts, self._texts, self._config, self._given, self._bar = counts, texts, config, given, bar
        self._languages = languages
        self._done: dict[tuple[float, ...], Trial] = {}
        # Without translations, a cost is relative to the tokens that a tokenizer of this language alone needs.
        self._alone = dict.fromkeys(texts, 1.0)
        if not _translations(texts):
            logger.warning("the held-out texts have different numbers of lines, so they are not treated as translations")
            for name, corpora in languages.items():
                own = train_from_counts(_mixture({corpus: counts[corpus] for corpus in corpora}, given), config)
                self._alone[name] = _tokens(own, texts[name])

    def train(self, weights: Mapping[str, float]) -> BPETokenizer:
        return train_from_counts(_mixture(self._counts, weights), replace(self._config, weights=weights))

    def measured(self, weights: Mapping[str, float], tokenizer: BPETokenizer) -> Trial:
        self._bar.update()
        tokens = {name: _tokens(tokenizer, lines) for name, lines in self._texts.items()}
        return Trial(dict(weights), tokens, {name: tokens[name] / self._alone[name] for name in tokens})

    def with_weights(self, weights: Mapping[str, float]) -> Trial:
        key = tuple(weights.values())
        if key not in self._done:
            self._done[key] = self.measured(weights, self.train(weights))
        return self._done[key]

    def with_logs(self, logs: Mapping[str, float]) -> Trial:
        return self.with_weights(_weights(self._counts, self._languages, self._given, logs))


def balance_corpus(
    corpus: Corpus,
    held_out: Corpus,
    config: TrainingConfig,
    *,
    by: str | None = None,
    workers: int | None = None,
    **how: Any,
) -> Balanced:
    """Count the words of each file of a corpus, and train a tokenizer with `train_balanced`. The tokenizer is fair to the
    languages of the held-out files.

    Args:
        held_out: Files of held-out text, one for each language.
        by: As in `train_balanced`; None means ``weights``. The arguments in ``how`` are also those of
            `train_balanced`.
    """
    texts = {str(file): list(read_lines(file, text_field=held_out.text_field)) for file in held_out.files}
    # Weights are published with the tokenizer, so folder names are included only if two files have the same name.
    parts = corpus.parts()
    # The keys of the weights may be paths.
    weighted = replace(corpus, weights=config.weights)
    weights = {name: weighted.weight_of((*part.files, *part.counts)[0]) for name, part in parts.items()}
    config = replace(config, weights={name: weight for name, weight in weights.items() if weight != 1})
    words = {name: count_corpus(part, config, workers=workers) for name, part in parts.items()}
    return train_balanced(words, texts, config, by=by or _WAYS[0], **how)


def _check(texts: Mapping[str, Sequence[str]], by: str, price: float | None, parity: float | None) -> None:
    if by not in _WAYS:
        raise SGPEError(f"unknown way to balance {by!r}: choose {' or '.join(_WAYS)}")
    if len(texts) < 2:
        raise SGPEError("balancing needs held-out texts of at least two languages")
    for name, lines in texts.items():
        if isinstance(lines, str):
            raise SGPEError(f"{name}: give a list of its lines, not one string")
        if not any(line.strip() for line in lines):
            raise SGPEError(f"{name}: no text to balance with")
    if by == "merges" and not _translations(texts):
        raise SGPEError("balancing by merges needs translations: give texts that have the same lines in every language")
    for name, value in {"price": price, "parity": parity}.items():
        if by == "merges" and value is not None:
            raise SGPEError(f"{name} is only for balancing by weights: leave it out")
    if price is not None and parity is not None:
        raise SGPEError("price and parity exclude each other: leave one of them out")
    if price is not None and not 0 <= price < inf:
        raise SGPEError(f"the price of balance must be a share of tokens of at least 0, not {price!r}")
    if parity is not None and not 1 <= parity < inf:
        raise SGPEError(f"parity must be a ratio of at least 1, not {parity!r}")


def _translations(texts: Mapping[str, Sequence[str]]) -> bool:
    return len({len(lines) for lines in texts.values()}) == 1


def _search(first: Trial, trial: Callable[[Mapping[str, float]], Trial], price: float, parity: float | None) -> list[Trial]:
    """Search for fair weights, and return all trials.

    Each trial is a step towards equal costs. If a step makes the costs no fairer, exceeds the price, or is fairer than
    ``parity`` requires, the search goes back and halves the step. A weight is represented by the logarithm of its ratio to
    the first weight.
    """
    trials, at, step = [first], first, _FIRST_STEP
    logs = dict.fromkeys(first.costs, 0.0)
    while len(trials) < _ROUNDS and step >= _SMALLEST_STEP:
        mean = sum(at.costs.values()) / len(at.costs)
        further = {name: value + step * log(at.costs[name] / mean) for name, value in logs.items()}
        tried = trial(further)
        trials.append(tried)
        far = tried.total > first.total * (1 + price) if parity is None else tried.parity <= parity
        if tried.gini < at.gini and not far:
            logs, at = further, tried
        else:
            step /= 2
    return trials


def _best(trials: Sequence[Trial], price: float, parity: float | None) -> Trial:
    if parity is None:
        return min((one for one in trials if one.total <= trials[0].total * (1 + price)), key=lambda one: one.gini)
    fair = [one for one in trials if one.parity <= parity]
    if not fair:
        least = min(one.parity for one in trials)
        raise SGPEError(
            f"no weights bring the ratio of two texts' costs down to {parity:g}: the best ratio is {least:.3f}, so "
            "give a larger parity"
        )
    return min(fair, key=lambda one: one.total)


def _weights(
    counts: Mapping[str, WordCounts],
    languages: Mapping[str, Sequence[str]],
    given: Mapping[str, float],
    logs: Mapping[str, float],
) -> dict[str, float]:
    """Return the weights of all corpora, rounded to three digits, from the logarithms of the search. They are scaled so that
    the weighted number of words stays the same, and frequencies stay comparable.
    """
    raw = {corpus: given[corpus] * exp(logs[name]) for name, corpora in languages.items() for corpus in corpora}
    scale = sum(counts[corpus].total() * given[corpus] for corpus in raw) / sum(
        counts[corpus].total() * weight for corpus, weight in raw.items()
    )
    return {**given, **{corpus: max(float(f"{weight * scale:.3g}"), _LEAST_WEIGHT) for corpus, weight in raw.items()}}


def _languages(
    counts: Mapping[str, WordCounts], texts: Mapping[str, Sequence[str]], config: TrainingConfig
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the nearest text of each corpus, which shares the most words with it, and the corpora in the language of each
    text. Of the corpora with the same nearest text, these share about as many words with it as the best does.
    """
    words = {name: WordCounts.from_texts(lines, config) for name, lines in texts.items()}
    needed = set(chain.from_iterable(words.values()))
    there = {corpus: {word: counts[corpus][word] for word in needed} for corpus in counts}

    def known(name: str, corpus: str) -> float:
        return sum(times for word, times in words[name].items() if there[corpus][word]) / sum(words[name].values())

    def held(name: str, corpus: str) -> int:
        return sum(there[corpus][word] for word in words[name])

    nearest = {
        corpus: max(texts, key=lambda name: held(name, corpus))
        for corpus in counts
        if any(held(name, corpus) for name in texts)
    }
    languages: dict[str, list[str]] = {}
    for name in texts:
        shares = {corpus: known(name, corpus) for corpus, its in nearest.items() if its == name}
        if max(shares.values(), default=0) < _LEAST_SHARE:
            raise SGPEError(
                f"{name}: no corpus is in the language of this text, or another text has the same language: give each "
                "language one held-out text, and its training text in separate files"
            )
        languages[name] = [corpus for corpus, share in shares.items() if share >= _SHARE_OF_BEST * max(shares.values())]
    return nearest, languages


def _mixture(counts: Mapping[str, WordCounts], weights: Mapping[str, float]) -> WordCounts:
    return WordCounts.sum(counted * weights[name] for name, counted in counts.items())


def _tokens(tokenizer: BPETokenizer, lines: Iterable[str]) -> int:
    return sum(tokenizer.count_tokens(line) for line in lines)
