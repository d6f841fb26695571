"""Measures the tokenizers that the documentation speaks of: trains and extends them, and writes the tables of its pages.

Writes one record, docs/measured/tokens.json, with the text, settings and weights of every tokenizer and what it takes in
every language, and from it the tables in README.md and docs/, each between two comments. Words that were counted are kept in
--work and not counted again: remove that folder when the way that text is cut has changed.

The folder of corpora holds si.txt.xz, code.jsonl.xz and so on, that of held-out text ntrex_si.txt and so on, that of
vocabularies gpt2, llama3, cl100k_base and o200k_base, each with vocab.json and merges.txt.

Example: python scripts/measure_tokenizers.py --corpora corpora --held-out eval --vocabularies vocabs --smollm2 smollm2
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

from hf_sgpe import BPETokenizer, ExtensionConfig, SGPEError, WordCounts
from hf_sgpe.evaluation.languages import language
from hf_sgpe.evaluation.metrics import evaluate
from hf_sgpe.evaluation.results import CUT_SYLLABLES
from hf_sgpe.evaluation.same_ids import compare_ids
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.formats import gpt2_files
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.splitting.zawgyi import is_zawgyi, to_unicode
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from hf_sgpe.tokenizer import train_from_counts
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from trainers import CorpusFile, TrainingConfig, count_texts, find_files, read_lines, read_texts

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "measured" / "tokens.json"
MEASURES = (
    *("tokens_per_word", "tokens_per_character", "cut_syllable_share", "cut_letter_share", "cut_cluster_share"),
    *("lines", "words", "characters", "bytes", "tokens"),
)
VOCABULARIES: dict[str, dict[str, Any]] = {
    "gpt2": {"pattern": "gpt2"},
    "cl100k_base": {"pattern": "cl100k"},
    "llama3": {"pattern": "llama3", "ignore_merges": True},
    "o200k_base": {"pattern": "o200k"},
}
TEN = ("si", "hi", "mr", "ne", "bn", "gu", "ta", "te", "kn", "ml")
# The ten scripts have text in twelve languages, of which the tables show ten.
TWELVE = (*TEN, "pa", "or")
TEN_SCRIPTS = (
    *("sinhala", "devanagari", "bengali", "gujarati", "gurmukhi", "odia", "tamil", "telugu", "kannada", "malayalam"),
)
# Megabytes that each language counts as, whatever the size of its corpus.
TEN_AND_ENGLISH: dict[str, float] = dict.fromkeys((*TWELVE, "en", "code"), 12)
MANY: dict[str, float] = {
    **dict.fromkeys(("si", "hi", "ta", "te", "kn", "ml", "gu", "bn", "my", "km", "th", "lo", "bo"), 10),
    **dict.fromkeys(("mr", "ne", "pa", "or", "he", "ar", "ru", "de", "fr", "ka", "hy"), 6),
    "ko": 12,
    "ja": 15,
    "zh": 20,
    "en": 30,
    "code": 10,
}
MANY_SCRIPTS = (*TEN_SCRIPTS, "khmer", "myanmar", "thai", "lao", "tibetan", "hebrew", "arabic")
MANY_MEASURED = (
    *("si", "hi", "mr", "ne", "ta", "te", "kn", "ml", "gu", "bn", "pa", "my", "km", "th", "lo", "bo", "dz"),
    *("ar", "ur", "zh", "ja", "ko", "ru", "de", "fr", "en"),
)


@dataclass(frozen=True)
class Recipe:
    """A tokenizer to measure: one that exists, one that is trained, or one that is extended.

    Attributes:
        languages: Those to measure it in.
        base: Name of the tokenizer that exists; its ids are compared with those of the extended one.
        corpora: Language → megabytes that its text counts as; None for as many as there are.
        settings: Of `TrainingConfig` or, where there is a ``base``, of `ExtensionConfig`.
        first: Measure the extended tokenizer with so many of its new tokens only.
    """

    languages: tuple[str, ...]
    base: str | None = None
    corpora: Mapping[str, float | None] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    first: int | None = None


def _recipes() -> dict[str, Recipe]:
    """Return all tokenizers by name."""
    two, ten = ("si", "en"), (*TEN, "en")
    both: dict[str, float | None] = {"si": None, "en": None}
    sinhala: dict[str, float | None] = {"si": None}
    plain: dict[str, Any] = {"recipe": "bpe", "normalization": "nfc"}
    small: dict[str, Any] = {"vocab_size": 32_000}
    large: dict[str, Any] = {"vocab_size": 128_000}
    many: dict[str, Any] = {"vocab_size": 200_000}
    recipes = {
        "gpt2": Recipe(("hi", "en"), "gpt2"),
        "cl100k": Recipe(two, "cl100k_base"),
        "llama3": Recipe(ten, "llama3"),
        "o200k": Recipe(MANY_MEASURED, "o200k_base"),
        "bpe-32k": Recipe(two, None, both, small | plain),
        "hybrid-32k": Recipe(two, None, both, small | {"scripts": ("sinhala",)}),
        "hybrid-32k-cut-cost-10": Recipe(two, None, both, small | {"scripts": ("sinhala",), "cut_cost": 10.0}),
        "bpe-128k": Recipe(ten, None, TEN_AND_ENGLISH, large | plain),
        "hybrid-128k": Recipe(ten, None, TEN_AND_ENGLISH, large | {"scripts": TEN_SCRIPTS}),
        "hybrid-128k-letters": Recipe(
            ten, None, TEN_AND_ENGLISH, large | {"scripts": TEN_SCRIPTS, "cut_cost": 2.0, "letter_coverage": 0.9999}
        ),
        "bpe-200k": Recipe(MANY_MEASURED, None, MANY, many | plain),
        "hybrid-200k": Recipe(MANY_MEASURED, None, MANY, many | {"scripts": MANY_SCRIPTS}),
        "llama3-si": Recipe(ten, "llama3", sinhala, {"scripts": ["sinhala"], "new_tokens": 16_000}),
        "llama3-si-4k": Recipe(two, "llama3", sinhala, {"scripts": ["sinhala"], "new_tokens": 16_000}, 4_000),
        "gpt2-hi": Recipe(("hi", "en"), "gpt2", {"hi": None}, {"scripts": ["devanagari"], "new_tokens": 16_000}),
        "smollm2": Recipe(two, "smollm2"),
        "smollm2-si": Recipe(two, "smollm2", sinhala, {"scripts": ["sinhala"], "new_tokens": 12_000}),
        "o200k-ten": Recipe(ten, "o200k_base", dict.fromkeys(TWELVE), {"scripts": list(TEN_SCRIPTS), "new_tokens": 60_000}),
    }
    for code, script, pattern in (
        *(("hi", "devanagari", "o200k"), ("bn", "bengali", "o200k"), ("si", "sinhala", "o200k")),
        ("si", "sinhala", "bloom"),
    ):
        for recipe in ("hybrid", "portable", "bpe"):
            settings: dict[str, Any] = {"vocab_size": 32_000, "recipe": recipe, "pattern": pattern}
            settings |= plain if recipe == "bpe" else {"scripts": (script,)}
            name = f"{code}-{pattern}-{recipe}"
            recipes[name] = Recipe((code, "en"), None, {code: 12, "en": 12}, settings)
    return recipes


RECIPES = _recipes()
"""Name of a tokenizer → how it is made."""


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with the text to learn from")
    parser.add_argument("--held-out", type=Path, required=True, help="folder with ntrex_si.txt and so on")
    parser.add_argument("--vocabularies", type=Path, required=True, help="folder with llama3 and so on")
    parser.add_argument("--smollm2", type=Path, help="what scripts/fetch_smollm2.py wrote, unless --only leaves it out")
    parser.add_argument(
        "--only", nargs="+", choices=RECIPES, metavar="NAME", help="measure these, and keep the others' record"
    )
    parser.add_argument("--work", type=Path, default=Path("measure"), help="folder for counted words (default: %(default)s)")
    parser.add_argument("--megabytes", type=float, help="of each corpus, to try (default: all)")
    parser.add_argument("--lines", type=int, help="of each held-out text, to try (default: all)")
    parser.add_argument("--record", type=Path, default=RECORD, help="file to write (default: %(default)s)")
    parser.add_argument("--no-pages", action="store_true", help="write the record alone")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    tried = args.megabytes is not None or args.lines is not None
    if tried and not args.no_pages:
        raise SGPEError("--megabytes and --lines are for trying: give --no-pages and another --record, too")
    names = args.only or list(RECIPES)
    if args.smollm2 is None and any(RECIPES[name].base == "smollm2" for name in names):
        raise SGPEError("give the folder of SmolLM2 by --smollm2: python scripts/fetch_smollm2.py smollm2")
    record: dict[str, Any] = {"tokenizers": {}}
    if args.record.exists():
        record = json.loads(args.record.read_text(encoding="utf-8"))
    missing = [name for name in RECIPES if name not in {*names, *record["tokenizers"]}]
    if missing and not args.no_pages:
        raise SGPEError(f"{args.record}: the pages need {', '.join(missing)}, too: leave out --only, or give --no-pages")
    for name in names:
        began = time.perf_counter()
        record["tokenizers"][name] = measured(RECIPES[name], args) | {"date": f"{date.today()}", "commit": commit()}
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        tokenizers = {name: record["tokenizers"][name] for name in RECIPES if name in record["tokenizers"]}
        with atomic_file(args.record) as temporary:
            content = {"command": command(args), "tokenizers": tokenizers}
            temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    if not args.no_pages:
        for page in write_pages(ROOT, record):
            print(f"{page.relative_to(ROOT)}: tables written")


def commit() -> str | None:
    """Return which state of the project measures, with a mark if there are changes to it; None outside a clone."""
    described = ["git", "-C", str(ROOT), "describe", "--always", "--tags", "--dirty"]
    try:
        return subprocess.run(described, capture_output=True, text=True).stdout.strip() or None
    except FileNotFoundError:  # there is no git here
        return None


def command(args: argparse.Namespace) -> str:
    """Return the command line, without where the folders are."""
    parts = ["python", "scripts/measure_tokenizers.py"]
    for name in ("corpora", "held_out", "vocabularies", "smollm2", "work"):
        path = getattr(args, name)
        parts += [f"--{name.replace('_', '-')}", path.name] if path else []
    return shlex.join(parts)


# ---------------------------------------------------------------- measuring


def measured(recipe: Recipe, args: argparse.Namespace) -> dict[str, Any]:
    """Make a tokenizer and return what is said of it in the record."""
    if recipe.corpora:
        tokenizer, how = learned(recipe, args)
    else:
        assert recipe.base is not None
        tokenizer, how = BPETokenizer.of(existing(recipe.base, args)), {}
    results = {}
    for code in recipe.languages:
        lines = held_out(args.held_out, code, args.lines)
        measures = evaluate(tokenizer, lines).to_dict()
        as_written = sum(len(ids) for ids in tokenizer.encode_batch(lines))
        results[code] = {name: measures[name] for name in MEASURES} | {"tokens_as_written": as_written}
        if recipe.base is not None and recipe.corpora:
            base = BPETokenizer.of(existing(recipe.base, args))
            results[code]["same_lines"] = compare_ids(base, tokenizer, lines).same
    return {"base": recipe.base, "tokens": tokenizer.vocab_size, **how, "measures": results}


def existing(name: str, args: argparse.Namespace) -> TokenizerData:
    """Read a tokenizer that exists."""
    if name == "smollm2":
        return TokenizerFolder.read(args.smollm2).data
    folder = args.vocabularies / name
    return gpt2_files.read(folder / "vocab.json", folder / "merges.txt", **VOCABULARIES[name])


def learned(recipe: Recipe, args: argparse.Namespace) -> tuple[BPETokenizer, dict[str, Any]]:
    """Train or extend a tokenizer; return also its settings, corpora and weights, for the record."""
    files = {code: corpus_files(args.corpora, code) for code in recipe.corpora}
    sizes = {code: size_of(files[code], args) for code in files}
    weights = {
        code: 1.0 if megabytes is None else float(f"{megabytes * 1e6 / sizes[code]:.4g}")
        for code, megabytes in recipe.corpora.items()
    }
    corpora = {
        code: {"files": [file.name for file in files[code]], "bytes": sizes[code], "weight": weights[code]} for code in files
    }

    def counted(splitting: Splitting) -> WordCounts:
        return WordCounts.sum(counts_of(code, files[code], splitting, args) * weights[code] for code in files)

    settings = dict(recipe.settings)
    if recipe.base is None:
        config = TrainingConfig(**settings)
        tokenizer = train_from_counts(counted(config.splitting), config)
    else:
        extension_config = ExtensionConfig(**settings)
        base = existing(recipe.base, args)
        extension = extend_from_counts(base, counted(extension_config.splitting_for(base)), extension_config)
        tokenizer = BPETokenizer.of(extension.tokenizer if recipe.first is None else extension.at(recipe.first))
        settings |= {} if recipe.first is None else {"first": recipe.first}
    return tokenizer, {"settings": settings, "corpora": corpora}


def corpus_files(folder: Path, code: str) -> list[CorpusFile]:
    """Find the corpora of a language: si.txt.xz, and my_more.txt.xz beside my.txt.xz."""
    found = sorted(path for pattern in (f"{code}.*", f"{code}_more.*") for path in folder.glob(pattern))
    if not found:
        raise SGPEError(f"{folder}: has no corpus {code}.txt.xz")
    return find_files(found)


def texts_of(files: Sequence[CorpusFile], megabytes: float | None) -> Iterator[str]:
    """Read the texts of a language, of each file no more than some megabytes, if these are given."""
    for file in files:
        size = 0
        for text in read_texts(file):
            yield text
            size += len(text.encode())
            if megabytes is not None and size >= megabytes * 1e6:
                break


def size_of(files: Sequence[CorpusFile], args: argparse.Namespace) -> int:
    """Return the bytes of the text of a language."""
    kept = args.work / f"{files[0].name}-{args.megabytes}.size"
    if not kept.exists():
        size = sum(len(text.encode()) for text in texts_of(files, args.megabytes))
        with atomic_file(kept) as temporary:
            temporary.write_text(str(size), encoding="utf-8", newline="\n")
    return int(kept.read_text(encoding="utf-8"))


def counts_of(code: str, files: Sequence[CorpusFile], splitting: Splitting, args: argparse.Namespace) -> WordCounts:
    """Count the words of a language, or load what was counted before."""
    digest = hashlib.sha256(repr(splitting).encode()).hexdigest()[:16]
    kept = args.work / f"{code}-{args.megabytes}-{digest}.parquet"
    if not kept.exists():
        count_texts(texts_of(files, args.megabytes), splitting, progress=False).save(kept)
    return WordCounts.load(kept)


def held_out(folder: Path, code: str, most: int | None) -> list[str]:
    """Read held-out text; Burmese in Zawgyi is converted to Unicode."""
    lines = (line for line in read_lines(folder / f"ntrex_{code}.txt") if line.strip())
    return [to_unicode(line) if code == "my" and is_zawgyi(line) else line for line in islice(lines, most)]


# ---------------------------------------------------------------- tables


class Figures:
    """The figures of a record, as tables show them."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.tokenizers: Mapping[str, Any] = record["tokenizers"]

    def value(self, name: str, code: str, measure: str) -> Any:
        return self.tokenizers[name]["measures"][code][measure]

    def per_word(self, name: str, code: str, digits: int = 2) -> str:
        return f"{self.value(name, code, 'tokens_per_word'):.{digits}f}"

    def share(self, name: str, code: str, measure: str = "cut_syllable_share") -> str:
        return CUT_SYLLABLES.show(self.value(name, code, measure)).replace("100.0 %", "100 %")

    def tokens(self, name: str, codes: Iterable[str], measure: str = "tokens") -> int:
        return sum(self.value(name, code, measure) for code in codes)

    def beside(self, name: str, other: str, codes: Iterable[str], digits: int = 1) -> str:
        """How many more tokens a tokenizer takes than another for some languages together."""
        codes = list(codes)
        return signed(self.tokens(name, codes) / self.tokens(other, codes) - 1, digits)

    def thousands(self, name: str) -> str:
        return f"{round(self.tokenizers[name]['tokens'], -3) // 1000}k"


