"""Options that several commands have: what is counted, how it is cut into words, and which model generates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from hf_sgpe.cli.application import TOKENIZER_HELP
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS
from hf_sgpe.splitting.splitting import RECIPES

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
