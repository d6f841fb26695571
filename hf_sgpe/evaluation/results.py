"""Measurements of a tokenizer and its baselines, and the measures shown in tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hf_sgpe.evaluation.fairness import gini
from hf_sgpe.evaluation.languages import language
from hf_sgpe.evaluation.measurable import Measurable
from hf_sgpe.evaluation.metrics import Evaluation
from hf_sgpe.tokenizer import BPETokenizer

# Measures for languages with spaces between words, and for languages without such spaces.
_WITH_SPACES = ("tokens_per_word", "single_token_words", "changed_tokens")
_WITHOUT_SPACES = ("tokens_per_character",)

REFERENCE = "en"
"""The language with which other languages are compared, if there is text in this language."""


class Word(NamedTuple):
    """A word, and the texts of its tokens within running text, keyed by tokenizer and without the space before the word.
    None represents a token with only a part of a character.
    """

    text: str
    tokens: dict[str, list[str | None]]


@dataclass
class Comparison:
    """The result of `hub_cards.compare`.

    Attributes:
        tokenizers: The tokenizers, keyed by name. The first is the compared tokenizer, and the others are baselines.
        sources: Names of the text files, keyed by language code.
        evaluations: Measurements, keyed by language code and then by the tokenizer's name.
        compression: Bytes per token of the tokenizer with only its first merges, keyed by language code and then by
            vocabulary size.
        words: Frequent words, keyed by language code. In a script of `SCRIPTS`, these are words with conjuncts.
    """

    tokenizers: dict[str, BPETokenizer | Measurable]
    sources: dict[str, list[str]] = field(default_factory=dict)
    evaluations: dict[str, dict[str, Evaluation]] = field(default_factory=dict)
    compression: dict[str, dict[int, float]] = field(default_factory=dict)
    words: dict[str, list[Word]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return next(iter(self.tokenizers))

    @property
    def baselines(self) -> list[str]:
        return list(self.tokenizers)[1:]

    def spaced(self, code: str) -> bool:
        """Return whether a language is written with spaces between words, and whether the measured text has them, too."""
        return language(code).spaced and all(evaluation.has_spaces() for evaluation in self.evaluations[code].values())

    def measure(self, measure: str, code: str, name: str) -> float | None:
        """Return a measure of `Evaluation`, or ``parity`` with English. Return None if the measure does not apply: measures
        per word to languages without spaces between words, tokens per character to other languages, parity to texts that are
        not aligned line by line.
        """
        evaluation = self.evaluations[code][name]
        if measure == "parity":
            reference = self.evaluations.get(REFERENCE, {}).get(name)
            return evaluation.parity(reference) if reference else None
        if measure in _WITH_SPACES and not self.spaced(code):
            return None
        if measure in _WITHOUT_SPACES and self.spaced(code):
            return None
        value: float | None = getattr(evaluation, measure)
        return value

    def gini(self, name: str) -> float | None:
        """Return the Gini coefficient of the languages' tokens per line. If there is only one language, or if the languages
        differ in the number of lines, return None.
        """
        evaluations = [row[name] for row in self.evaluations.values()]
        if len(evaluations) < 2 or len({evaluation.lines for evaluation in evaluations}) > 1:
            return None
        return gini(evaluation.tokens for evaluation in evaluations)


class Measure(NamedTuple):
    """A measure as a column of a table: its name in `Comparison`, its title, the format of its numbers, and its meaning."""

    key: str
    title: str
    form: str
    meaning: str

    def show(self, value: float | None) -> str:
        """Format a value for the model card.

        >>> CUT_SYLLABLES.show(0.00034), CUT_SYLLABLES.show(0), CUT_SYLLABLES.show(None)
        ('0.034 %', '0 %', '–')
        """
        if value is None:
            return "–"
        if self.form != "%":
            return format(value, self.form)
        percent = 100 * value
        # At least two significant digits, to show small differences such as that between 0.06 and 0.001 per cent.
        if percent >= 9.95:
            return f"{percent:.1f} %"
        if percent >= 0.0995:
            return f"{percent:.2f} %"
        return f"{percent:.3f} %" if value else "0 %"


MEASURES = tuple(
    Measure(*fields)
    for fields in (
        ("tokens_per_word", "tokens per word", ".2f", "tokens divided by words between spaces; fewer is better"),
        (
            "tokens_per_character",
            "tokens per character",
            ".3f",
            "tokens divided by code points, for languages without spaces between words; fewer is better",
        ),
        ("parity", "parity", ".2f", "tokens divided by the tokens of the same lines in English; English has 1"),
        ("bytes_per_token", "bytes per token", ".2f", "UTF-8 bytes divided by tokens; more is better"),
        ("characters_per_token", "characters per token", ".2f", "code points divided by tokens; more is better"),
        ("cut_syllable_share", "cut syllables", "%", "share of the written syllables with a token end inside"),
        ("cut_letter_share", "cut letters", "%", "share of the visible letters with a token end inside"),
        (
            "cut_cluster_share",
            "cut clusters",
            "%",
            "share of the grapheme clusters (visible characters) that are cut, in any script; clusters of only ASCII "
            "characters, which cannot be cut, are left out",
        ),
        ("fallback_rate", "fallback", "%", "share of the tokens that are only a part of a character: bytes, not text"),
        ("single_token_words", "single-token words", "%", "share of the words that are one token (STRR); more is better"),
        (
            "changed_tokens",
            "changed tokens",
            "%",
            "share of the tokens that change if one word in ten has a small change; fewer is better",
        ),
        (
            "renyi_efficiency",
            "Rényi efficiency",
            ".3f",
            "evenness of the use of tokens: their entropy (order 2.5) divided by its maximum",
        ),
        ("vocabulary_used", "vocabulary used", "%", "share of the vocabulary that occurs in the text"),
        ("unknown_share", "unknown", "%", "share of the text that the unknown token replaces: this text is lost"),
    )
)
FERTILITY, PER_CHARACTER, PARITY, CUT_SYLLABLES, CUT_CLUSTERS, FALLBACK = (MEASURES[place] for place in (0, 1, 2, 5, 7, 8))
