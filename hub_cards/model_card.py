"""The card of a tokenizer, as README.md and as one page: what it is, how to load it, what was measured, and its limits."""

from __future__ import annotations

import html
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hf_sgpe import __version__
from hf_sgpe.atomic import atomic_directory, check_directory
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.generation.text import end_of_turn
from hf_sgpe.hub import check_name
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS
from hf_sgpe.splitting.scripts import SCRIPTS
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards import plots
from hub_cards.comparison import REFERENCE, Comparison, Word
from hub_cards.languages import Language, language
from hub_cards.plots import PICTURES
from hub_cards.push import CARD_FILE, PAGE_FILE
from hub_cards.seal import CARD_MARK, is_generated, is_measured, is_of_another, seal
from hub_cards.token_view import STYLE, tokens_html

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TAGS = ("tokenizer", "bpe", "byte-level-bpe", "sgpe", "hf_sgpe", "syllable")
HIGH_FALLBACK = 0.01
"""A language with a greater fallback rate is not one that the tokenizer is for."""

_GREETINGS = {
    "sinhala": "ශ්‍රී ලංකාව",
    "devanagari": "नमस्ते दुनिया",
    "bengali": "বাংলা অক্ষর",
    "gurmukhi": "ਸਤਿ ਸ੍ਰੀ ਅਕਾਲ",
    "gujarati": "ગુજરાતી અક્ષર",
    "odia": "ଓଡ଼ିଆ ଅକ୍ଷର",
    "tamil": "தமிழ் மொழி",
    "telugu": "తెలుగు అక్షరం",
    "kannada": "ಕನ್ನಡ ಅಕ್ಷರ",
    "malayalam": "മലയാളം ഭാഷ",
}


class Measure(NamedTuple):
    """A column of the tables: name of a measure of `Comparison`, its title, how numbers are written, what it means."""

    key: str
    title: str
    form: str
    meaning: str

    def show(self, value: float | None) -> str:
        """A number as the card has it.

        >>> MEASURES[4].show(0.00034), MEASURES[4].show(0), MEASURES[4].show(None)
        ('0.034 %', '0 %', '–')
        """
        if value is None:
            return "–"
        if self.form != "%":
            return format(value, self.form)
        percent = 100 * value
        # Two digits that say something: the difference between 0.06 and 0.001 per cent is what this is about.
        digits = 1 if percent >= 9.95 else 2 if percent >= 0.0995 else 3
        return f"{percent:.{digits}f} %" if value else "0 %"


MEASURES = (
    Measure("tokens_per_word", "tokens per word", ".2f", "tokens by words between spaces; fewer is better"),
    Measure("parity", "parity", ".2f", "tokens by those of the same lines in English; 1 is what English takes"),
    Measure("bytes_per_token", "bytes per token", ".2f", "UTF-8 bytes by tokens; more is better"),
    Measure("characters_per_token", "characters per token", ".2f", "code points by tokens; more is better"),
    Measure("cut_syllable_share", "cut syllables", "%", "share of the written syllables with a token end inside"),
    Measure("cut_letter_share", "cut letters", "%", "share of what a reader sees as one letter with a token end inside"),
    Measure("fallback_rate", "fallback", "%", "share of the tokens that are only part of a character: bytes, not text"),
    Measure(
        "renyi_efficiency", "Rényi efficiency", ".3f", "how evenly tokens are used: entropy of order 2.5 by its maximum"
    ),
    Measure("vocabulary_used", "vocabulary used", "%", "share of the vocabulary that occurs in the text"),
)


