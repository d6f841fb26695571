"""Text by language and size. This module is the only place from which tests take text in many languages.

If HF_SGPE_DATA names a folder with ``corpora`` and ``eval``, text is read from it. Other text is generated: first the
package's sample, then sentences of words from CLDR (names of countries, languages, months and units, in Babel) and of new
words, which are made of the grapheme clusters of CLDR's. Every machine with the same Babel generates the same text.
"""

import lzma
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pytest
import regex
from babel import Locale

from support.paths import ROOT

FOLDER = os.environ.get("HF_SGPE_DATA")
DATA = Path(FOLDER) if FOLDER else None
"""The folder with large text, for tests that are marked ``data``."""


@dataclass(frozen=True)
class Writing:
    """The spelling conventions of a language.

    Attributes:
        locale: The language in CLDR whose words are used.
        space: Text between words.
        stop: End of a sentence.
        digits: The digits from zero to nine.
        change: Changes each word.
    """

    locale: str
    space: str = " "
    stop: str = "."
    digits: str = "0123456789"
    change: Callable[[str, random.Random], str] | None = None


def _with_points(word: str, chance: random.Random) -> str:
    """Add a Hebrew vowel point to most letters."""
    points = "\u05b0\u05b4\u05b5\u05b6\u05b7\u05b8\u05b9\u05bc\u05c1"
    return "".join(
        letter + chance.choice(points) if "א" <= letter <= "ת" and chance.random() < 0.7 else letter for letter in word
    )


def _misspelt(word: str, chance: random.Random) -> str:
    """Damage some Sinhala words as extraction from PDF files does: joiners and signs are repeated, misplaced or missing."""
    if chance.random() < 0.8:
        return word
    damaged = (
        ("\u0dca\u200d", "\u200d\u0dca"),
        ("\u200d", "\u200d\u200d"),
        ("\u0dca", "\u0dca\u200d"),
        ("ා", "ාා"),
        ("ෙ", "ෙ ා"),
    )
    damaged += (("ි", "්ි"), ("ු", "\u200cු"), ("ක", "ක\u0dcf\u0dd2"), ("\u200d", ""))
    return word.replace(*chance.choice(damaged))


WRITINGS = {
    "si": Writing("si", digits="0123456789"),
    "si_noisy_pdf": Writing("si", change=_misspelt),
    "pi_sinh": Writing("si", stop="෴"),
    "hi": Writing("hi", stop="।", digits="०१२३४५६७८९"),
    "mr": Writing("mr", digits="०१२३४५६७८९"),
    "ne": Writing("ne", stop="।", digits="०१२३४५६७८९"),
    "bn": Writing("bn", stop="।", digits="০১২৩৪৫৬৭৮৯"),
    "pa": Writing("pa", stop="।"),
    "gu": Writing("gu", digits="૦૧૨૩૪૫૬૭૮૯"),
    "or": Writing("or", stop="।", digits="୦୧୨୩୪୫୬୭୮୯"),
    "ta": Writing("ta"),
    "te": Writing("te"),
    "kn": Writing("kn", digits="೦೧೨೩೪೫೬೭೮೯"),
    "ml": Writing("ml"),
    "th": Writing("th", "", " ", "๐๑๒๓๔๕๖๗๘๙"),
    "lo": Writing("lo", "", " "),
    "km": Writing("km", "", "។ ", "០១២៣៤៥៦៧៨៩"),
    "my": Writing("my", "", "။ ", "၀၁၂၃၄၅၆၇၈၉"),
    "bo": Writing("dz", "་", "། ", "༠༡༢༣༤༥༦༧༨༩"),
    "dz": Writing("dz", "་", "། ", "༠༡༢༣༤༥༦༧༨༩"),
    "am": Writing("am", stop="።"),
    "ar": Writing("ar", digits="٠١٢٣٤٥٦٧٨٩"),
    "ur": Writing("ur", stop="۔"),
    "he": Writing("he"),
    "he_niqqud": Writing("he", change=_with_points),
    "hy": Writing("hy", stop="։"),
    "ka": Writing("ka"),
    "ru": Writing("ru"),
    "ko": Writing("ko"),
    "ja": Writing("ja", "", "。"),
    "zh": Writing("zh", "", "。"),
    "en": Writing("en"),
    "de": Writing("de"),
    "fr": Writing("fr"),
}
LANGUAGES = tuple(code for code in WRITINGS if code not in ("am", "dz", "ur"))
"""Languages of `corpus`."""
HELD_OUT = tuple(
    code for code in WRITINGS if code not in ("si_noisy_pdf", "pi_sinh", "or", "am", "he", "he_niqqud", "hy", "ka")
)
"""Languages of `held_out`."""


def corpus(language: str, characters: int) -> str:
    """Return about the first ``characters`` of the text in a language, in whole lines."""
    file = _large(f"corpora/{language}.txt.xz")
    return _generated(language, characters) if file is None else _read(file, characters)


def held_out(language: str, lines: int = 1000) -> list[str]:
    file = _large(f"eval/ntrex_{language}.txt")
    if file is None:
        return list(islice(_lines(language, "held out"), lines))
    return file.read_text(encoding="utf-8").splitlines()[:lines]


def write_folders(folder: Path, corpora: Iterable[str], held_out_languages: Iterable[str]) -> None:
    """Write texts to the folders ``corpora`` and ``eval``, as the benchmarks expect them."""
    for language in corpora:
        text = corpus(language, 100_000)
        _new(folder / "corpora" / f"{language}.txt.xz").write_bytes(lzma.compress(text.encode(), preset=0))
    for language in held_out_languages:
        text = "".join(f"{line}\n" for line in held_out(language, 20))
        _new(folder / "eval" / f"ntrex_{language}.txt").write_text(text, encoding="utf-8", newline="\n")


