"""The measurements in a card: tables of numbers and words, notes below the tables, and limits of the tokenizer."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import log

from markupsafe import Markup

from hf_sgpe.evaluation.languages import Language, language
from hf_sgpe.evaluation.results import (
    CUT_CLUSTERS,
    CUT_SYLLABLES,
    FALLBACK,
    FERTILITY,
    MEASURES,
    PARITY,
    PER_CHARACTER,
    REFERENCE,
    Comparison,
    Measure,
    Word,
)
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.markup import code, sentences
from hub_cards.token_views.token_view import tokens_html

# Measures that the card compares between tokenizers.
_COMPARED = (
    "tokens_per_word",
    "tokens_per_character",
    "parity",
    "cut_syllable_share",
    "cut_letter_share",
    "cut_cluster_share",
)
# Measures that are coloured, because less is better.
_COSTS = (*_COMPARED, "fallback_rate")
# If a language has a higher fallback rate, the tokenizer is not meant for this language.
_HIGH_FALLBACK = 0.01
# Heat is the colour of a cell. It grows with the logarithm of a cost. Shares below this value have no heat.
_LEAST_COST = 0.001
_INVISIBLE = {"\u200c": "ZWNJ", "\u200d": "ZWJ"}


@dataclass(frozen=True)
class Tables:
    """The results of a comparison of tokenizers, prepared for the templates of a card.

    ``given`` has the codes of the languages for which the tokenizer is meant.
    """

    comparison: Comparison
    given: tuple[str, ...] = ()

    @property
    def measured(self) -> list[Language]:
        return [language(code) for code in self.comparison.evaluations]

    @property
    def languages(self) -> list[Language]:
        """The given languages or, if there are none, the measured languages without a high fallback rate."""
        rates = self._fallback_rates()
        return [*map(language, self.given)] or [known for known in self.measured if known.code not in rates]

    def _fallback_rates(self) -> dict[str, float]:
        """Return the shares, above 1 %, of tokens that are only a part of a character, the highest first."""
        rows, name = self.comparison.evaluations, self.comparison.name
        rates = {code: row[name].fallback_rate or 0.0 for code, row in rows.items()}
        return {code: rate for code, rate in sorted(rates.items(), key=lambda item: -item[1]) if rate > _HIGH_FALLBACK}

    def value(self, measure: Measure, known: Language, name: str | None = None) -> float | None:
        """Return the value of a measure in a language, for the tokenizer ``name`` (default: the tokenizer of the card)."""
        return self.comparison.measure(measure.key, known.code, name or self.comparison.name)

    def heat(self, measure: Measure, known: Language, name: str) -> str:
        """Return how high a cost is, from 0 for the least in the table to 1, on a logarithmic scale; without a cost, ""."""
        value = self.value(measure, known, name)
        if measure.key not in _COSTS or value is None:
            return ""
        values = [self.value(measure, other, each) for other in self.measured for each in self.comparison.tokenizers]
        costs = [log(_LEAST_COST + value) for value in values if value is not None]
        return f"{(log(_LEAST_COST + value) - min(costs)) / (max(costs) - min(costs) or 1):.2f}"

    def best(self, measure: Measure, known: Language) -> list[str]:
        """Return the tokenizers with the least cost in a language, after rounding, unless all have the same cost."""
        values = {name: self.value(measure, known, name) for name in self.comparison.tokenizers}
        costs = {name: value for name, value in values.items() if value is not None}
        least = measure.show(min(costs.values(), default=None))
        best = [name for name, value in costs.items() if measure.show(value) == least]
        return best if len(best) < len(costs) else []

    def measures_of(self, name: str) -> list[Measure]:
        """Return the measures that have a value in any language. Some need ids, and parity needs English text."""
        return [each for each in MEASURES if any(self.value(each, known, name) is not None for known in self.measured)]

    def compared(self) -> list[Measure]:
        """Return those of the available measures that the card compares between tokenizers."""
        return [measure for measure in self.measures_of(self.comparison.name) if measure.key in _COMPARED]

    def tiles(self) -> Iterator[tuple[str, str]]:
        """Yield the main results for the top of the page, as pairs (number, label)."""
        measured, gini = self.comparison.evaluations, self.comparison.gini
        languages = [known for known in self.languages if known.code in measured]
        if len(languages) == 1:
            where = f"in {languages[0].english}"
        else:
            is_all = len(languages) == len(measured)
            where = "by language" if is_all else f"in the {len(languages)} languages it is for"
        unspaced = [known.english for known in languages if not self.comparison.spaced(known.code)]
        without_spaces = f"in {unspaced[0]}" if len(unspaced) == 1 else "where words have no spaces between them"
        tiles = [
            (FERTILITY, f"tokens per word, {where}"),
            (PER_CHARACTER, f"tokens per character, {without_spaces}"),
            (CUT_SYLLABLES, f"of the running syllables are cut, {where}"),
        ]
        if not any(self.value(CUT_SYLLABLES, known) is not None for known in languages):
            tiles[-1] = (CUT_CLUSTERS, f"of the grapheme clusters are cut, {where}")
        for measure, what in tiles:
            measured_values = (self.value(measure, known) for known in languages)
            values = [value for value in measured_values if value is not None]
            if values:
                least, most = measure.show(min(values)), measure.show(max(values))
                yield least if least == most else f"{least.removesuffix(' %')} to {most}", what
        own = gini(self.comparison.name)
        if own is not None:
            others = ", ".join(f"{other} {gini(other):.3f}" for other in self.comparison.baselines)
            number = "both" if len(measured) == 2 else f"all {len(measured)}"
            what = f"Gini of the cost of {number} languages"
            yield f"{own:.3f}", f"{what} ({others})" if others else what

    def examples(self) -> list[tuple[Language, list[Word]]]:
        """Return pairs (language, example words), without the languages that have no example words."""
        examples = ((known, self.comparison.words.get(known.code, [])) for known in self.measured)
        return [(known, words) for known, words in examples if words]

    def word_html(self, word: Word, name: str) -> Markup:
        tokenizer = self.comparison.tokenizers[name]
        if isinstance(tokenizer, BPETokenizer):
            return Markup(tokens_html(f" {word.text}", tokenizer))
        chips = enumerate(map(html.escape, _joined(word.tokens[name])))
        shown = "".join(f'<span class="sgpe-{number % 4}">{chip}</span>' for number, chip in chips)
        return Markup(f'<span class="sgpe-tokens">{shown}</span>')

    def word_markdown(self, word: Word, name: str) -> str:
        return " ".join(map(code, _joined(word.tokens[name])))

    def measured_on(self) -> str:
        rows, name, languages = self.comparison.evaluations, self.comparison.name, self.measured
        files = [file for code in rows for file in self.comparison.sources.get(code, ())]
        lines = sorted({row[name].lines for row in rows.values()})
        number = f"{lines[0]:,}" if len(lines) == 1 else f"{lines[0]:,} to {lines[-1]:,}"
        names = f" ({', '.join(map(code, files))})" if files else ""
        if len(languages) == 1:
            return f"{languages[0].english}, {number} lines{names}, in Unicode's form NFC"
        return f"{len(languages)} languages, {number} lines each{names}, in Unicode's form NFC"

    def notes(self) -> list[str]:
        """Return the notes below the tables."""
        rows, name = self.comparison.evaluations, self.comparison.name
        return sentences(
            "notes",
            has_gini=self.comparison.gini(name) is not None,
            has_parity=REFERENCE in rows and len(rows) > 1,
            unspaced=[known.english for known in self.measured if not self.comparison.spaced(known.code)],
            without_syllables=any(not row[name].syllables for row in rows.values()),
        )

    def limits(self) -> list[str]:
        """Return sentences about the limits that the measurements show."""
        cut, most_cut = self._worst(CUT_SYLLABLES)
        cost, costliest = self._worst(PARITY)
        rates = self._fallback_rates().items()
        return sentences(
            "measured_limits",
            in_bytes=[f"{language(code).english} ({FALLBACK.show(rate)})" for code, rate in rates],
            others=[known.english for known in self.measured if self.given and known.code not in self.given],
            cut=CUT_SYLLABLES.show(cut) if cut else "",
            most_cut=most_cut,
            cost=PARITY.show(cost) if cost > 1 else "",
            costliest=costliest,
        )

    def _worst(self, measure: Measure) -> tuple[float, str]:
        """Return the greatest value of a measure, and its language."""
        values = [(self.value(measure, known) or 0.0, known.english) for known in self.measured]
        return max(values, key=lambda pair: pair[0])


def _joined(pieces: Iterable[str | None]) -> Iterator[str]:
    """Yield tokens as text. A None represents part of a character.

    >>> list(_joined(["a", None, None, "\u200d"]))
    ['a', '◌×2', 'ZWJ']
    """
    for is_part, group in groupby(pieces, key=lambda piece: piece is None):
        run = list(group)
        if is_part:
            yield f"◌×{len(run)}" if len(run) > 1 else "◌"
        else:
            yield from (_INVISIBLE.get(str(piece), str(piece)) for piece in run)