def write_card(
    folder: str | os.PathLike[str],
    tokenizer: BPETokenizer,
    *,
    name: str | None = None,
    evaluations: Comparison | None = None,
    license: str | None = None,
    languages: Sequence[str] = (),
    datasets: Sequence[str] = (),
    tags: Sequence[str] = (),
    replace: bool = False,
) -> list[str]:
    """Writes README.md, index.html and the pictures of a tokenizer into its folder, all of them or none.

    The page is one file that needs nothing else. The same input gives the same bytes.

    Args:
        name: What code that loads it should say: the repository, ``user/name``; None for the name of the folder.
        evaluations: What `hub_cards.compare` found; without it the card has only what the tokenizer itself tells.
        license: Identifier as the Hub knows it, such as ``apache-2.0``.
        languages: Codes of the languages it was made for; none for those measured that it spells without falling back to
            bytes.
        datasets: What it was trained on: names on the Hub, also with that of a configuration after a colon.
        tags: More tags.
        replace: Overwrite a README.md that was written or changed by hand, or one with measurements by one without.

    Returns:
        The files written, as paths below ``folder``.

    Raises:
        SGPEError: a README.md lies there that would be lost (see ``replace``); a licence or a language is none; matplotlib
            is missing.
    """
    check_card(folder, tokenizer, measured=evaluations is not None, replace=replace)
    check_metadata(license, languages)
    card = Card(
        tokenizer,
        name or Path(folder).resolve().name,
        evaluations,
        license,
        tuple(languages),
        tuple(map(_dataset, datasets)),
        tuple(tags),
    )
    pictures, narrow = (draw(evaluations, paper) if evaluations else {} for paper in (plots.WIDE, plots.NARROW))
    files = {f"pictures/{name}.svg": svg for name, svg in pictures.items()}
    files[CARD_FILE] = card.readme(pictures)
    files[PAGE_FILE] = card.page(pictures, narrow)
    with atomic_directory(folder) as temporary:
        for path, text in files.items():
            (temporary / path).parent.mkdir(exist_ok=True)
            (temporary / path).write_text(text, encoding="utf-8", newline="\n")
    for picture in PICTURES:
        if picture not in pictures:  # of an earlier card
            (Path(folder) / "pictures" / f"{picture}.svg").unlink(missing_ok=True)
    return sorted(files)


def _dataset(name: str) -> str:
    """The name of a dataset without that of its configuration, which the Hub's metadata has no place for."""
    repo = name.partition(":")[0]
    check_name(repo)
    return repo


def check_card(folder: str | os.PathLike[str], tokenizer: BPETokenizer, *, measured: bool, replace: bool = False) -> None:
    """Makes sure that no README.md in ``folder`` is lost that somebody wrote or changed, or that holds what was measured of
    the tokenizer if the new card is not a ``measured`` one.

    Raises:
        SGPEError: one would be, and ``replace`` is not set.
        OSError: the folder may not be written, or a folder there has the name of a file of the card.
    """
    check_directory(folder, (CARD_FILE, PAGE_FILE, *(f"pictures/{name}.svg" for name in PICTURES)))
    path = Path(folder) / CARD_FILE
    if replace or not path.exists():
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    if not is_generated(text):
        what = "changed" if CARD_MARK in text else "written"
        raise SGPEError(f"{path}: {what} by hand, and would be lost: give --replace, or another folder by --out")
    if is_measured(text) and not measured and not is_of_another(text, tokenizer):
        raise SGPEError(f"{path}: holds what was measured, and it would be lost: give --eval, or --replace")


def check_metadata(license: str | None, languages: Iterable[str]) -> None:
    """Makes sure that what was given for the metadata can be the name of a licence, and codes of languages.

    Raises:
        SGPEError: it cannot.
    """
    if license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", license):
        raise SGPEError(f"{license!r}: not a licence as the Hub names them: apache-2.0, mit, cc-by-4.0, other …")
    for code in languages:
        language(code)


