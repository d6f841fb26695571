"""Giving a tokenizer that exists the words of more scripts: ``extend`` and ``compare-ids``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_sgpe.cli import shared_options
from hf_sgpe.cli.application import Json, Quiet, command, print_json, print_table, report
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.scripts.script_registry import names_of

_CURVE = "extension"
_UNITS = {
    "word": "words in this text",
    "character": "characters in this text",
    "piece": "pieces, as the split cuts words,",
}


@command(epilog="Example: hf-sgpe extend Qwen/Qwen3-0.6B-Base si.txt.xz --script si --new-tokens 16000 --out qwen-si")
def extend(
    base: Annotated[
        str, typer.Argument(help="The tokenizer: folder, tokenizer.json or Hub repository.", show_default=False)
    ],
    corpus: shared_options.Corpus = None,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write to.", show_default=False)],
    overwrite: shared_options.Overwrite = False,
    script: shared_options.Script = None,
    new_tokens: Annotated[
        str, typer.Option(help="How many tokens to add, or auto: until a thousand more save less than --least-saving.")
    ] = "16000",
    own_split: Annotated[
        bool | None,
        typer.Option(
            "--own-split/--base-split",
            help="Put a split for the scripts' words in front, or leave the split as it is "
            "(default: in front where words of the scripts would be cut apart).",
            show_default=False,
        ),
    ] = None,
    runs_in: shared_options.RunsIn = None,
    letter_coverage: Annotated[
        float, typer.Option(help="Share of running letters that may get a token, if they earn it.")
    ] = 0.9999,
    syllable_coverage: Annotated[
        float, typer.Option(help="Share of running syllables that may get a token, if they earn it.")
    ] = 0.999,
    cut_cost: Annotated[
        float,
        typer.Option(
            help="How many tokens a cut syllable counts as, and a cut letter four times as many: more gives fewer cuts and "
            "longer text. Lower than that of train, which counts both alike, for each new token is a row of the model."
        ),
    ] = 1.0,
    least_saving: Annotated[float, typer.Option(help="For --new-tokens auto: share of the text's tokens.")] = 0.005,
    balance: Annotated[
        float,
        typer.Option(
            help="A number, not files as for train: 0: every word counts once; 1: scripts with little text count as much as "
            "others."
        ),
    ] = 0.4,
    min_frequency: Annotated[int, typer.Option(help="Never merge a pair that occurs less often.")] = 2,
    weight: shared_options.Weight = None,
    reuse_ids: Annotated[
        bool, typer.Option("--reuse-ids", help="First fill ids that the model's config.json has rows for and no token uses.")
    ] = False,
    evaluate: Annotated[
        list[str] | None,
        typer.Option(
            "--eval",
            help="Held-out text to draw tokens per word of, by new tokens: FILE whose name tells the language, as "
            "ntrex_si.txt does, or NAME=FILE with a language such as si for NAME (repeatable).",
            show_default=False,
        ),
    ] = None,
    text_field: shared_options.TextField = "text",
    dataset: shared_options.Dataset = None,
    split: shared_options.Split = None,
    streaming: shared_options.Streaming = False,
    workers: shared_options.Workers = None,
    counts: Annotated[
        list[Path] | None,
        typer.Option(help="Learn from words counted before by hf-sgpe count (repeatable).", show_default=False),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Give the tokenizer of a model that exists a language: all old tokens keep their ids, and so does all other text.

    The result is a folder that plain AutoTokenizer loads. The model needs rows for the new tokens before it can use them.
    """
    from hf_sgpe.cli.corpus_arguments import corpus_of
    from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
    from hf_sgpe.files.atomic import atomic_directory
    from hf_sgpe.files.overwriting import check_new_folder
    from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
    from hf_sgpe.formats.tokenizer_json import check_folder
    from hf_sgpe.learning.extension.extension_config import AUTO, ExtensionConfig, cut_scripts
    from trainers import TokenizerExtender
    from trainers.tokenizers.recipes import choose_split, find_scripts, where_it_runs
    from trainers.tokenizers.tokenizer_extender import cost_of, extended_folder

    if not corpus and not counts and not dataset:
        raise SGPEError("nothing to learn from: give text, a dataset, or words counted before by --counts")
    if new_tokens != AUTO and not new_tokens.isdecimal():
        raise SGPEError(f"--new-tokens {new_tokens}: give a number, or {AUTO}")
    if corpus and counts:
        raise SGPEError("give text, or words counted before by --counts, not both: count the text, too")
    texts = {}
    if evaluate:
        from hf_sgpe.evaluation.comparison import texts_of

        texts = texts_of(evaluate, text_field=text_field)
    folder = TokenizerFolder.read(base)
    if (Path(out) / "tokenizer.json").exists() and Path(out).resolve() in (
        Path(base).resolve(),
        Path(base).resolve().parent,
    ):
        raise SGPEError(f"--out {out} is the tokenizer that is extended: give another folder")
    check_new_folder(out, overwrite=overwrite, names=[f"{_CURVE}.json", f"{_CURVE}.svg"] if evaluate else [])
    check_folder(out, with_chat_template=folder.data.chat_template is not None)
    text = corpus_of(corpus, dataset, split, streaming, text_field, counts=counts, weight=weight)
    warn_of_zawgyi(text, *texts.values())
    config = ExtensionConfig(
        new_tokens=AUTO if new_tokens == AUTO else int(new_tokens),
        own_split=own_split,
        letter_coverage=letter_coverage,
        syllable_coverage=syllable_coverage,
        cut_cost=cut_cost,
        least_saving=least_saving,
        balance=balance,
        min_frequency=min_frequency,
        weights=text.weights,
        reuse_ids=reuse_ids,
        **find_scripts(text, script or (), "hybrid", other_way=", or give text in a script to add"),
    )
    config = choose_split(folder.data, config, runs_in or ())
    extender = TokenizerExtender(config, workers=workers)
    with atomic_directory(out) as temporary:
        extension = extender.learn(folder, extender.count(folder, files=text))
        runs = where_it_runs(extension, config, runs_in or (), text.beginning())
        extended = extended_folder(folder, extension)
        extended.write(temporary)
        cost = cost_of(extension, config.scripts, text.beginning())
        if evaluate:
            from hub_cards.pictures.extension_curve import extension_curve

            curve = extension_curve(extension, texts)
            (temporary / f"{_CURVE}.json").write_text(json.dumps(curve.to_dict(), indent=1) + "\n", newline="\n")
            (temporary / f"{_CURVE}.svg").write_text(curve.draw(), encoding="utf-8", newline="\n")
    data = extension.tokenizer
    is_own = data.splitting.regexes != folder.data.splitting.regexes
    facts: dict[str, Any] = {
        "out": out,
        "base": base,
        "tokens": data.vocab_size,
        "new_tokens": extension.new_tokens,
        "unit_tokens": extension.unit_tokens,
        "highest_id": max(data.vocab.values()),
        "scripts": list(config.scripts),
        "own_split": is_own,
        "where_it_runs": runs,
        f"tokens_per_{cost.unit}": {"before": cost.before, "after": cost.after},
    }
    if is_own:
        how = "a split for their words stands in front"
    elif cut := cut_scripts(data.splitting, config.scripts):
        how = f"the split is the old one, which cuts words of {names_of(cut)}"
        how += "" if runs_in else ": --own-split keeps them whole"
    else:
        how = "the split is the old one, which keeps their words whole"
    report(
        f"{out}: {extension.new_tokens:,} tokens more than {base}, {extension.unit_tokens:,} of them for letters and "
        f"syllables of {names_of(config.scripts)}, whose {_UNITS[cost.unit]} have {cost.after:.2f} tokens now, "
        f"and had {cost.before:.2f}; {how}. Text without a character of these scripts has its old ids.\n"
        f"{runs}",
        facts | ({"curve": curve.to_dict()} if evaluate else {}),
        as_json,
    )
    if evaluate and not as_json and not quiet:
        _print_curve(curve)


