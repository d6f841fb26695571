"""Measuring, showing and publishing tokenizers: ``evaluate``, ``card``, ``playground`` and ``push``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hf_sgpe.cli.application import (
    TOKENIZER_HELP,
    Baseline,
    Json,
    OlderTokenizers,
    Quiet,
    Tokenizer,
    command,
    named_tokenizers,
    print_json,
    print_table,
    report,
    tokenizer_and_rest,
)
from hf_sgpe.errors import SGPEError

if TYPE_CHECKING:
    from hf_sgpe.corpora.held_out import HeldOut
    from hub_cards.publishing.push import Pushed


@command(epilog="Example: hf-sgpe evaluate my-tokenizer si.txt en.txt --baseline llama3=llama3-hf")
def evaluate(
    tokenizer: Tokenizer = None,
    files: Annotated[
        list[str] | None, typer.Argument(help="Held-out text, in the formats that train takes.", show_default=False)
    ] = None,
    *,
    older: OlderTokenizers = None,
    baseline: Baseline = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Causal model, folder or Hub repository, to measure bits per byte of: MODEL with the tokenizer, or "
            "NAME=MODEL with the one that is called so (repeatable).",
            show_default=False,
        ),
    ] = None,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure tokenizers side by side: tokens per word, bytes per token, cut syllables, letters, clusters; more as JSON.

    A cluster is what a reader sees as one character, in any script. Where words have no spaces between them, tokens are
    counted per character. Parity compares a text with the English one, if a file's name says so (en.txt) and both have
    equally many lines. Bits per byte by --model can be compared between models with different tokenizers; each token of a
    text is predicted once. All of it is measured after NFC, tokens line by line, without line ends, and bits per byte on
    whole texts.
    """
    from tqdm import tqdm

    from hf_sgpe.corpora.held_out import HeldOut
    from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
    from hf_sgpe.evaluation.comparison import REFERENCE
    from hf_sgpe.evaluation.languages import language_in_name
    from hf_sgpe.evaluation.metrics import evaluate as measure, load_measurable
    from hf_sgpe.terminal.progress import somebody_watches

    first, corpus, others = tokenizer_and_rest(tokenizer, files, older)
    if not corpus:
        raise SGPEError("name the tokenizer and then the text to measure it on: see --help")
    held_out = HeldOut.of(corpus, text_field=text_field)
    warn_of_zawgyi(held_out)
    texts = {file: replace(held_out, files=(file,)) for file in held_out.files}
    names = named_tokenizers((first, *others), baseline)
    models = _models_of(names, first, model)
    measured = {name: load_measurable(source) for name, source in names.items()}
    evaluations = {}
    runs = len(texts) * len(measured)
    with tqdm(total=runs, desc="Measuring", unit=" runs", disable=not somebody_watches(), leave=False) as bar:
        for path, text in texts.items():
            for name, token_ends in measured.items():
                evaluations[path, name] = measure(token_ends, text)
                if not evaluations[path, name].lines:
                    raise SGPEError(f"{path}: holds no text to measure")
                bar.update()
    bits = _bits_per_byte(names, models, {str(path): text for path, text in texts.items()})
    english = [path for path in texts if language_in_name(path.name) == REFERENCE]
    results = []
    for (path, name), measures in evaluations.items():
        parity = measures.parity(evaluations[english[0], name]) if len(english) == 1 else None
        row = {"file": str(path), "tokenizer": name, **measures.to_dict(), "parity": parity}
        results.append(row | ({"model": models.get(name), "bits_per_byte": bits.get((str(path), name))} if models else {}))
    if as_json:
        print_json(results)
    else:
        _print_results(results)


def _models_of(names: Mapping[str, str], first: str, given: list[str] | None) -> dict[str, str]:
    """Name of a tokenizer → the model that is measured with it."""
    models: dict[str, str] = {}
    for text in given or ():
        name, equals, path = ("", "", "") if Path(text).exists() else text.partition("=")
        name, path = (name, path) if equals else (first, text)
        if name not in names:
            raise SGPEError(f"--model {text!r}: no tokenizer is called {name!r}: there are {', '.join(names)}")
        if name in models:
            raise SGPEError(f"--model {text!r}: {name} has a model already: write NAME=MODEL for another tokenizer")
        models[name] = path
    if models:
        from trainers.language_models.training_runs import require_pytorch

        require_pytorch(to_train=False)
    return models


def _bits_per_byte(
    names: Mapping[str, str], models: Mapping[str, str], held_out: Mapping[str, HeldOut]
) -> dict[tuple[str, str], float]:
    """File and name of a tokenizer → bits per byte of its model."""
    if not models:
        return {}
    from hf_sgpe.weights.model_loading import load_tokenizer
    from trainers.language_models.scoring import score_model

    texts = {file: text.texts() for file, text in held_out.items()}
    bits: dict[tuple[str, str], float] = {}
    for name, model in models.items():
        scores = score_model(model, load_tokenizer(names[name]), texts)
        bits |= {(file, name): score.bits_per_byte for file, score in scores.items()}
    return bits