def draw(comparison: Comparison, paper: plots.Paper = plots.WIDE) -> dict[str, str]:
    """The pictures of a comparison: name → SVG. Languages without spaces between words are in no count of words."""
    values = {
        code: {name: value for name in row if (value := comparison.measure("tokens_per_word", code, name)) is not None}
        for code, row in comparison.evaluations.items()
    }
    lengths: dict[str, Counter[int | None]] = {name: Counter() for name in comparison.tokenizers}
    baselines: dict[str, dict[str, tuple[int, float]]] = {}
    for code, row in comparison.evaluations.items():
        for name, evaluation in row.items():
            lengths[name].update(evaluation.token_lengths)
            lengths[name][None] += evaluation.fallback_tokens
            if name != comparison.name and evaluation.vocab_size and evaluation.bytes_per_token:
                baselines.setdefault(code, {})[name] = (evaluation.vocab_size, evaluation.bytes_per_token)
    pictures = {}
    if worded := {code: row for code, row in values.items() if row}:
        pictures["tokens_per_word"] = plots.tokens_per_word(worded, paper)
    pictures["token_lengths"] = plots.token_lengths(lengths, paper)
    pictures["compression"] = plots.compression(comparison.compression, baselines, paper)
    return pictures


@dataclass(frozen=True)
class Card:
    """All that the templates ask for. Arguments are those of `write_card`.

    What stands between backticks in a text is code; that is all the markup there is.
    """

    tokenizer: BPETokenizer
    name: str
    comparison: Comparison | None = None
    license: str | None = None
    given_languages: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def readme(self, pictures: Container[str] = ()) -> str:
        """The card in Markdown, with its YAML; ``pictures`` are the names of those that lie beside it."""
        template = _environment().get_template("model_card.md.jinja")
        return seal(template.render(card=self, captions=PICTURES, pictures=pictures, mark=CARD_MARK), self.tokenizer)

    def page(self, pictures: Mapping[str, str], narrow: Mapping[str, str]) -> str:
        """The card as one page, with the pictures (name → SVG) in it, those for wide and those for narrow windows."""
        shown, small = ({name: Markup(plots.for_page(svg)) for name, svg in drawn.items()} for drawn in (pictures, narrow))
        style = {"fonts": Markup(plots.FONTS), "token_style": Markup(STYLE)}
        return _environment().get_template("page.html.jinja").render(card=self, pictures=shown, narrow=small, **style)

    # ---------------------------------------------------------------- what it is

    @property
    def title(self) -> str:
        """The name without its owner."""
        return self.name.rpartition("/")[2]

    @property
    def training(self) -> dict[str, Any]:
        """The configuration it was trained with; empty if it was not trained by this package."""
        metadata = self.tokenizer.metadata
        if "sgpe" in metadata:  # by `SGPETrainer`
            settings = metadata["sgpe"]
            return {"recipe": "sgpe", "min_unit_frequency": settings.get("prune_freq"), **settings}
        return dict(metadata.get("training", {}))

    @property
    def scripts(self) -> list[str]:
        """Names of the scripts whose syllables are units."""
        return [] if self.training.get("recipe") == "bpe" else list(self.training.get("scripts", ()))

    @property
    def summary(self) -> str:
        """One sentence."""
        kind = f"byte-level BPE tokenizer with {self.tokenizer.vocab_size:,} tokens"
        if not self.scripts:
            return f"A {kind}."
        where = "ten Indic scripts" if len(self.scripts) == len(SCRIPTS) else _listed(map(str.title, self.scripts))
        return f"A {kind} that keeps written syllables whole: those of {where}."

    @property
    def measured(self) -> list[Language]:
        """The languages that were measured."""
        return [language(code) for code in self.comparison.evaluations] if self.comparison else []

    @property
    def languages(self) -> list[Language]:
        """The languages it is for: those given, or those measured that do not fall back to bytes."""
        if self.given_languages:
            return [language(code) for code in self.given_languages]
        return [known for known in self.measured if known.code not in self.fallback_rates]

    @property
    def fallback_rates(self) -> dict[str, float]:
        """Code of a language → its fallback rate, where that is high; the highest first."""
        if not self.comparison:
            return {}
        rates = {code: row[self.comparison.name].fallback_rate or 0.0 for code, row in self.comparison.evaluations.items()}
        return {code: rate for code, rate in sorted(rates.items(), key=lambda item: -item[1]) if rate > HIGH_FALLBACK}

    def yaml(self) -> str:
        """The metadata that the Hub reads."""
        from huggingface_hub import ModelCardData

        results = self._results()
        data = ModelCardData(
            language=[known.code for known in self.languages] or None,
            license=self.license,
            library_name="transformers",
            tags=list(dict.fromkeys([*TAGS, *self.scripts, *self.tags])),
            datasets=list(self.datasets) or None,
            # The Hub takes results only with a name, and a name only with results.
            model_name=self.title if results else None,
            eval_results=results or None,
        )
        return data.to_yaml().strip()

    def _results(self) -> list[EvalResult]:
        from huggingface_hub import EvalResult

        found = self.comparison
        if not found:
            return []
        return [
            EvalResult(
                task_type="tokenization",
                task_name="Tokenization",
                dataset_type="held-out-text",
                dataset_name=", ".join(found.sources.get(known.code, [known.english])),
                dataset_config=known.code,
                metric_type=measure.key,
                metric_name=measure.title + (", share from 0 to 1" if measure.form == "%" else ""),
                metric_value=round(value, 6),
            )
            for known in self.measured
            for measure in MEASURES
            if (value := found.measure(measure.key, known.code, found.name)) is not None
        ]

    @property
    def sample(self) -> str:
        """A few words in the first of its scripts."""
        return next((_GREETINGS[script] for script in self.scripts if script in _GREETINGS), "Hello, world!")

    @property
    def sample_ids(self) -> list[int]:
        """What calling the loaded tokenizer with the sample gives."""
        return self.tokenizer.encode(self.sample, add_special_tokens=True)

    @property
    def sample_tokens(self) -> str:
        """The text of each of them, with bars between."""
        return "|".join(self.tokenizer.decode([id]) for id in self.sample_ids)

    # ---------------------------------------------------------------- what it is made of

    def facts(self) -> list[tuple[str, str]]:
        """What the tokenizer is made of: name and value."""
        tokenizer, training = self.tokenizer, self.training
        facts = {
            "Vocabulary": f"{tokenizer.vocab_size:,} tokens, all 256 bytes among them: nothing is unknown to it",
            "Merges": f"{len(tokenizer.merges):,}",
            "Special tokens": "; ".join(self._special_tokens()) or "none",
            "Parts of special tokens": "; ".join(self._parts()),
            "Longest input": self._longest_input(),
            "Added tokens": "; ".join(f"{_code(token)} with id {id}" for token, id in tokenizer.added_tokens.items()),
            "Around each text": self._template(),
            "Normalization": {"nfc": "Unicode's form NFC", "none": "none, text stays as it is"}[tokenizer.normalization],
            "Recipe": _code(training["recipe"]) if "recipe" in training else "",
            "Syllables of": _listed(map(str.title, self.scripts)),
            "Tokens of their own": self._coverage() if self.scripts else "",
            "Words": self._words(),
        }
        return [(name, value) for name, value in facts.items() if value]

    def _special_tokens(self) -> Iterator[str]:
        for token, id in sorted(self.tokenizer.special_tokens.items(), key=lambda item: item[1]):
            yield f"{_code(token)} with id {id}"

    def _parts(self) -> Iterator[str]:
        """Which token plays which part, those that nobody plays but all ask for, and what ends a turn in chats."""
        tokenizer = self.tokenizer
        if not tokenizer.special_tokens:
            return
        for role in dict.fromkeys((*_ROLES, *tokenizer.roles)):
            player = tokenizer.roles.get(role)
            yield f"{_code(role)} {_code(player) if player else 'none'}"
        if tokenizer.chat_template:
            ends = tokenizer.convert_ids_to_tokens(end_of_turn(tokenizer, tokenizer.chat_template))
            yield f"end of a turn in chats {_code(ends[0]) if ends else 'none that is a special token'}"

    def _longest_input(self) -> str:
        longest = tokenizer_json.config(self.tokenizer).get("model_max_length")
        return f"{longest:,} tokens (`model_max_length`)" if longest else ""

    def _template(self) -> str:
        template = self.tokenizer.template
        names = [name for name, _ in template.single] if template else []
        return " ".join("the text" if name == "$A" else _code(name) for name in names)

    def _coverage(self) -> str:
        training = self.training
        if training.get("min_unit_frequency"):
            return f"letters and syllables that occur {training['min_unit_frequency']:,} times or more"
        letters, syllables = (100 * training.get(f"{unit}_coverage", 0) for unit in ("letter", "syllable"))
        return (
            f"the most frequent letters that make up {letters:.10g} % of a script's running letters, "
            f"and the most frequent syllables that make up {syllables:.10g} % of its running syllables"
        )

    def _words(self) -> str:
        named = {pattern: name for name, pattern in reversed(SPLIT_PATTERNS.items())}
        spelled = [f"the pattern {_code(named.get(one, one))}" for one in self.tokenizer.pre_tokenizer.patterns]
        recipe = self.training.get("recipe")
        if recipe == "hybrid":
            base = self.training["pattern"]
            return f"an optional space and letters of one script; elsewhere the pattern {_code(named.get(base, base))}"
        return "runs of those scripts, every other character alone" if recipe == "sgpe" else ", then ".join(spelled)

    def composition(self) -> list[tuple[str, int]]:
        """What the tokens are written in, by their first letter: name of a script and number of tokens, most first."""
        vocab = self.tokenizer.vocab
        counts = Counter(map(_script_of, vocab))
        few = [script for script, count in counts.items() if count < len(vocab) / 200 and script not in _NO_SCRIPT]
        if len(few) > 1:
            counts["other scripts"] = sum(map(counts.pop, few))
        return sorted(counts.items(), key=lambda item: (item[0] in _NO_SCRIPT, -item[1], item[0]))

    @property
    def word_counts(self) -> str:
        """The hash of the words it was learned from, or nothing."""
        return str(self.tokenizer.metadata.get("word_counts", self.training.get("word_counts", "")))

    @property
    def configuration(self) -> str:
        """The training configuration as JSON."""
        return json.dumps(self.training, ensure_ascii=False, indent=2)

    def making(self) -> list[str]:
        """How it was made, in paragraphs."""
        training = self.training
        if not training:
            return ["It does not say how it was trained."]
        learned = (
            "learned by byte-pair encoding: again and again the most frequent pair of neighbouring tokens became a token, "
            f"and of equally frequent pairs the {_TIES[training.get('tie_break', 'smallest-pair-id')]}."
        )
        if self.scripts:
            paragraphs = [
                "Words were cut into written syllables first: a consonant cluster with its vowel sign and modifiers, or an "
                "independent vowel with its. The first merges build the frequent letters and syllables out of bytes, so "
                "that a syllable that has a token is never cut; a rarer one falls apart at its letters. All further merges "
                f"were {learned}"
            ]
        else:
            paragraphs = [f"Its merges were {learned}"]
        if self.datasets:
            paragraphs.append(f"Trained on {_listed(map(_code, self.datasets))}.")
        return paragraphs

    # ---------------------------------------------------------------- what was measured

    def tiles(self) -> list[tuple[str, str]]:
        """What to see at first glance: number, and what it is."""
        tiles = [(f"{self.tokenizer.vocab_size:,}", "tokens in the vocabulary")]
        if not self.comparison:
            return tiles
        found, name = self.comparison, self.comparison.name
        known_for = [known for known in self.languages if known.code in found.evaluations]
        if len(known_for) == 1:
            where = f"in {known_for[0].english}"
        else:
            every = len(known_for) == len(found.evaluations)
            where = "by language" if every else f"in the {len(known_for)} languages it is for"
        for measure, what in ((MEASURES[0], "tokens per word"), (_CUT_SYLLABLES, "of the running syllables are cut")):
            measured = [found.measure(measure.key, known.code, name) for known in known_for]
            if values := [value for value in measured if value is not None]:
                least, most = measure.show(min(values)), measure.show(max(values))
                spread = least if least == most else f"{least.removesuffix(' %')} to {most}"
                tiles.append((spread, f"{what}, {where}"))
        if (gini := found.gini(name)) is not None:
            others = ", ".join(f"{other} {found.gini(other):.3f}" for other in found.baselines)
            what = f"Gini of the cost of all {len(found.evaluations)} languages"
            tiles.append((f"{gini:.3f}", f"{what} ({others})" if others else what))
        return tiles

    @property
    def found(self) -> Comparison:
        """The comparison, for all below, which there is only with one."""
        assert self.comparison
        return self.comparison

    def show(self, measure: Measure, known: Language, name: str) -> str:
        """One number as the card has it."""
        return measure.show(self.found.measure(measure.key, known.code, name))

    def heat(self, measure: Measure, known: Language, name: str) -> str:
        """Where a cost lies between the least and the greatest in its columns, 0 to 1; nothing for what is no cost."""
        costs = {
            (code, other): log(_LEAST_COST + value)
            for code, row in self.found.evaluations.items()
            for other in row
            if (value := self.found.measure(measure.key, code, other)) is not None
        }
        if measure.key not in _COSTS or (known.code, name) not in costs:
            return ""
        least, most = min(costs.values()), max(costs.values())
        return f"{(costs[known.code, name] - least) / (most - least or 1):.2f}"

    def best(self, measure: Measure, known: Language) -> list[str]:
        """The tokenizers with the least cost, as it is shown, in a language; none where all have the same."""
        found = self.found
        values = {name: found.measure(measure.key, known.code, name) for name in found.tokenizers}
        shown = {name: measure.show(value) for name, value in values.items() if value is not None}
        least = min((value for value in values.values() if value is not None), default=None)
        best = [name for name, text in shown.items() if text == measure.show(least)]
        return best if len(best) < len(shown) else []

    def measures_of(self, name: str) -> list[Measure]:
        """The measures that there are for a tokenizer: some need ids, one needs English."""
        codes = self.found.evaluations
        return [one for one in MEASURES if any(self.found.measure(one.key, code, name) is not None for code in codes)]

    def compared(self) -> list[Measure]:
        """The measures that are shown for all tokenizers side by side."""
        return [measure for measure in self.measures_of(self.found.name) if measure.key in _COMPARED]

    def rows(self, measure: Measure) -> list[Language]:
        """The languages that have a measure."""
        name = self.found.name
        return [known for known in self.measured if self.found.measure(measure.key, known.code, name) is not None]

    def measured_on(self) -> str:
        """What text was measured."""
        found = self.found
        files = [file for code in found.evaluations for file in found.sources.get(code, ())]
        lines = sorted({row[found.name].lines for row in found.evaluations.values()})
        number = f"{lines[0]:,}" if len(lines) == 1 else f"{lines[0]:,} to {lines[-1]:,}"
        named = f" ({', '.join(map(_code, files))})" if files else ""
        languages = f"{len(self.measured)} languages" if len(self.measured) > 1 else self.measured[0].english
        return f"{languages}, {number} lines{' each' * (len(self.measured) > 1)}{named}, in Unicode's form NFC"

    def notes(self) -> list[str]:
        """What a reader of the tables must know."""
        found = self.found
        notes = []
        if found.gini(found.name) is not None:
            notes.append(_GINI)
        if REFERENCE in found.evaluations and len(self.measured) > 1:
            notes.append("Parity and Gini take line n of each text for the same sentence.")
        if unspaced := [known.english for known in self.measured if not known.spaced]:
            notes.append(f"{_listed(unspaced)}: written without spaces between words, so that nothing is counted per word.")
        if any(not row[found.name].syllables for row in found.evaluations.values()):
            notes.append("Syllables and letters are those of the ten scripts that `hf_sgpe` knows.")
        return notes

    def examples(self) -> list[tuple[Language, list[Word]]]:
        """Words to show, by language."""
        return [(known, words) for known in self.measured if (words := self.found.words.get(known.code))]

    def word_html(self, word: Word, name: str) -> Markup:
        """A word as coloured tokens."""
        tokenizer = self.found.tokenizers[name]
        if isinstance(tokenizer, BPETokenizer):
            return Markup(tokens_html(f" {word.text}", tokenizer))
        chips = enumerate(map(html.escape, _joined(word.tokens[name])))
        shown = "".join(f'<span class="sgpe-{number % 4}">{chip}</span>' for number, chip in chips)
        return Markup(f'<span class="sgpe-tokens">{shown}</span>')

    def word_markdown(self, word: Word, name: str) -> str:
        """A word as tokens between backticks."""
        return " ".join(map(_code, _joined(word.tokens[name])))

    @property
    def chat_template(self) -> str:
        """The chat template as a block of code in Markdown, or nothing."""
        template = self.tokenizer.chat_template
        if not template:
            return ""
        fence = max(3, 1 + max((len(run) for run in re.findall("`+", template)), default=0)) * "`"
        return f"{fence}jinja\n{template.rstrip()}\n{fence}"

    # ---------------------------------------------------------------- limits

    def limits(self) -> list[str]:
        """What it cannot do, as far as that can be computed."""
        tokenizer = self.tokenizer
        limits = [*self._limits_of_languages()] if self.comparison else ["It has not been measured on any text."]
        if self.scripts:
            limits.append(_RETRAINED.format(name=json.dumps(self.name, ensure_ascii=False)))
        if tokenizer.normalization == "nfc":
            limits.append("Text comes back in Unicode's form NFC, whatever form it had.")
        else:
            limits.append("Text is not normalized: a word in another Unicode form (NFC, NFD) gets other tokens.")
        limits.append("A lone surrogate, which no UTF-8 has, becomes U+FFFD in `hf_sgpe`; transformers refuses it.")
        if tokenizer.special_tokens:
            limits.append(
                "transformers takes the text of a special token for that token wherever it is written; "
                "`hf_sgpe.BPETokenizer` does so only where it is allowed to."
            )
        if not tokenizer.pad_token:
            remedy = (
                "`tokenizer.pad_token = tokenizer.eos_token`" if tokenizer.eos_token else "`tokenizer.add_special_tokens`"
            )
            limits.append(f"It has no padding token. Batches that are padded need one: {remedy}.")
        limits.append("It is a tokenizer and no model: there are no weights here.")
        return limits

    def _limits_of_languages(self) -> Iterator[str]:
        found, name = self.found, self.found.name
        if rates := self.fallback_rates:
            listed = _listed(f"{language(code).english} ({_FALLBACK.show(rate)})" for code, rate in rates.items())
            yield f"It is not for {listed}: that share of its tokens there is only part of a character."
        others = [
            known.english for known in self.measured if self.given_languages and known.code not in self.given_languages
        ]
        if others:
            yield f"Measured, but not among the languages it is for: {_listed(others)}."
        for measure, text in ((_CUT_SYLLABLES, _RARE_SYLLABLES), (_PARITY, _COSTLY)):
            values = {code: found.measure(measure.key, code, name) or 0.0 for code in found.evaluations}
            worst = max(values, key=lambda code: values[code])
            if values[worst] > (1 if measure is _PARITY else 0):
                yield text.format(language=language(worst).english, value=measure.show(values[worst]))
        yield "These numbers are of this text; text of another kind gives others."