def _new(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    return path


@cache
def conjunct_words() -> list[str]:
    """Return several thousand Sinhala words, most of them with a conjunct, each once."""
    file = _large("wordlists/si_conjunct_words.tsv")
    if file is None:
        words = _vocabulary("si").words
        chance = random.Random("conjuncts")
        return list(dict.fromkeys([*words, *(_with_conjuncts(chance.choice(words), chance) for _ in range(6000))]))
    return [row.split("\t")[1] for row in file.read_text(encoding="utf-8").splitlines()[1:]]


def data_file(path: str) -> Path:
    return _large(path) or pytest.skip(f"the folder HF_SGPE_DATA has no {path}")


def _large(path: str) -> Path | None:
    """Return a file in the folder with large text, or None if there is no such folder or no such file in it."""
    return None if DATA is None or not (DATA / path).exists() else DATA / path


@cache
def _read(file: Path, characters: int) -> str:
    with lzma.open(file, "rt", encoding="utf-8", newline="") as opened:
        text = opened.read(characters)
    return text[: text.rindex("\n") + 1]


@dataclass(frozen=True)
class Vocabulary:
    """The words and grapheme clusters of a language, most frequent first.

    Attributes:
        word_weights: Cumulative weights of the words. They follow Zipf's law.
        cluster_weights: Cumulative numbers of the clusters in the words.
    """

    words: Sequence[str]
    word_weights: Sequence[float]
    clusters: Sequence[str]
    cluster_weights: Sequence[int]


@cache
def _vocabulary(language: str) -> Vocabulary:
    locale = Locale(WRITINGS[language].locale)
    names = [*_sample(language)]
    for table in (
        locale.languages,
        locale.territories,
        locale.scripts,
        locale.currencies,
        locale.variants,
        locale.time_zones,
    ):
        names += _strings(table)
    for table in (locale.months["format"], locale.days["format"], locale.eras, locale.quarters["format"]):
        names += _strings(table)
    counts = Counter(word for name in names for word in regex.split(r"[\s\d()/,.:;!?|{}“”\"–-]+", name) if word)
    words = [word for word, _ in counts.most_common()]
    own = [word for word in words if not word.isascii()] if language not in ("en", "de", "fr") else words
    # The order of the words that are equally frequent is random, so that long and short words, and all letters, are mixed.
    chance = random.Random(f"words {language}")
    own.sort(key=lambda word: (-min(counts[word], 20), chance.random()))
    clusters = Counter(cluster for word in own for cluster in regex.findall(r"\X", word.lower())).most_common()
    return Vocabulary(
        own,
        list(accumulate(1 / (rank + 3) for rank in range(len(own)))),
        [cluster for cluster, _ in clusters],
        list(accumulate(count for _, count in clusters)),
    )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key in value:
            yield from _strings(value[key])


@cache
def _sample(language: str) -> list[str]:
    file = ROOT / "hf_sgpe" / "corpora" / "sample" / f"{language}.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@cache
def _generated(language: str, characters: int) -> str:
    lines = [*_sample(language)]
    size = sum(map(len, lines)) + len(lines)
    generated = _lines(language, "corpus")
    while size < characters:
        lines.append(next(generated))
        size += len(lines[-1]) + 1
    text = "".join(f"{line}\n" for line in lines)
    return text[: text.rindex("\n", 0, characters) + 1]


def _lines(language: str, seed: str) -> Iterator[str]:
    """Yield lines of one to four sentences without end."""
    chance = random.Random(f"{language} {seed}")
    while True:
        sentences = [
            _sentence(WRITINGS[language], _vocabulary(language), chance) for _ in range(chance.choice((1, 1, 2, 4)))
        ]
        yield " ".join(sentences).strip()


def _sentence(writing: Writing, vocabulary: Vocabulary, chance: random.Random) -> str:
    words = chance.choices(vocabulary.words, cum_weights=vocabulary.word_weights, k=chance.randint(3, 16))
    for place, word in enumerate(words):
        kind = chance.random()
        if kind < 0.2:
            word = "".join(
                chance.choices(vocabulary.clusters, cum_weights=vocabulary.cluster_weights, k=chance.randint(1, 5))
            )
        elif kind < 0.23:
            word = "".join(chance.choices(chance.choice((writing.digits, "0123456789")), k=chance.choice((1, 2, 4, 6))))
        elif kind < 0.25:
            word = chance.choice(_vocabulary("en").words)
        elif kind < 0.30:
            word = chance.choice(("({})", "{},", "“{}”", "{}:", "{}-", "'{}'", "{} –", "{}%", "#{}", "{}…")).format(word)
        elif kind < 0.302:
            word = chance.choice(
                ("😀", "👩\u200d👧", "🇱🇰", "❤\ufe0f", "→", "\u00a0", "http://example.org/?a=1&b=2", "e\u0301")
            )
        words[place] = writing.change(word, chance) if writing.change else word
    return writing.space.join(words) + writing.stop


def _with_conjuncts(word: str, chance: random.Random) -> str:
    """Insert a consonant with a virama, and mostly a joiner, before a letter of a word."""
    place = chance.choice([match.start() for match in regex.finditer("[ක-ෆ]", word)] or [0])
    conjunct = chance.choice("කගතදනපබමයරලවශෂසහ") + chance.choice(("\u0dca\u200d", "\u0dca\u200d", "\u0dca"))
    return word[:place] + conjunct + word[place:]