def _print_results(results: list[dict[str, Any]]) -> None:
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False)
    table.add_column("file")
    table.add_column("tokenizer")
    with_models = "bits_per_byte" in results[0]
    columns = {
        "tokens_per_word": ("tokens/word", "{:.3f}"),
        "tokens_per_character": ("tokens/character", "{:.3f}"),
        "bytes_per_token": ("bytes/token", "{:.3f}"),
        "cut_syllable_share": ("cut syllables", "{:.3%}"),
        "cut_letter_share": ("cut letters", "{:.3%}"),
        "cut_cluster_share": ("cut clusters", "{:.3%}"),
        "fallback_rate": ("fallback", "{:.3%}"),
        "parity": ("parity", "{:.3f}"),
        "bits_per_byte": ("bits/byte", "{:.4f}"),
    }
    if not with_models:
        del columns["bits_per_byte"]
    if all(row["tokens_per_word"] is not None for row in results):  # no text without spaces between words
        del columns["tokens_per_character"]
    for title, _ in columns.values():
        table.add_column(title, justify="right")
    previous = ""
    files = {row["file"] for row in results}
    short = len({Path(file).name for file in files}) == len(files)
    for row in results:
        shown = Path(row["file"]).name if short else row["file"]
        table.add_row(
            shown if row["file"] != previous else "",
            row["tokenizer"],
            *(_number(row[measure], form) for measure, (_, form) in columns.items()),
        )
        previous = row["file"]
    print_table(table)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


@command(epilog="Example: hf-sgpe card my-tokenizer --eval si.txt --eval en.txt --baseline llama3=llama3-hf")
def card(
    tokenizer: Annotated[str, typer.Argument(help=TOKENIZER_HELP, show_default=False)],
    *,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--eval",
            help="Held-out text to measure on: FILE whose name tells the language, as ntrex_si.txt does, or NAME=FILE with "
            "a language such as si for NAME (repeatable). English, if it is among them, is what parity compares with: the "
            "same lines in each language.",
            show_default=False,
        ),
    ] = None,
    baseline: Baseline = None,
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
    base_model: Annotated[
        str | None,
        typer.Option(help="For a model: its base model, user/name (default: the one it was made from).", show_default=False),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Further tag on the Hub (repeatable).", show_default=False)] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder to write to (default: the tokenizer's).", show_default=False)
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "--replace", help="Replace a README.md or a page that somebody wrote or changed.")
    ] = False,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the card of a tokenizer: README.md, the same as one page, index.html, and pictures.

    In the folder of a model, write the model's card: README.md with base model, licence and languages, and with the
    measurements that hf-sgpe transplant --eval made.
    """
    from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
    from hf_sgpe.evaluation.comparison import compare, texts_of
    from hf_sgpe.evaluation.metrics import load
    from hf_sgpe.files.hub import check_name, split_name
    from hf_sgpe.tokenizer import BPETokenizer
    from hub_cards.cards.card_of_model import holds_model, write_model_card
    from hub_cards.cards.tokenizer_card import check_card, check_metadata, write_card

    if out is None and not Path(tokenizer).is_dir():
        raise SGPEError(f"{tokenizer}: no folder to write a card to: give one by --out")
    if baseline and not text:
        raise SGPEError("--baseline needs text to measure on: give --eval")
    folder = out or tokenizer
    known: dict[str, Any] = {
        "license": license,
        "languages": language or (),
        "datasets": dataset or (),
        "tags": tag or (),
        "replace": overwrite,
    }
    if holds_model(Path(folder)):
        if text:
            raise SGPEError(
                f"{folder}: holds a model, and --eval is for the card of a tokenizer: give --out for that card; "
                "hf-sgpe transplant --eval and hf-sgpe evaluate --model measure models"
            )
        written = write_model_card(folder, name=name, base_model=base_model, **known)
        report(f"{folder}: {', '.join(written)}", {"out": folder, "files": written}, as_json)
        return
    if base_model:
        raise SGPEError(f"--base-model is for the card of a model, and {folder} holds none")
    loaded = BPETokenizer.from_pretrained(tokenizer)
    if name is None:
        path = Path(tokenizer).resolve()
        name = split_name(tokenizer)[0] if not path.exists() else path.name if path.is_dir() else path.parent.name
    else:
        check_name(name)
    # What cannot be written should be known before minutes of measuring, not after.
    check_card(folder, loaded, measured=bool(text), replace=overwrite)
    check_metadata(license, language or ())
    evaluations = None
    if text:
        texts = texts_of(text, text_field=text_field)
        warn_of_zawgyi(*texts.values())
        baselines = {name: load(source) for name, source in named_tokenizers((), baseline).items()}
        evaluations = compare(loaded, texts, name=name.rpartition("/")[2], baselines=baselines)
    written = write_card(folder, loaded, name=name, evaluations=evaluations, **known)
    report(f"{folder}: {', '.join(written)}", {"out": folder, "files": written}, as_json)


@command(epilog="Example: hf-sgpe playground my-tokenizer --baseline llama3=llama3-hf --out site")
def playground(
    tokenizer: Annotated[str, typer.Argument(help=TOKENIZER_HELP, show_default=False)],
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write to.", show_default=False)],
    baseline: Baseline = None,
    name: Annotated[
        str | None,
        typer.Option(help="What the page calls it (default: the name of its folder or repository).", show_default=False),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Tokens as you type",
    text: Annotated[
        str | None,
        typer.Option(help="Text that stands there at first (default: a few words in its script).", show_default=False),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a page where one types and sees the tokens of several tokenizers side by side, in any browser.

    It is a folder of files that ask nothing of others: any web server can serve it, and so can a Space of the Hub. To look
    at it: python -m http.server --directory site, and then http://localhost:8000 in a browser.
    """
    from hub_cards.playground.playground import write_playground

    given = named_tokenizers([tokenizer], baseline)
    # Nobody else should see where the files lie.
    names = [
        Path(known).resolve().name if known == source and Path(source).exists() else known for known, source in given.items()
    ]
    names[0] = name or names[0]
    if len(set(names)) < len(names):
        raise SGPEError("two tokenizers would have one name on the page: name them by --name and --baseline NAME=TOKENIZER")
    tokenizers = dict(zip(names, given.values(), strict=True))
    written = write_playground(out, tokenizers, title=title, text=text)
    report(f"{out}: {', '.join(written)}", {"out": out, "files": written}, as_json)