CURVE = (
    "The line is this tokenizer with only the first of its merges, as many as make a vocabulary of that size. Where the "
    "first merges build letters and syllables, script after script, one that was trained for a small vocabulary does better."
)
"""What a reader of the last picture must know."""

_GINI = (
    "Gini of the cost: how unequally languages are treated, from 0, all take as many tokens per line, towards 1. "
    "Σᵢ Σⱼ |xᵢ − xⱼ| / (2 n² x̄), with x the tokens per line."
)
_FALLBACK, _CUT_SYLLABLES, _PARITY = (
    next(measure for measure in MEASURES if measure.key == key) for key in ("fallback_rate", "cut_syllable_share", "parity")
)
_RARE_SYLLABLES = "Syllables too rare for a token of their own are cut: in {language}, where they are most, {value} of all."
_COSTLY = "The same text takes {value} times as many tokens in {language} as in English; in no language measured is it more."
_RETRAINED = (
    "`train_new_from_iterator` of a tokenizer that plain `AutoTokenizer` loaded learns byte-pair encoding alone, without "
    "the merges that keep syllables whole: 6.87 % of them were cut where it was measured, against 0.96 %. Call "
    "`SGPETokenizerFast.from_pretrained({name}).train_new_from_iterator` instead, or `hf-sgpe train`."
)
_COMPARED = ("tokens_per_word", "parity", "cut_syllable_share", "cut_letter_share")
_COSTS = (*_COMPARED, "fallback_rate")
# Heat grows with the logarithm of a cost; shares below this count as none.
_LEAST_COST = 0.001
# Those that programs ask for by name.
_ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")
_INVISIBLE = {"\u200c": "ZWNJ", "\u200d": "ZWJ"}
_NO_SCRIPT = ("no letters", "parts of characters")
_TIES = {
    "smallest-pair-id": "one with the smallest ids",
    "greatest-pair-id": "one with the greatest ids",
    "greatest-pair-bytes": "one with the greatest bytes",
}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hub_cards"),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"cell": _cell, "plain": _plain, "inline": _inline, "json": _json, "bold": _bold}
    environment.globals |= {"version": __version__, "curve": CURVE}
    return environment


