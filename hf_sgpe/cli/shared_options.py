"""Options that several commands have: what is counted, how it is cut into words, and which model generates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hf_sgpe.cli.application import TOKENIZER_HELP
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS
from hf_sgpe.splitting.scripts.script_registry import resolve_scripts, scripts_in
from hf_sgpe.splitting.splitting import RECIPES, Splitting
from hf_sgpe.terminal.progress import somebody_watches

if TYPE_CHECKING:
    from hf_sgpe.corpora.text_files import CorpusFile
    from trainers.tokenizers.recipes import RecipeChoice

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a tokenizer, a model or files of these names that are in --out already.")
]

Corpus = Annotated[
    list[str] | None,
    typer.Argument(help="Files, folders or globs: .txt, .jsonl, .parquet, plain or .gz .xz .zst .bz2.", show_default=False),
]
TextField = Annotated[
    str,
    typer.Option("--text-field", "--text-column", help="Field or column with the text in .jsonl, .parquet and the dataset."),
]
Dataset = Annotated[
    list[str] | None,
    typer.Option(
        help="Dataset on the Hub or in a folder, besides any corpus: NAME or NAME:CONFIG (repeatable).", show_default=False
    ),
]
Split = Annotated[str | None, typer.Option(help="Split of the dataset (default: train).", show_default=False)]
Streaming = Annotated[bool, typer.Option("--streaming", help="Read the dataset while it is downloaded, and keep no copy.")]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Threads that count words; processes without native kernels (default: one a core).", show_default=False
    ),
]


def _one_of(option: str, names: Iterable[str]) -> Callable[[str], str]:
    known = tuple(names)

    def check(value: str) -> str:
        if value not in known:
            raise SGPEError(f"{option} {value}: known are {', '.join(known)}")
        return value

    return check


_RECIPES = "; ".join(f"{name}: {recipe.meaning}" for name, recipe in RECIPES.items())
Recipe = Annotated[
    str,
    typer.Option(
        help=f"{_RECIPES}. Words are cut now, and train --counts takes the recipe from the counts, so there is no auto.",
        callback=_one_of("--recipe", RECIPES),
    ),
]
RecipeOrAuto = Annotated[
    str,
    typer.Option(
        help=f"{_RECIPES}; auto: portable where llama.cpp gives its ids and the text has at most 0.5 % more tokens "
        "and 0.1 % more syllables cut by it, else hybrid.",
        callback=_one_of("--recipe", ("auto", *RECIPES)),
    ),
]
RunsIn = Annotated[
    list[str] | None,
    typer.Option(
        help="Runtimes that must give the same ids, whatever that costs: llama.cpp, tiktoken, tokenizers-1.0, gigatoken "
        "and others (repeatable, or with commas between).",
        show_default=False,
    ),
]
Script = Annotated[
    list[str] | None,
    typer.Option(
        help="Scripts whose syllables stay whole, such as sinhala,tamil, or all that hf-sgpe info lists; by the characters "
        "that a reader sees, any other that Unicode names, such as ethiopic, hebrew, arabic or hangul, and emoji; or "
        "languages such as si,hi (repeatable; default: auto, those of at least 1 % of the text).",
        show_default=False,
    ),
]
Pattern = Annotated[str, typer.Option(help=f"Split pattern for everything else: {', '.join(SPLIT_PATTERNS)}, or a regex.")]
PatternOrAuto = Annotated[
    str | None,
    typer.Option(
        help=f"Split pattern for everything else: {', '.join(SPLIT_PATTERNS)}, or a regex (default: o200k, or another "
        "one, such as bloom, if with it --recipe auto finds portable to cost that little).",
        show_default=False,
    ),
]
Normalization = Annotated[
    str | None, typer.Option(help="nfc or none (default: nfc for hybrid, else none).", show_default=False)
]
SpecialToken = Annotated[
    list[str] | None,
    typer.Option(
        help="Special token (repeatable; default: <|endoftext|>, or the five of SGPE for sgpe).", show_default=False
    ),
]
Weight = Annotated[
    list[str] | None,
    typer.Option(
        help="How much a file's words count: NAME-OR-GLOB=NUMBER (repeatable; the first that fits is taken).",
        show_default=False,
    ),
]
ChatTemplate = Annotated[
    str | None,
    typer.Option(
        help="llama3, chatml, alpaca or a .jinja file; the special tokens of a named one come along.", show_default=False
    ),
]

Model = Annotated[
    str,
    typer.Argument(
        help="Folder of a model of transformers, OpenVINO or MLX, GGUF file or Hub repository.", show_default=False
    ),
]
ModelTokenizer = Annotated[
    str | None,
    typer.Option("--tokenizer", "-t", help=f"{TOKENIZER_HELP} (default: the model's)", show_default=False),
]
Engine = Annotated[
    str | None,
    typer.Option(help="One of those that hf-sgpe engines shows (default: the best one here).", show_default=False),
]
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda and others of transformers; CPU, GPU, NPU, AUTO of OpenVINO.", show_default=False),
]
ContextLength = Annotated[
    int | None,
    typer.Option(help="Tokens in the context of llama.cpp (default: the model's, up to 8192).", show_default=False),
]
GPULayers = Annotated[int | None, typer.Option(help="Layers of llama.cpp on a GPU (default: -1, all).", show_default=False)]
Exact = Annotated[bool, typer.Option("--exact", help="Compute in 32 bits, the same tokens on every engine.")]
Template = Annotated[
    str | None, typer.Option(help="Chat template: llama3, chatml, alpaca or a .jinja file.", show_default=False)
]


def engine_settings(**settings: Any) -> dict[str, Any]:
    """Those settings of an engine that are given; each engine has its own, and refuses others."""
    return {name: value for name, value in settings.items() if value is not None}


def check_dataset(dataset: list[str] | None, split: str | None, streaming: bool) -> None:
    """Makes sure that options for a dataset come with one.

    Raises:
        SGPEError: there is none.
    """
    for option, is_given in {"--streaming": streaming, "--split": split is not None}.items():
        if is_given and not dataset:
            raise SGPEError(f"{option} is for a dataset: name one by --dataset")


def find_recipe(
    recipe: str,
    script: list[str] | None,
    *,
    pattern: str | None = None,
    normalization: str | None = None,
    runs_in: Sequence[str] = (),
    files: Sequence[CorpusFile] = (),
    datasets: Sequence[Iterable[str]] = (),
    counts: Sequence[Path] = (),
    text_field: str = "text",
) -> tuple[dict[str, Any], RecipeChoice | None]:
    """The recipe that ``auto`` means and its pattern, and the scripts as `find_scripts` has them; and why, where ``auto``
    looked at text.

    Raises:
        SGPEError: as `find_scripts` and `choose_recipe`; the recipe is not for a runtime that is asked for; or words
            that were counted before may be of either of two recipes.
    """
    from hf_sgpe.counts.count_files import read_info
    from hf_sgpe.evaluation.runtimes import LLAMA_CPP
    from trainers.tokenizers.recipes import PATTERN, RecipeChoice, check_recipe, choose_recipe

    corpus: dict[str, Any] = {"files": files, "datasets": datasets, "text_field": text_field}
    choice: RecipeChoice | None = None
    how: dict[str, Any] = {"pattern": pattern or PATTERN}
    if recipe == "auto" and counts:
        recipe = read_info(counts[0]).splitting.recipe
        if recipe == "bpe":
            raise SGPEError(f"{counts[0]}: its words are cut by a split pattern alone: say --recipe portable or bpe")
        if recipe == "hybrid":
            do = "count the words by --recipe portable"
            choice = RecipeChoice(recipe, how["pattern"], (LLAMA_CPP,), is_exact=False, instead=do)
    if recipe != "auto":
        found = find_scripts(script, recipe, counts=counts, **corpus)
        if runs_in:
            splitting = Splitting(recipe, normalization=normalization, **how, **found)
            counted = str(counts[0]) if counts else ""
            choice = check_recipe(splitting, recipe, runs_in, nfc=normalization == "nfc", counted=counted)
        return {"recipe": recipe, **how, **found}, choice
    found = find_scripts(script, "hybrid", **corpus)
    if not found:
        return {"recipe": "hybrid", **how}, None
    choice = choose_recipe(
        first_texts(**corpus), found["scripts"], pattern=pattern, normalization=normalization, runs_in=runs_in
    )
    return {"recipe": choice.recipe, "pattern": choice.pattern, **found}, choice


def find_scripts(
    script: list[str] | None,
    recipe: str,
    *,
    files: Sequence[CorpusFile] = (),
    datasets: Sequence[Iterable[str]] = (),
    counts: Sequence[Path] = (),
    text_field: str = "text",
    other_way: str = ", or give --recipe bpe",
) -> dict[str, Any]:
    """The scripts that ``--script`` means: if it is not given, or auto, those of the words that were counted before, or
    those that the beginnings of the corpus are written in; and what is named besides auto.

    Args:
        other_way: What the command takes for text in other scripts, for the message.

    Raises:
        SGPEError: nothing of the corpus has syllables, or letters with marks, that could be kept whole.
    """
    from hf_sgpe.counts.count_files import read_info
    from hf_sgpe.counts.word_counts import WordCounts

    given = [name for text in script or () for name in text.split(",")]
    named = [name for name in given if name.strip().casefold() != "auto"]
    if given and named == given:
        return {"scripts": named}
    if recipe == "bpe":
        return {}
    resolve_scripts(named)  # what is wrong with them is said before the corpus is read
    if counts and recipe != "portable":
        # Without scripts, the counts are of another recipe: reading them says so.
        return {"scripts": (*counted, *named)} if (counted := read_info(counts[0]).splitting.scripts) else {}

    def beginning() -> Iterable[str]:
        if counts:
            return (word.decode() for word in WordCounts.load(counts[0]).words())
        return first_texts(files, datasets, text_field)

    shares = scripts_in(beginning())
    if not shares:
        if not any(map(str.strip, beginning())):
            return {}  # the trainer says that there is no text
        seen = ", ".join(scripts_in(beginning(), any_script=True))
        raise SGPEError(
            f"{[*files, *counts, 'the dataset'][0]}: begins with text in {seen or 'no script'}, which has nothing to keep "
            "whole, neither syllables nor letters with marks: name the scripts of the whole corpus by --script" + other_way
        )
    if somebody_watches():
        written = ", ".join(f"{name} ({share:.0%} of the letters)" for name, share in shares.items())
        print(f"The text is written in {written}. --script names other scripts.", file=sys.stderr)
    return {"scripts": (*shares, *named)}


def first_texts(files: Sequence[CorpusFile], datasets: Sequence[Iterable[str]], text_field: str) -> Iterator[str]:
    """Return the first texts of files and of datasets: enough to see what a corpus is written in."""
    from hf_sgpe.corpora.text_files import beginning_of, beginnings

    return chain(beginnings(files, text_field=text_field), *map(beginning_of, datasets))
