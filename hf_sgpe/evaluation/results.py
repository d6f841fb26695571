"""The measurements of a tokenizer and of its baselines, and the measures that tables show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hf_sgpe.evaluation.fairness import gini
from hf_sgpe.evaluation.languages import language
from hf_sgpe.evaluation.metrics import Evaluation, Measurable
from hf_sgpe.tokenizer import BPETokenizer

# What means nothing where words have no spaces between them; and what is shown only there.
_WITH_SPACES = ("tokens_per_word", "single_token_words", "changed_tokens")
_WITHOUT_SPACES = ("tokens_per_character",)

REFERENCE = "en"
"""The language that others are compared with, if it is among them."""


class Word(NamedTuple):
    """A word of a text, and its tokens in running text.

    Attributes:
        tokens: Name of a tokenizer → the text of each token without the space before the word, or None where a token is only
            part of a character.
    """

    text: str
    tokens: dict[str, list[str | None]]


@dataclass
class Comparison:
    """What `hub_cards.compare` measured.

    Attributes:
        tokenizers: Name → tokenizer; the first is the one that the comparison is about, the others are baselines.
        sources: Code of a language → names of the files with its text.
        evaluations: Code → name of a tokenizer → what was measured.
        compression: Code → number of tokens in the vocabulary → bytes per token with the first merges only.
        words: Code → frequent words; with conjuncts where the text is in a script of `SCRIPTS`.
    """

    tokenizers: dict[str, BPETokenizer | Measurable]
    sources: dict[str, list[str]] = field(default_factory=dict)
    evaluations: dict[str, dict[str, Evaluation]] = field(default_factory=dict)
    compression: dict[str, dict[int, float]] = field(default_factory=dict)
    words: dict[str, list[Word]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the tokenizer that the comparison is about."""
        return next(iter(self.tokenizers))

    @property
    def baselines(self) -> list[str]:
        """Names of the others."""
        return list(self.tokenizers)[1:]

    def spaced(self, code: str) -> bool:
        """Return whether a language, and its text here, is written with spaces between words."""
        return language(code).spaced and all(evaluation.has_spaces() for evaluation in self.evaluations[code].values())

    def measure(self, measure: str, code: str, name: str) -> float | None:
        """Return one number: ``parity`` with English, or a measure of `Evaluation`; None where it means nothing.

        A language that is written without spaces has nothing per word, and tokens per character instead. Parity takes line n
        of both texts for the same sentence, and so is None where their numbers of lines differ.
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
        """Return the Gini coefficient of tokens per line over languages; None unless several have equally many lines."""
        evaluations = [row[name] for row in self.evaluations.values()]
        if len(evaluations) < 2 or len({evaluation.lines for evaluation in evaluations}) > 1:
            return None
        return gini(evaluation.tokens for evaluation in evaluations)


class Measure(NamedTuple):
    """A column of the tables: name of a measure of `Comparison`, its title, how numbers are formatted, what it means."""

    key: str
    title: str
    form: str
    meaning: str

    def show(self, value: float | None) -> str:
        """Format a number as the card has it.

        >>> CUT_SYLLABLES.show(0.00034), CUT_SYLLABLES.show(0), CUT_SYLLABLES.show(None)
        ('0.034 %', '0 %', '–')
        """
        if value is None:
            return "–"
        if self.form != "%":
            return format(value, self.form)
        percent = 100 * value
        # Two significant digits or more: the difference between 0.06 and 0.001 per cent is what this is about.
        digits = 1 if percent >= 9.95 else 2 if percent >= 0.0995 else 3
        return f"{percent:.{digits}f} %" if value else "0 %"


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
        ("parity", "parity", ".2f", "tokens divided by those of the same lines in English; 1 is what English takes"),
        ("bytes_per_token", "bytes per token", ".2f", "UTF-8 bytes divided by tokens; more is better"),
        ("characters_per_token", "characters per token", ".2f", "code points divided by tokens; more is better"),
        ("cut_syllable_share", "cut syllables", "%", "share of the written syllables with a token end inside"),
        ("cut_letter_share", "cut letters", "%", "share of what a reader sees as one letter with a token end inside"),
        (
            "cut_cluster_share",
            "cut clusters",
            "%",
            "share of what a reader sees as one character, in any script, with a token end inside; without those of ASCII "
            "alone, which cannot be cut",
        ),
        ("fallback_rate", "fallback", "%", "share of the tokens that are only part of a character: bytes, not text"),
        ("single_token_words", "single-token words", "%", "share of the words that are one token (STRR); more is better"),
        (
            "changed_tokens",
            "changed tokens",
            "%",
            "share that changes with a small change in one word of ten; fewer is better",
        ),
        ("renyi_efficiency", "Rényi efficiency", ".3f", "how evenly tokens are used: entropy of order 2.5 over its maximum"),
        ("vocabulary_used", "vocabulary used", "%", "share of the vocabulary that occurs in the text"),
    )
)
FERTILITY, PER_CHARACTER, PARITY, CUT_SYLLABLES, CUT_CLUSTERS, FALLBACK = (MEASURES[place] for place in (0, 1, 2, 5, 7, 8))