def _print_curve(curve: Any) -> None:
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False)
    table.add_column("new tokens", justify="right")
    for code in curve.tokens_per_word:
        table.add_column(f"{code} tokens/word", justify="right")
    for code in curve.tokens_per_character:
        table.add_column(f"{code} tokens/character", justify="right")
    rows = [*curve.tokens_per_word.values(), *curve.tokens_per_character.values()]
    for place, size in enumerate(curve.sizes):
        table.add_row(f"{size:,}", *(f"{row[place]:.3f}" for row in rows))
    print_table(table)


@command("compare-ids", epilog="Example: hf-sgpe compare-ids Qwen/Qwen3-0.6B-Base qwen-si en.txt de.txt")
def compare_ids(
    old: Annotated[str, typer.Argument(help="A tokenizer: folder, tokenizer.json or Hub repository.", show_default=False)],
    new: Annotated[str, typer.Argument(help="Another, for example an extended one.", show_default=False)],
    files: Annotated[list[str], typer.Argument(help="Text, in the formats that train takes.", show_default=False)],
    *,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say which share of a text's lines has the same ids by two tokenizers, and show where the first other line differs."""
    from hf_sgpe.evaluation.metrics import load
    from hf_sgpe.evaluation.same_ids import compare_ids as compare
    from trainers import find_files, read_lines

    paths = find_files(files)
    tokenizers = load(old), load(new)
    results = {}
    for path in paths:
        # As they are: ids may differ in text that is not in NFC.
        lines = (line for line in read_lines(path, text_field=text_field) if line.strip())
        results[path] = compare(*tokenizers, lines)
        if not results[path].lines:
            raise SGPEError(f"{path}: holds no text to compare")
    if as_json:
        print_json([{"file": str(path), **result.to_dict()} for path, result in results.items()])
        return
    for path, result in results.items():
        share = f"{result.same:,} of {result.lines:,} lines have the same ids"
        print(f"{path}: {share} ({result.old_tokens:,} tokens by {old}, {result.new_tokens:,} by {new})")
        if difference := result.difference:
            print(f"  line {difference.line} is the first that differs, after {difference.place} tokens:")
            for name, tokens in ((old, difference.old), (new, difference.new)):
                print(f"    {name}: {' '.join(f'{text!r}={id}' for text, id in tokens)}")
