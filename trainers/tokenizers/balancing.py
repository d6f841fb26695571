"""Tokenizers that are fair to the languages they are for: how much the text of each should count, or whose turn a merge is.

Held-out texts say what a language pays. Where they are translations of each other (as many lines in each), it is the number
of tokens; else the number of tokens beside those of a tokenizer of the same size that learned from this language alone.
Which corpora serve which text is seen in the words that they share.
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

PRICE = 0.005
"""Share of more tokens, over all held-out texts, that fairness may cost unless the user says otherwise."""

WAYS = ("weights", "merges")
"""How to balance: by weights for the corpora of each language, or by Parity-aware BPE."""

_ROUNDS = 12
# By what power of its cost, beside the mean, a language's weight grows in a round. Twice the weight saves a language some
# two to four per cent of its tokens, so weights have to move much further than costs.
_FIRST_STEP = 6.0
_SMALLEST_STEP = 0.5
# Three digits of it are the six decimals that weights have.
_LEAST_WEIGHT = 0.0001
# Of a language's running words, beside the corpus that has the most. English in source code has about 0.8.
_SHARE_OF_BEST = 0.9
# Of a text's running words that its corpora must have. Of another language they have up to 0.2: numbers, punctuation, names.
_LEAST_SHARE = 0.3


class Trial(NamedTuple):
    """One set of weights, and what each held-out text costs with it.

    Attributes:
        weights: Name of a corpus → how much its words count.
        tokens: Name of a held-out text → its tokens.
        costs: The same for what `gini` and `parity` compare.
    """

    weights: dict[str, float]
    tokens: dict[str, int]
    costs: dict[str, float]

    @property
    def total(self) -> int:
        """Tokens of all held-out texts."""
        return sum(self.tokens.values())

    @property
    def gini(self) -> float:
        """How unequal the costs are."""
        return gini(self.costs.values()) or 0.0

    @property
    def parity(self) -> float:
        """The greatest cost divided by the least."""
        return max(self.costs.values()) / min(self.costs.values())


class Balanced(NamedTuple):
    """A tokenizer that is fair to some languages, and what was tried on the way to it.

    Attributes:
        tokenizer: What was trained; its ``metadata`` says how it was balanced.
        words: What it was trained on: the words of all corpora, weighted.
        languages: Name of a held-out text → the corpora that serve it.
        trials: In order; the first is where every corpus counts as given.
        best: The one that was taken.
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
    """Train a tokenizer that is fair to languages: by weights for their corpora, or by Parity-aware BPE.

    By weights it is the fairest that costs no more than a price, or the cheapest that is fair enough. The search starts with
    the weights of ``config`` (1 for the rest), trains, and lets languages that pay more than the mean count more; up to 12
    times. By merges: `train_from_counts` with languages. The same input gives the same tokenizer.

    Args:
        counts: Name of a corpus → its words; a language may have several, whose weights then move together.
        texts: Name of a held-out text → its lines, one text for each language.
        config: What is to be trained.
        by: One of `WAYS`.
        price: For weights: how many more tokens all texts together may take than at the start, as a share; None is `PRICE`.
        parity: In place of a price: take the fewest tokens with which no text costs more than so many times another.
        progress: Show a bar on stderr; None shows it only on a terminal.

    Raises:
        SGPEError: there are fewer than two texts, one is empty or of no corpus's language, no weights reach ``parity``, a
            weight of ``config`` matches no corpus, or a corpus has no word of any text and so no language to choose merges.
    """
    texts = {name: lines if isinstance(lines, str) else list(lines) for name, lines in texts.items()}
    _check(texts, by, price, parity)
    price = PRICE if price is None else price
    weighted = Corpus(tuple(map(Path, counts)), weights=config.weights)
    given = {name: float(weighted.weight_of(Path(name))) for name in counts}
    nearest, languages = _languages(counts, texts, config)
    foreign = [corpus for corpus in counts if corpus not in nearest]
    if by == "merges" and foreign:
        raise SGPEError(f"{foreign[0]}: has no word of any held-out text, so no language learns from it: leave it out")
    rounds = _ROUNDS if by == "weights" else 2
    with tqdm(total=rounds, unit=" rounds", desc="Balancing", disable=bar_disabled(progress), leave=False) as bar:
        alone = dict.fromkeys(texts, 1.0)
        if not _translations(texts):
            logger.warning("the held-out texts differ in their numbers of lines, so they are not taken for translations")
            for name, corpora in languages.items():
                own = train_from_counts(_mixture({corpus: counts[corpus] for corpus in corpora}, given), config)
                alone[name] = _tokens(own, texts[name])

        def trial(weights: Mapping[str, float], tokenizer: BPETokenizer) -> Trial:
            bar.update()
            tokens = {name: _tokens(tokenizer, lines) for name, lines in texts.items()}
            return Trial(dict(weights), tokens, {name: tokens[name] / alone[name] for name in texts})

        def train(weights: Mapping[str, float]) -> BPETokenizer:
            return train_from_counts(_mixture(counts, weights), replace(config, weights=weights))

        first = trial(given, train(given))
        if by == "merges":
            words = {
                name: _mixture({corpus: counts[corpus] for corpus, its in nearest.items() if its == name}, given)
                for name in texts
            }
            parts = [(words[name], WordCounts.from_texts(lines, config)) for name, lines in texts.items()]
            together = WordCounts.sum(learning for learning, _ in parts)
            tokenizer = train_from_counts(together, replace(config, weights=given), languages=parts)
            best = trial(given, tokenizer)
            trials = [first, best]
        else:
            known = {tuple(given.values()): first}

            def with_logs(logs: Mapping[str, float]) -> Trial:
                weights = _weights(counts, languages, given, logs)
                if (key := tuple(weights.values())) not in known:
                    known[key] = trial(weights, train(weights))
                return known[key]

            trials = _search(first, with_logs, price, parity)
            best = _best(trials, price, parity)
            tokenizer = train(best.weights)
    costs = {
        when: {"tokens": one.total, "gini": round(one.gini, 4)} for when, one in {"before": first, "after": best}.items()
    }
    data = replace(tokenizer.data, metadata={**tokenizer.metadata, "balance": {"by": by, **costs}})
    return Balanced(BPETokenizer.of(data), _mixture(counts, best.weights), languages, trials, best)