def _script_of(token: bytes) -> str:
    """What a token is written in, by the first letter or mark in it.

    >>> _script_of(" ක".encode()), _script_of(b"x 1"), _script_of(b"42")
    ('Sinhala', 'Latin', 'no letters')
    """
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return "parts of characters"
    letter = next((character for character in text if unicodedata.category(character)[0] in "LM"), None)
    return unicodedata.name(letter, "OTHER").partition(" ")[0].title() if letter else "no letters"


def _joined(pieces: Iterable[str | None]) -> Iterator[str]:
    """Tokens as text, with one ◌ for each that is only part of a character, and runs of them as ◌×9.

    >>> list(_joined(["a", None, None, "\u200d"]))
    ['a', '◌×2', 'ZWJ']
    """
    for is_part, group in groupby(pieces, key=lambda piece: piece is None):
        run = list(group)
        if is_part:
            yield f"◌×{len(run)}" if len(run) > 1 else "◌"
        else:
            yield from (_INVISIBLE.get(str(piece), str(piece)) for piece in run)


def _listed(names: Iterable[str]) -> str:
    """Names in a sentence.

    >>> _listed(["a", "b", "c"]), _listed(["a"]), _listed([])
    ('a, b and c', 'a', '')
    """
    *others, last = [*names] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _code(text: str) -> str:
    """Text between as many backticks as it takes, as Markdown wants it.

    >>> _code("a"), _code("`a")
    ('`a`', '`` `a ``')
    """
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks} {text} {ticks}" if len(ticks) > 1 else f"`{text}`"


def _cell(text: str) -> str:
    """Text as it stands in a table of Markdown, where a bar would end the cell even in code."""
    return text.replace("|", "\\|").replace("\n", " ")


def _plain(text: str) -> str:
    r"""Text that Markdown and HTML take for nothing but text, on one line.

    >>> print(_plain("a|b <i> *c*"))
    a\|b \<i\> \*c\*
    """
    return re.sub(r"([\\`*_\[\]<>|&~$])", r"\\\1", " ".join(text.split()))


def _bold(text: str, is_bold: bool) -> str:
    return f"**{text}**" if is_bold else text


def _inline(text: str) -> Markup:
    """Text with code between backticks as HTML.

    >>> str(_inline("x < `y`"))
    'x &lt; <code>y</code>'
    """
    return Markup(re.sub(r"(?<!`)(`+)(?!`)( ?)(.+?)\2\1(?!`)", r"<code>\3</code>", html.escape(text, quote=False)))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
