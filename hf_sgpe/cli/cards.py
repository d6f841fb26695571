"""Measuring and publishing tokenizers: ``evaluate``, ``card`` and ``push``."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_sgpe.cli.app import TOKENIZER_HELP, Table, app, print_table
from hf_sgpe.errors import SGPEError


@app.command(epilog="Example: [bold]hf-sgpe evaluate --tokenizer my-tokenizer --tokenizer llama3-hf si.txt en.txt[/bold]")
def evaluate(
    files: Annotated[list[str], typer.Argument(help="Held-out text, in the formats that train takes.", show_default=False)],
    tokenizer: Annotated[
        list[str], typer.Option("--tokenizer", "-t", help=f"{TOKENIZER_HELP} Repeatable.", show_default=False)
    ],
    output: Annotated[Table, typer.Option("--format", help="table or json.")] = Table.table,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
) -> None:
    """Measure tokenizers side by side: tokens per word, bytes per token, cut syllables and letters, and more as json.

    Parity compares a text with the English one, if a file's name says so (en.txt) and both have equally many lines.
    """
    from tqdm import tqdm

    from hub_cards.comparison import REFERENCE, TextFiles
    from hub_cards.languages import language_in_name
    from hub_cards.metrics import evaluate as measure
    from hub_cards.metrics import load_measurable
    from trainers import find_files

    paths = find_files(files)
    measured = {name: load_measurable(name) for name in tokenizer}
    found = {}
    with tqdm(total=len(paths) * len(measured), desc="Measuring", unit=" runs", disable=None, leave=False) as bar:
        for path in paths:
            for name, token_ends in measured.items():
                found[path, name] = measure(token_ends, TextFiles((path,), text_field))
                if not found[path, name].lines:
                    raise SGPEError(f"{path}: holds no text to measure")
                bar.update()
    english = [path for path in paths if language_in_name(path.name) == REFERENCE]
    results = []
    for (path, name), measures in found.items():
        parity = measures.parity(found[english[0], name]) if len(english) == 1 else None
        results.append({"file": str(path), "tokenizer": name, **measures.to_dict(), "parity": parity})
    if output is Table.json:
        print(json.dumps(results, ensure_ascii=False, indent=2))
    else:
        _print_results(results)


def _print_results(results: list[dict[str, Any]]) -> None:
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False)
    table.add_column("file")
    table.add_column("tokenizer")
    for title in ("tokens/word", "bytes/token", "cut syllables", "cut letters", "fallback", "parity"):
        table.add_column(title, justify="right")
    previous = ""
    files = {row["file"] for row in results}
    short = len({Path(file).name for file in files}) == len(files)
    for row in results:
        shown = Path(row["file"]).name if short else row["file"]
        table.add_row(
            shown if row["file"] != previous else "",
            row["tokenizer"],
            _number(row["tokens_per_word"], "{:.3f}"),
            _number(row["bytes_per_token"], "{:.3f}"),
            _number(row["cut_syllable_share"], "{:.3%}"),
            _number(row["cut_letter_share"], "{:.3%}"),
            _number(row["fallback_rate"], "{:.3%}"),
            _number(row["parity"], "{:.3f}"),
        )
        previous = row["file"]
    print_table(table)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


@app.command(
    epilog="Example: [bold]hf-sgpe card my-tokenizer --eval si.txt --eval en.txt --baseline llama3=llama3-hf[/bold]"
)
def card(
    tokenizer: Annotated[str, typer.Argument(help=TOKENIZER_HELP, show_default=False)],
    *,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--eval",
            help="Held-out text to measure on: LANGUAGE=FILE, or FILE if its name tells the language, as ntrex_si.txt does "
            "(repeatable). English, if it is among them, is what parity compares with: the same lines in each language.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Tokenizer to measure beside it: NAME=TOKENIZER (repeatable).", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="user/name, as the card's code loads it (default: the tokenizer's folder).", show_default=False),
    ] = None,
    license: Annotated[str | None, typer.Option(help="Licence, such as apache-2.0.", show_default=False)] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            help="Language it is for, such as si (repeatable; default: those measured that do not fall back to bytes).",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Dataset it was trained on (repeatable).", show_default=False)
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder to write to (default: the tokenizer's).", show_default=False)
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite a README.md that somebody wrote or changed.")
    ] = False,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
) -> None:
    """Write the tokenizer's card: README.md, the same as one page, index.html, and pictures."""
    from hf_sgpe.hub import check_name, split_name
    from hf_sgpe.model import BPETokenizer
    from hub_cards.comparison import compare, texts_of
    from hub_cards.model_card import check_card, check_metadata, write_card
    from hub_cards.plots import check_matplotlib

    if out is None and not Path(tokenizer).is_dir():
        raise SGPEError(f"{tokenizer}: no folder to write a card to: give one by --out")
    if baseline and not text:
        raise SGPEError("--baseline needs text to measure on: give --eval")
    folder = out or tokenizer
    loaded = BPETokenizer.from_pretrained(tokenizer)
    if name is None:
        path = Path(tokenizer).resolve()
        name = split_name(tokenizer)[0] if not path.exists() else path.name if path.is_dir() else path.parent.name
    else:
        check_name(name)
    # What cannot be written should be known before minutes of measuring, not after.
    check_card(folder, loaded, measured=bool(text), replace=replace)
    check_metadata(license, language or ())
    evaluations = None
    if text:
        check_matplotlib()
        texts = texts_of(text, text_field=text_field)
        evaluations = compare(loaded, texts, name=name.rpartition("/")[2], baselines=_baselines(baseline or []))
    written = write_card(
        folder,
        loaded,
        name=name,
        evaluations=evaluations,
        license=license,
        languages=language or (),
        datasets=dataset or (),
        replace=replace,
    )
    print(f"{folder}: {', '.join(written)}")