@command(epilog="Example: hf-sgpe push my-tokenizer user/name --dry-run")
def push(
    folder: Annotated[
        str, typer.Argument(help="Folder with a tokenizer, or a model and its tokenizer.", show_default=False)
    ],
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
    message: Annotated[
        str | None,
        typer.Option(
            "--message", "-m", help="Message of the commit (default: one that names what is uploaded).", show_default=False
        ),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(
            "--playground",
            help="Folder that hf-sgpe playground wrote: it goes along, as a static Space of the same name (branch main).",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only look at what is there and show what would go; nothing is sent.")
    ] = False,
    replace_card: Annotated[
        bool, typer.Option("--replace-card", help="Let a generated card replace a README.md that somebody wrote or changed.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Upload a tokenizer, or a model with its tokenizer, to the Hugging Face Hub: with card and pictures, in one commit."""
    import warnings
    from shlex import quote

    from hub_cards.cards.card_of_model import missing_metadata
    from hub_cards.markup import listed
    from hub_cards.playground.playground import playground_files, push_playground
    from hub_cards.publishing.push import push as upload

    files = playground_files(space) if space else []  # a folder without one should be known before anything is sent
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
    if missing := missing_metadata(Path(folder)):
        logging.warning(
            f"the model's card has no {listed(missing)}: hf-sgpe card {quote(folder)} --help shows how to add it"
        )
    changed = sum(file.change in ("new", "changed") for file in pushed.files)
    if pushed.unreachable:
        done = f"nothing was sent, and what is there could not be looked at ({pushed.unreachable})"
    elif dry_run:
        # A private repository looks like a missing one without the right to see it.
        done = (
            "nothing was sent; you see no such repository, so it would be created" if pushed.created else "nothing was sent"
        )
    elif pushed.created:
        done = "created and pushed"
    else:
        done = "pushed" if changed else "the branch was created; nothing else has changed"
        if not changed and not pushed.new_branch:
            done = "nothing has changed"
    lines = [*_lines(pushed), f"{pushed.url}: {done}"]
    if space:
        shown = f"Space {pushed.repo_id}"
        if not dry_run:
            shown = push_playground(space, pushed.repo_id, private=private or None, token=token)
        lines.append(f"{shown}: {'nothing was sent of ' if dry_run else 'pushed '}{len(files)} files of {space}")
    report(
        "\n".join(lines),
        {
            "url": pushed.url,
            "done": done,
            "files": [{"path": file.path, "bytes": file.size, "change": file.change} for file in pushed.files],
            "left_out": pushed.left_out,
            "playground": shown if space else None,
        },
        as_json,
        is_asked_for=dry_run,
    )


def _lines(pushed: Pushed) -> Iterator[str]:
    """What became of each file, for people."""
    width = max(len(file.path) for file in pushed.files)
    for file in pushed.files:
        large = ", as a large file (LFS)" if file.large else ""
        kept = ": the one on the Hub was written or changed by somebody, or measured; --replace-card puts this there"
        change = file.change + kept if file.change == "kept" else file.change
        yield f"{file.path:{width}}  {file.size / 1000:10,.1f} kB  {change}{large}"
    if pushed.left_out:
        yield f"left out: {', '.join(pushed.left_out)}"
