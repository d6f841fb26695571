"""``evaluate``: measure tokenizers on text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.evaluate_options import EvaluateOptions
from hf_sgpe.cli.tokenizer_options import named_tokenizers
from hf_sgpe.cli.vocabulary_report import report_vocabulary
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.printing import print_json, print_table

if TYPE_CHECKING:
    from hf_sgpe.corpora.held_out import HeldOut


@command(epilog="Example: hf-sgpe evaluate my-tokenizer si.txt en.txt --baseline llama3=llama3-hf")
def evaluate(given: EvaluateOptions, as_json: Json = False) -> None:
    """Measure tokenizers side by side: tokens per word, bytes per token, and how many syllables, letters and clusters are
    cut. --json adds more measures.

    Clusters are grapheme clusters: readers see each cluster as one character. For languages without spaces between words,
    tokens are counted per character. Parity is the number of tokens of a text, divided by the number of tokens of its
    English translation. The translation is a file such as en.txt with the same number of lines. Bits per byte (--model) can
    be compared between models with different tokenizers. The model predicts each token once. Text is normalized to NFC.
    Tokens are counted line by line, without line ends; bits per byte are measured on whole texts.
    """
    from tqdm import tqdm

    from hf_sgpe.corpora.held_out import HeldOut
    from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
    from hf_sgpe.evaluation.languages import language_in_name
    from hf_sgpe.evaluation.measurable import load_measurable
    from hf_sgpe.evaluation.metrics import evaluate as measure
    from hf_sgpe.evaluation.results import REFERENCE
    from hf_sgpe.terminal.progress import somebody_watches

    first, corpus, further = given.tokenizer_and_rest(given.files)
    if not corpus:
        raise SGPEError("no text to measure on: name files of text after the tokenizer")
    if given.vocabulary:
        if further or given.baseline or len(given.model) > 1:
            raise SGPEError("--vocabulary measures one tokenizer: leave out --baseline, and give --model once")
        report_vocabulary(first, corpus, given, as_json)
        return
    if given.picture:
        raise SGPEError("--picture needs --vocabulary: add it, or leave out --picture")
    held_out = HeldOut.of(corpus, text_field=given.text_field)
    warn_of_zawgyi(held_out)
    texts = {file: replace(held_out, files=(file,)) for file in held_out.files}
    names = named_tokenizers((first, *further), given.baseline)
    models = _models_of(names, first, given.model)
    measured = {name: load_measurable(source) for name, source in names.items()}
    evaluations = {}
    runs = len(texts) * len(measured)
    with tqdm(total=runs, desc="Measuring", unit=" runs", disable=not somebody_watches(), leave=False) as bar:
        for path, text in texts.items():
            for name, token_ends in measured.items():
                evaluations[path, name] = measure(token_ends, text)
                if not evaluations[path, name].lines:
                    raise SGPEError(f"{path} has no text to measure")
                bar.update()
    bits = _bits_per_byte(names, models, {str(path): text for path, text in texts.items()}, given.eval_minutes)
    english = [path for path in texts if language_in_name(path.name) == REFERENCE]
    results = []
    for (path, name), measures in evaluations.items():
        parity = measures.parity(evaluations[english[0], name]) if len(english) == 1 else None
        row = {"file": str(path), "tokenizer": name, **measures.to_dict(), "parity": parity}
        if models:
            row |= {"model": models.get(name), "bits_per_byte": bits.get((str(path), name))}
        results.append(row)
    if as_json:
        print_json(results)
    else:
        _print_results(results)


def _models_of(names: Mapping[str, str], first: str, given: Sequence[str]) -> dict[str, str]:
    """Return the models in the values of ``--model``, keyed by tokenizer."""
    models: dict[str, str] = {}
    for text in given:
        name, equals, path = ("", "", "") if Path(text).exists() else text.partition("=")
        name, path = (name, path) if equals else (first, text)
        if name not in names:
            raise SGPEError(f"--model {text!r}: no tokenizer is named {name!r}: use one of {', '.join(names)}")
        if name in models:
            raise SGPEError(f"--model {text!r}: {name} already has a model: write NAME=MODEL for another tokenizer")
        models[name] = path
    if models:
        from trainers.language_models.training_runs import require_pytorch

        require_pytorch(to_train=False)
    return models


def _bits_per_byte(
    names: Mapping[str, str], models: Mapping[str, str], held_out: Mapping[str, HeldOut], minutes: float
) -> dict[tuple[str, str], float]:
    """Return the bits per byte, keyed by file and tokenizer. All models read the text that the first reads in time."""
    if not models:
        return {}
    from hf_sgpe.weights.model_loading import load_tokenizer
    from trainers.language_models.scoring import beginning_of, score_model

    texts = {file: text.texts() for file, text in held_out.items()}
    bits: dict[tuple[str, str], float] = {}
    for name, model in models.items():
        scores = score_model(model, load_tokenizer(names[name]), texts, minutes=0 if bits else minutes)
        texts = {file: beginning_of(some, scores[file].characters) for file, some in texts.items()}
        bits |= {(file, name): score.bits_per_byte for file, score in scores.items()}
    return bits


_COLUMNS = {
    "tokens_per_word": ("tokens/word", "{:.3f}"),
    "tokens_per_character": ("tokens/character", "{:.3f}"),
    "bytes_per_token": ("bytes/token", "{:.3f}"),
    "cut_syllable_share": ("cut syllables", "{:.3%}"),
    "cut_letter_share": ("cut letters", "{:.3%}"),
    "cut_cluster_share": ("cut clusters", "{:.3%}"),
    "fallback_rate": ("fallback", "{:.3%}"),
    "unknown_share": ("unknown", "{:.3%}"),
    "parity": ("parity", "{:.3f}"),
    "bits_per_byte": ("bits/byte", "{:.4f}"),
}


def _print_results(results: list[dict[str, Any]]) -> None:
    columns = {measure: column for measure, column in _COLUMNS.items() if measure in results[0]}
    if all(row["tokens_per_word"] is not None for row in results):  # all text has spaces between words
        del columns["tokens_per_character"]
    if all(row["unknown_share"] is None for row in results):  # no tokenizer has an unknown token
        del columns["unknown_share"]
    files = {row["file"] for row in results}
    is_short = len({Path(file).name for file in files}) == len(files)
    rows, previous = [], ""
    for row in results:
        shown = Path(row["file"]).name if is_short else row["file"]
        numbers = ["–" if row[measure] is None else form.format(row[measure]) for measure, (_, form) in columns.items()]
        rows.append([shown if row["file"] != previous else "", row["tokenizer"], *numbers])
        previous = row["file"]
    print_table(["file", "tokenizer", *(title for title, _ in columns.values())], rows, texts=2)