def _baselines(given: list[str]) -> dict[str, Any]:
    """The tokenizers of options such as ``--baseline llama3=llama3-hf``."""
    from hub_cards.metrics import load

    found: dict[str, Any] = {}
    for text in given:
        name, _, tokenizer = text.partition("=")
        if not name or not tokenizer:
            raise SGPEError(f"--baseline {text!r}: write NAME=TOKENIZER")
        if name in found:
            raise SGPEError(f"--baseline {text!r}: {name!r} is another one already")
        found[name] = load(tokenizer)
    return found


@app.command(epilog="Example: [bold]hf-sgpe push my-tokenizer user/name --dry-run[/bold]")
def push(
    folder: Annotated[str, typer.Argument(help="Folder with a tokenizer, and its card if it has one.", show_default=False)],
    repository: Annotated[str, typer.Argument(help="user/name; created if need be.", show_default=False)],
    *,
    private: Annotated[bool, typer.Option("--private", help="Make the repository private, if it is created here.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch; a new one starts where main is (default: main).", show_default=False)
    ] = None,
    pull_request: Annotated[bool, typer.Option("--pull-request", help="Propose it as a pull request.")] = False,
    token: Annotated[
        str | None,
        typer.Option(
            help="Token with write access. Others can see it in the list of processes and your history: "
            "better to log in once by 'hf auth login', or to set HF_TOKEN.",
            show_default=False,
        ),
    ] = None,
    message: Annotated[str, typer.Option("--message", "-m", help="Message of the commit.")] = "Upload tokenizer",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only look at what is there and show what would go; nothing is sent.")
    ] = False,
    replace_card: Annotated[
        bool, typer.Option("--replace-card", help="Let a generated card replace a README.md that somebody wrote or changed.")
    ] = False,
) -> None:
    """Upload a tokenizer with its card and pictures to the Hugging Face Hub, in one commit."""
    import warnings

    from hub_cards.push import push as upload

    with warnings.catch_warnings(record=True) as remarks:
        pushed = upload(
            folder,
            repository,
            private=private or None,
            revision=revision,
            create_pr=pull_request,
            token=token,
            commit_message=message,
            replace_card=replace_card,
            dry_run=dry_run,
        )
    for remark in remarks:
        logging.warning(" ".join(str(remark.message).split()))
    width = max(len(file.path) for file in pushed.files)
    for file in pushed.files:
        large = ", as a large file (LFS)" if file.large else ""
        kept = ": the one on the Hub was written or changed by somebody, or measured; --replace-card puts this there"
        change = file.change + kept if file.change == "kept" else file.change
        print(f"{file.path:{width}}  {file.size / 1000:10,.1f} kB  {change}{large}")
    if pushed.left_out:
        print(f"left out: {', '.join(pushed.left_out)}")
    changed = sum(file.change in ("new", "changed") for file in pushed.files)
    if dry_run:
        # One that is private looks like none to whoever may not see it.
        done = (
            "nothing was sent; you see no such repository, so it would be created" if pushed.created else "nothing was sent"
        )
    elif pushed.created:
        done = "created and pushed"
    else:
        done = "pushed" if changed else "the branch was created; nothing else has changed"
        if not changed and not pushed.new_branch:
            done = "nothing has changed"
    print(f"{pushed.url}: {done}")
