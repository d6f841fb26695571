"""A tokenizer beside others, measured on texts in several languages: all that a card says in numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.normalization import normalize
from hf_sgpe.splitting.scripts import SCRIPTS
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.languages import language, language_in_name
from hub_cards.metrics import (
    Evaluation,
    Measurable,
    bytes_per_token,
    compression_sizes,
    evaluate,
    gini_of,
    measurable,
    with_first_merges,
)
from trainers.corpora import CorpusFile, find_files, read_lines
from trainers.counting import bar_disabled

# Longer ones do not fit into a table, and are hardly words.
_LONGEST_WORD = 40

REFERENCE = "en"
"""The language that others are compared with, if it is among them."""


@dataclass(frozen=True)
class TextFiles:
    """The lines of files that are not empty, read anew each time, so that they need not fit into memory."""

    paths: tuple[CorpusFile, ...]
    text_field: str = "text"

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            yield from (line for line in read_lines(path, text_field=self.text_field) if line.strip())


def texts_of(given: Iterable[str], *, text_field: str = "text") -> dict[str, TextFiles]:
    """Files by language, from ``LANGUAGE=FILE``, or ``FILE`` (folder, glob) where the names of files say it.

    Raises:
        SGPEError: there is no such file, its name does not tell the language, or what is given is no code of one.
    """
    paths: dict[str, list[CorpusFile]] = {}
    for text in given:
        named = None if Path(text).exists() else _LANGUAGE_AND_FILE.fullmatch(text)
        for path in find_files([named["file"] if named else text]):
            code = language(named["code"]).code if named else language_in_name(path.name)
            if code is None:
                raise SGPEError(f"{path}: its name does not tell the language: write si={path}, if that is what it is in")
            paths.setdefault(code, []).append(path)
    return {code: TextFiles(tuple(files), text_field) for code, files in paths.items()}


_LANGUAGE_AND_FILE = re.compile(r"(?P<code>[^=/\\.]*)=(?P<file>.+)", re.DOTALL)


class Word(NamedTuple):
    """A word of a text, and what tokenizers make of it in running text.

    Attributes:
        tokens: Name of a tokenizer → the text of each token without the space before the word, or None where a token is only
            part of a character.
    """

    text: str
    tokens: dict[str, list[str | None]]


@dataclass
class Comparison:
    """What `compare` found.

    Attributes:
        tokenizers: Name → tokenizer; the first is the one that it is about, the others are baselines.
        sources: Code of a language → names of the files its text is from.
        evaluations: Code → name of a tokenizer → what was measured.
        compression: Code → number of tokens in the vocabulary → bytes per token with the first merges only.
        words: Code → frequent words; in the ten scripts such with conjuncts.
    """

    tokenizers: dict[str, BPETokenizer | Measurable]
    sources: dict[str, list[str]] = field(default_factory=dict)
    evaluations: dict[str, dict[str, Evaluation]] = field(default_factory=dict)
    compression: dict[str, dict[int, float]] = field(default_factory=dict)
    words: dict[str, list[Word]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the tokenizer that it is about."""
        return next(iter(self.tokenizers))

    @property
    def baselines(self) -> list[str]:
        """Names of the others."""
        return list(self.tokenizers)[1:]

    def measure(self, measure: str, code: str, name: str) -> float | None:
        """One number: ``parity`` with English, or a measure of `Evaluation`; None where it means nothing.

        A language that is written without spaces has no tokens per word. Parity takes line n of both texts for the same
        sentence, and so is None where their numbers of lines differ.
        """
        evaluation = self.evaluations[code][name]
        if measure == "parity":
            reference = self.evaluations.get(REFERENCE, {}).get(name)
            return evaluation.parity(reference) if reference else None
        if measure == "tokens_per_word" and not language(code).spaced:
            return None
        value: float | None = getattr(evaluation, measure)
        return value

    def gini(self, name: str) -> float | None:
        """How unequally a tokenizer treats the languages (`hub_cards.metrics.gini_of`)."""
        return gini_of(row[name] for row in self.evaluations.values())