def signed(share: float, digits: int = 1) -> str:
    return f"{100 * share:+.{digits}f} %".replace("-", "−")


def in_words(difference: str) -> str:
    """Say a difference as `signed` writes it.

    >>> in_words(signed(-0.0112))
    '1.1 % fewer'
    """
    return f"{difference[1:]} {'more' if difference.startswith('+') else 'fewer'}"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Write a table in Markdown; its first columns are text."""
    rule = f"|{'---|' * left}{'---:|' * (len(heading) - left)}"
    first, *others = (f"|{''.join(f' {cell} |' if cell else ' |' for cell in row)}" for row in (heading, *rows))
    return "\n".join((first, rule, *others))


def bold(texts: Iterable[str]) -> list[str]:
    return [f"**{text}**" for text in texts]


def readme(figures: Figures) -> str:
    rows = []
    for name, title, codes, is_ours in (
        ("llama3", "Llama 3", ("si", "hi", "ta"), False),
        ("llama3-si", "Llama 3 extended for Sinhala", ("si", "hi", "ta"), True),
        ("o200k", "o200k (GPT-4o)", ("si", "hi", "ta"), False),
        ("hybrid-128k", "hf_sgpe, ten scripts, English, code", ("si", "hi", "ta"), True),
        ("bpe-128k", "plain BPE, the same text", ("si", "hi", "ta"), False),
        ("hybrid-32k", "hf_sgpe, Sinhala and English", ("si",), True),
        ("bpe-32k", "plain BPE, the same text", ("si",), False),
    ):
        cells = [text for code in codes for text in (figures.per_word(name, code), figures.share(name, code))]
        cells += [""] * (6 - len(cells))
        rows.append(
            [*(bold([title]) if is_ours else [title]), figures.thousands(name), *cells, figures.per_word(name, "en")]
        )
    heading = ("tokenizer", "tokens", "Sinhala", "cut", "Hindi", "cut", "Tamil", "cut", "English")
    return table(heading, rows)


def two_languages(figures: Figures) -> str:
    rows = []
    for name, title, is_ours in (
        ("cl100k", "cl100k", False),
        ("llama3", "Llama 3", False),
        ("o200k", "o200k", False),
        ("bpe-32k", "plain BPE with the o200k pattern", False),
        ("hybrid-32k", "**hf_sgpe** on the same text", True),
        ("hybrid-32k-cut-cost-10", "**hf_sgpe** with `--cut-cost 10`", True),
    ):
        cells = [figures.per_word(name, "si", 3), figures.share(name, "si"), figures.share(name, "si", "cut_letter_share")]
        cells = bold(cells) if is_ours else cells
        rows.append([title, figures.thousands(name), *cells, figures.per_word(name, "en", 3)])
    heading = ("tokenizer", "tokens", "Sinhala tokens/word", "cut syllables", "cut letters", "English tokens/word")
    return table(heading, rows)


def ten_scripts(figures: Figures) -> str:
    codes = (*TEN, "en")
    ours, plain, letters = "hybrid-128k", "bpe-128k", "hybrid-128k-letters"
    named = (("o200k", "o200k, 200k"), (plain, "plain BPE, 128k"), (ours, "**hf_sgpe**, 128k"))
    rows = [[title, *(figures.per_word(name, code) for code in codes)] for name, title in named]
    rows.append(["tokens beside plain BPE", *(figures.beside(ours, plain, [code]) for code in codes)])
    for name, title in (("o200k", "o200k"), (plain, "plain BPE"), (ours, "**hf_sgpe**")):
        rows.append([f"cut syllables, {title}", *(figures.share(name, code) for code in TEN), ""])
    rows.append(["cut letters, **hf_sgpe**", *(figures.share(ours, code, "cut_letter_share") for code in TEN), ""])
    return (
        table(("tokens per word", *codes), rows)
        + f"\n\nAll languages together take {in_words(figures.beside(ours, plain, codes))} tokens than by plain BPE. With\n"
        f"`--cut-cost 2 --letter-coverage 0.9999` they take {in_words(figures.beside(letters, plain, codes))}, and "
        f"{figures.share(letters, 'hi')} of the syllables are cut in Hindi."
    )


def extended(figures: Figures) -> str:
    rows = []
    for name, base, code, title in (
        ("llama3-si", "llama3", "si", "Llama 3"),
        ("llama3-si-4k", "llama3", "si", "the same, the first of its new tokens"),
        ("gpt2-hi", "gpt2", "hi", "GPT-2"),
        ("smollm2-si", "smollm2", "si", "SmolLM2"),
    ):
        new = figures.tokenizers[name]["tokens"] - figures.tokenizers[base]["tokens"]
        text = f"{figures.tokenizers[name]['corpora'][code]['bytes'] / 1e6:.0f} MB of {language(code).english}"
        took = f"{figures.per_word(base, code)} → **{figures.per_word(name, code, 3)}**"
        cut = (figures.share(name, code), figures.share(name, code, "cut_letter_share"))
        same = f"{figures.value(name, 'en', 'same_lines'):,} of {figures.value(name, 'en', 'lines'):,}"
        rows.append([title, text, f"{new:,}", took, *cut, same])
    heading = ("tokenizer", "text it learned from", "new tokens", "tokens per word, before → after", "cut syllables")
    return table((*heading, "cut letters", "lines in English with the same ids"), rows, left=2)


def extended_ten(figures: Figures) -> str:
    rows = [
        ["before", *(figures.per_word("o200k", code) for code in TEN)],
        ["after", *bold(figures.per_word("o200k-ten", code) for code in TEN)],
        ["cut syllables, after", *(figures.share("o200k-ten", code) for code in TEN)],
        ["cut letters, after", *(figures.share("o200k-ten", code, "cut_letter_share") for code in TEN)],
    ]
    return table(("o200k, tokens per word", *TEN), rows)


def recipes(figures: Figures) -> str:
    rows = []
    for code, pattern in (("hi", "o200k"), ("bn", "o200k"), ("si", "o200k"), ("si", "bloom")):
        names = {recipe: f"{code}-{pattern}-{recipe}" for recipe in ("hybrid", "portable", "bpe")}
        cells = {recipe: f"{figures.per_word(name, code, 3)}, {figures.share(name, code)}" for recipe, name in names.items()}
        written = figures.tokens(names["portable"], [code], "tokens_as_written") / figures.tokens(names["portable"], [code])
        if round(1000 * (written - 1)):
            cells["portable"] += f" (text as it is written: {signed(written - 1)} tokens)"
        rows.append([f"{language(code).english}, `{pattern}`", *cells.values()])
    return table(("language", "`hybrid`", "`portable`", "`bpe`"), rows, left=4)


def many_languages(figures: Figures) -> str:
    rows = []
    for code in MANY_MEASURED:
        has_words = figures.value("hybrid-200k", code, "tokens_per_word") is not None
        per_character = f"({figures.value('hybrid-200k', code, 'tokens_per_character'):.3f})"
        took = figures.per_word("hybrid-200k", code) if has_words else per_character
        cut = [figures.share(name, code, "cut_cluster_share") for name in ("hybrid-200k", "bpe-200k", "o200k")]
        parity = [figures.tokens(name, [code]) / figures.tokens(name, ["en"]) for name in ("hybrid-200k", "o200k")]
        beside = [figures.beside(name, "o200k", [code], 0) for name in ("hybrid-200k", "bpe-200k")]
        rows.append([language(code).english, took, *beside, *cut, *(f"{value:.2f}" for value in parity)])
    heading = ("", "tokens per word (per character)", "beside o200k", "plain BPE beside o200k", "cut clusters")
    totals = [in_words(figures.beside("hybrid-200k", name, MANY_MEASURED)) for name in ("o200k", "bpe-200k")]
    total = f"All languages together take {totals[0]} tokens than by o200k, and {totals[1]} than by plain BPE."
    return f"{table((*heading, 'by plain BPE', 'by o200k', 'parity', 'o200k'), rows)}\n\n{total}"


TABLES: dict[str, tuple[str, Callable[[Figures], str]]] = {
    "results": ("README.md", readme),
    "two languages": ("docs/benchmarks.md", two_languages),
    "ten scripts": ("docs/benchmarks.md", ten_scripts),
    "extended": ("docs/extend.md", extended),
    "o200k extended": ("docs/extend.md", extended_ten),
    "recipes": ("docs/train.md", recipes),
    "many languages": ("docs/scripts.md", many_languages),
}
"""Name of a table → the page that has it, and what writes it."""


def write_pages(root: Path, record: Mapping[str, Any]) -> list[Path]:
    """Write the tables of a record into the pages, each between ``<!-- measured: NAME -->`` and ``<!-- end -->``.

    Raises:
        SGPEError: a page has no such place.
    """
    figures, written = Figures(record), []
    for name, (page, write) in TABLES.items():
        path = root / page
        text = path.read_text(encoding="utf-8")
        first, last = f"<!-- measured: {name} -->\n", "\n<!-- end -->"
        before, opening, rest = text.partition(first)
        _, closing, after = rest.partition(last)
        if not (opening and closing):
            raise SGPEError(f"{path}: has no place for a table: write <!-- measured: {name} --> and <!-- end -->")
        with atomic_file(path) as temporary:
            content = f"{before}{first}\n{write(figures)}\n{last}{after}"
            temporary.write_text(content, encoding="utf-8", newline="\n")
        written.append(path)
    return list(dict.fromkeys(written))


if __name__ == "__main__":
    sys.exit(main())