def balance_corpus(
    corpus: Corpus,
    held_out: Corpus,
    config: TrainingConfig,
    *,
    by: str | None = None,
    workers: int | None = None,
    **how: Any,
) -> Balanced:
    """Count each file of a corpus by itself, and train a tokenizer that is fair to the languages of the held-out files.

    Args:
        by: As for `train_balanced`, which takes ``how``, too; so are errors.
    """
    texts = {str(file): list(read_lines(file, text_field=held_out.text_field)) for file in held_out.files}
    # Weights are published with the tokenizer, so folders are named only where they tell files apart.
    words = {name: count_corpus(part, config, workers=workers) for name, part in corpus.parts().items()}
    return train_balanced(words, texts, config, by=by or WAYS[0], **how)


def _check(texts: Mapping[str, Sequence[str]], by: str, price: float | None, parity: float | None) -> None:
    if by not in WAYS:
        raise SGPEError(f"there is no balancing by {by!r}: known are {' and '.join(WAYS)}")
    if len(texts) < 2:
        raise SGPEError("balancing needs held-out texts of at least two languages")
    for name, lines in texts.items():
        if isinstance(lines, str):
            raise SGPEError(f"{name}: give its lines, not one text")
        if not any(line.strip() for line in lines):
            raise SGPEError(f"{name}: holds no text to balance by")
    if by == "merges" and not _translations(texts):
        raise SGPEError("balancing by merges needs translations: texts that have the same lines in every language")
    for name, value in {"price": price, "parity": parity}.items():
        if by == "merges" and value is not None:
            raise SGPEError(f"a {name} is for balancing by weights: by merges, the dearest language always goes first")
    if price is not None and parity is not None:
        raise SGPEError("give a price of balance or a parity, not both")
    if price is not None and not 0 <= price < inf:
        raise SGPEError(f"the price of balance must be a share of tokens from 0 on, not {price!r}")
    if parity is not None and not 1 <= parity < inf:
        raise SGPEError(f"parity must be a ratio from 1 on, not {parity!r}")


def _translations(texts: Mapping[str, Sequence[str]]) -> bool:
    return len({len(lines) for lines in texts.values()}) == 1


def _search(first: Trial, trial: Callable[[Mapping[str, float]], Trial], price: float, parity: float | None) -> list[Trial]:
    """Try weights, given as logarithms of their ratio to the first ones, each a step further towards equal costs. Where
    that is no fairer, or costs more than the price, or is fairer than is asked for, it goes on from the last with half
    the step."""
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
        raise SGPEError(f"no weights make all texts cost within {parity:g} times of each other: the best reach {least:.3f}")
    return min(fair, key=lambda one: one.total)


def _weights(
    counts: Mapping[str, WordCounts],
    languages: Mapping[str, Sequence[str]],
    given: Mapping[str, float],
    logs: Mapping[str, float],
) -> dict[str, float]:
    """Return the weights of all corpora, scaled so that those of the languages have as many running words as with the given
    ones, which keeps frequencies comparable. Three digits are exact enough and can be read."""
    raw = {corpus: given[corpus] * exp(logs[name]) for name, corpora in languages.items() for corpus in corpora}
    scale = sum(counts[corpus].total() * given[corpus] for corpus in raw) / sum(
        counts[corpus].total() * weight for corpus, weight in raw.items()
    )
    return {**given, **{corpus: max(float(f"{weight * scale:.3g}"), _LEAST_WEIGHT) for corpus, weight in raw.items()}}


def _languages(
    counts: Mapping[str, WordCounts], texts: Mapping[str, Sequence[str]], config: TrainingConfig
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return each corpus that shares words with a text, and the text that has the most of them; and each text with the
    corpora that serve it, which are those of them that have nearly as many of its words as the best."""
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
                f"{name}: no corpus is in its language, or another text has it: give each language one held-out text, and "
                "what to train on in files of its own"
            )
        languages[name] = [corpus for corpus, share in shares.items() if share >= _SHARE_OF_BEST * max(shares.values())]
    return nearest, languages


def _mixture(counts: Mapping[str, WordCounts], weights: Mapping[str, float]) -> WordCounts:
    return WordCounts.sum(counted * weights[name] for name, counted in counts.items())


def _tokens(tokenizer: BPETokenizer, lines: Iterable[str]) -> int:
    return sum(tokenizer.count_tokens(line) for line in lines)