def compare(
    tokenizer: BPETokenizer,
    texts: Mapping[str, Sequence[str] | TextFiles],
    *,
    name: str = "this tokenizer",
    baselines: Mapping[str, BPETokenizer | Measurable] | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Measures a tokenizer and baselines on texts.

    Args:
        texts: Code of a language → its lines: a list, or `TextFiles`. They are read several times over.
        name: What to call the tokenizer.
        baselines: Name → tokenizer, as `hub_cards.metrics.load` gives them.
        progress: As for `TokenizerTrainer`.

    Raises:
        SGPEError: a text is empty, there is none, or two tokenizers have one name.

    >>> tokenizer = BPETokenizer.train_from_iterator(["කා"], 257)
    >>> compare(tokenizer, {"si": ["කා"]}).measure("tokens_per_word", "si", "this tokenizer")
    5.0
    """
    if name in (baselines or {}):
        raise SGPEError(f"two tokenizers are called {name}: give the baseline another name")
    if not texts:
        raise SGPEError("no text to measure on: give at least one language")
    sources = {code: [path.name for path in lines.paths] for code, lines in texts.items() if isinstance(lines, TextFiles)}
    found = Comparison({name: tokenizer, **(baselines or {})}, sources)
    forms = {name: _measurable(tokenizer) for name, tokenizer in found.tokenizers.items()}
    sizes = compression_sizes(tokenizer.vocab_size)
    total = len(texts) * (len(forms) + len(sizes))
    with tqdm(total=total, desc="Measuring", unit=" runs", disable=bar_disabled(progress), leave=False) as bar:
        for code, lines in texts.items():
            found.evaluations[code] = {}
            for name, form in forms.items():
                found.evaluations[code][name] = evaluate(form, lines)
                bar.update()
            if not found.evaluations[code][found.name].tokens:
                raise SGPEError(f"{', '.join(sources.get(code, [code]))}: holds no text to measure")
            words = frequent_words(lines) if language(code).spaced else []
            found.words[code] = [Word(word, {name: _pieces(form, word) for name, form in forms.items()}) for word in words]
            found.compression[code] = {}
        # The smaller tokenizer is made once for all languages, and there is one at a time.
        for size in sizes:
            smaller = with_first_merges(tokenizer, size)
            for code, lines in texts.items():
                found.compression[code][size] = bytes_per_token(smaller, lines) or 0.0
                bar.update()
    return found


def _measurable(tokenizer: BPETokenizer | Measurable) -> Measurable:
    return measurable(tokenizer) if isinstance(tokenizer, BPETokenizer) else tokenizer


def frequent_words(lines: Iterable[str], most: int = 3) -> list[str]:
    """The most frequent words with a conjunct, if a text is in one of the ten scripts, else those of seven letters and more.

    >>> frequent_words(["ශ්‍රී ලංකාව", "example"]), frequent_words(["an example"])
    (['ශ්\u200dරී'], ['example'])
    """
    trie = LinguisTrie(SCRIPTS)
    counts = Counter(word for line in lines for word in normalize(line, "nfc").split())
    ranked = [word for word, _ in counts.most_common() if len(word) <= _LONGEST_WORD]
    if sum(counts[word] for word in ranked if trie.script_of(word)) > counts.total() / 2:
        return [word for word in ranked if _has_conjunct(trie, word)][:most]
    return [word for word in ranked if word.isalpha() and len(word) > 6][:most]


def _has_conjunct(trie: LinguisTrie, word: str) -> bool:
    units = trie.tokenize(word)
    return all(map(trie.script_of, units)) and any("CHC" in trie.shape(unit).replace("J", "") for unit in units)


def _pieces(tokenizer: Measurable, word: str) -> list[str | None]:
    text = f" {word}"
    _, ends = tokenizer.encode(text)
    pieces: list[str | None] = []
    for start, end in pairwise([0, *ends]):
        try:
            piece = text.encode()[start:end].decode()
        except UnicodeDecodeError:
            pieces.append(None)
            continue
        # A space that is a token alone is one; the space that a word's first token begins with is not worth showing.
        pieces.append(piece.removeprefix(" ") or "␣")
    return pieces
