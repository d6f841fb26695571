"""``card``: write the card of a tokenizer or a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, baseline_option, named_tokenizers, text_field_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, option, option_list
from hf_sgpe.terminal.printing import report


@dataclass(frozen=True, kw_only=True)
class _CardOptions:
    tokenizer: str = argument(TOKENIZER_HELP)
    text: list[str] = option_list(
        "Held-out text to measure on: FILE with the language in its name, such as ntrex_si.txt, or NAME=FILE with a "
        "language code as NAME, such as si (repeatable). Parity compares each text with the English text. The "
        "English text must be its line-by-line translation.",
        "--eval",
    )
    baseline: list[str] = baseline_option()
    name: str | None = option(
        "Name of the tokenizer in the card's code example, such as user/name (default: the name of the tokenizer's folder)."
    )
    license: str | None = option(
        "Licence for the card's metadata, such as apache-2.0. A licence that SPDX does not list causes a warning."
    )
    language: list[str] = option_list(
        "Language for the card's metadata, such as si (repeatable; default: the languages of --eval for which the "
        "tokenizer needs no byte fallback)."
    )
    dataset: list[str] = option_list("Training dataset for the card's metadata (repeatable).")
    base_model: str | None = option(
        "For a model: its base model, such as user/name (default: the model that hf-sgpe transplant started from)."
    )
    tag: list[str] = option_list("Additional tag on the Hub (repeatable).")
    results: list[str] = option_list(
        "For a model: results for the card (repeatable): results_*.json of lm-evaluation-harness, or the output of "
        "hf-sgpe evaluate --model MODEL --json."
    )
    benchmark: list[str] = option_list(
        "For a model: the Hub's benchmark of a task in --results, TASK=DATASET:ID (repeatable). ID is that of the task in "
        "the eval.yaml of DATASET. The result is also written to .eval_results, for the leaderboard."
    )
    out: str | None = option("Folder to write the card to (default: the tokenizer's folder).", None, "-o")
    overwrite: bool = option(
        "Replace a README.md or an index.html that was written or edited by hand.", False, "--overwrite", "--replace"
    )
    text_field: str = text_field_option()


@command(epilog="Example: hf-sgpe card my-tokenizer --eval si.txt --eval en.txt --baseline llama3=llama3-hf")
def card(given: _CardOptions, as_json: Json = False) -> None:
    """Write the card of a tokenizer: README.md, index.html with the same content, and charts.

    If the folder contains a model, write the model's card instead: a README.md with the base model, the licence, the
    languages, and the measurements of hf-sgpe transplant --eval.
    """
    from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
    from hf_sgpe.evaluation.comparison import compare, texts_of
    from hf_sgpe.evaluation.measurable import load
    from hf_sgpe.files.hub import check_name, public_name, split_name
    from hf_sgpe.tokenizer import BPETokenizer
    from hub_cards.cards.card_of_model import holds_model, write_model_card
    from hub_cards.cards.tokenizer_card import check_card, check_metadata, warn_of_metadata, write_card

    if given.out is None and not Path(given.tokenizer).is_dir():
        raise SGPEError(f"{given.tokenizer} is not a folder, so the card cannot be written there: name a folder with --out")
    if given.baseline and not given.text:
        raise SGPEError("--baseline needs text to measure on: add --eval FILE")
    check_metadata(given.license, given.language)
    warn_of_metadata(given.license, given.language)
    folder = given.out or given.tokenizer
    card_settings: dict[str, Any] = {
        "license": given.license,
        "languages": given.language,
        "datasets": given.dataset,
        "tags": given.tag,
        "replace": given.overwrite,
    }
    if holds_model(Path(folder)):
        if given.text:
            raise SGPEError(
                f"--eval is only for the card of a tokenizer, but {folder} contains a model: write the tokenizer's card to "
                "another folder with --out, or measure the model with hf-sgpe transplant --eval or hf-sgpe evaluate --model"
            )
        if given.benchmark and not given.results:
            raise SGPEError("--benchmark needs results of the benchmark: name the file with --results")
        card_settings |= {"base_model": given.base_model, "results": given.results, "benchmarks": given.benchmark}
        written = write_model_card(folder, name=given.name, **card_settings)
        report(f"{folder}: {', '.join(written)}", {"out": folder, "files": written}, as_json)
        return
    for option_name in ("base_model", "results", "benchmark"):
        if getattr(given, option_name):
            shown = "--" + option_name.replace("_", "-")
            raise SGPEError(
                f"{shown} is only for the card of a model, but {given.tokenizer} contains no model: leave out {shown}"
            )
    loaded = BPETokenizer.from_pretrained(given.tokenizer)
    if given.name is not None:
        check_name(given.name)
        name = given.name
    elif Path(given.tokenizer).exists():
        name = public_name(given.tokenizer, of_folder=True)
    else:
        name = split_name(given.tokenizer)[0]
    # Fail before minutes of measuring if the card cannot be written.
    check_card(folder, loaded, measured=bool(given.text), replace=given.overwrite)
    evaluations = None
    if given.text:
        texts = texts_of(given.text, text_field=given.text_field)
        warn_of_zawgyi(*texts.values())
        baselines = {name: load(source) for name, source in named_tokenizers((), given.baseline).items()}
        evaluations = compare(loaded, texts, name=name.rpartition("/")[2], baselines=baselines)
    written = write_card(folder, loaded, name=name, evaluations=evaluations, **card_settings)
    report(f"{folder}: {', '.join(written)}", {"out": folder, "files": written}, as_json)
