"""Letting models follow their tokenizers: ``transplant``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hf_sgpe.cli.application import Json, Quiet, command, print_table, report
from hf_sgpe.cli.shared_options import Overwrite
from hf_sgpe.errors import SGPEError

if TYPE_CHECKING:
    from trainers.model_rows.transplanting import Transplant

_STARTS = ("mean", "weighted", "omp", "distil")


@command(epilog="Example: hf-sgpe transplant Qwen/Qwen3-0.6B-Base --tokenizer qwen-si --out qwen-si-model")
def transplant(
    model: Annotated[str, typer.Argument(help="The model: folder or Hub repository.", show_default=False)],
    *,
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", "-t", help="The new tokenizer: folder or Hub repository.", show_default=False)
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write to, new or empty.", show_default=False)],
    overwrite: Overwrite = False,
    init: Annotated[
        str,
        typer.Option(
            help="Where a new token's row begins: mean of the rows of the pieces that the old tokenizer cuts it into; "
            "weighted: later pieces count for more; omp: a sum of rows as in --donor, a model that knows the language; "
            "distil: learned from --text, so that the model's states after a token are those after its pieces."
        ),
    ] = "mean",
    donor: Annotated[
        str | None,
        typer.Option(help="For --init omp: a model with its tokenizer, folder or Hub.", show_default=False),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="For --init distil: text in the new language (repeatable).", show_default=False),
    ] = None,
    distil_steps: Annotated[
        int | None,
        typer.Option(help="For --init distil: steps of eight pieces of text (default: 300).", show_default=False),
    ] = None,
    pad_to_multiple: Annotated[
        int, typer.Option(help="Add rows up to the next multiple of it, such as 64, which is faster on GPUs; at most 4096.")
    ] = 1,
    model_tokenizer: Annotated[
        str | None, typer.Option(help="The model's own tokenizer, if it does not lie beside it.", show_default=False)
    ] = None,
    evaluate: Annotated[
        list[str] | None,
        typer.Option(
            "--eval",
            help="Held-out text to measure both models on: FILE or NAME=FILE, folder or glob (repeatable).",
            show_default=False,
        ),
    ] = None,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Give a model the rows that another tokenizer needs, such as one that was extended; all else stays bit for bit.

    The result is a folder with model, tokenizer and a card, which transformers loads as it loads the old one. The model
    runs at once, and should go on training on text in the new language: with few new tokens it is worse until then.
    """
    from trainers.language_models.training_runs import require_pytorch

    if init not in _STARTS:
        raise SGPEError(f"--init {init}: known are {', '.join(_STARTS)}")
    for name, given, needed in (("--donor", donor, "omp"), ("--text", text, "distil")):
        if (init == needed) != bool(given):
            raise SGPEError(
                f"--init {init}: " + (f"give {name}, too" if init == needed else f"{name} is for --init {needed}")
            )
    if distil_steps is not None and init != "distil":
        raise SGPEError(f"--init {init}: --distil-steps is for --init distil")
    if distil_steps is not None and distil_steps < 1:
        raise SGPEError(f"--distil-steps must be at least 1, not {distil_steps}")
    require_pytorch(to_train=False)
    from hf_sgpe.corpora.held_out import read_held_out
    from hf_sgpe.weights.model_loading import load_tokenizer
    from hub_cards.cards.transplant_card import measure, report_files, report_on
    from trainers.model_rows.token_tables import MOST_MULTIPLE
    from trainers.model_rows.transplanting import check_is_new, transplant as write

    # Before models are measured, which takes longest.
    check_is_new(out, model, tokenizer, overwrite=overwrite)
    if not 1 <= pad_to_multiple <= MOST_MULTIPLE:
        raise SGPEError(f"--pad-to-multiple must be from 1 to {MOST_MULTIPLE:,}, not {pad_to_multiple:,}")
    held_out = read_held_out(evaluate or (), text_field=text_field)
    before = measure(model, load_tokenizer(model_tokenizer or model), held_out) if held_out else {}
    described: dict[str, Any] = {}

    def describe(done: Transplant) -> dict[str, str]:
        after = measure(str(done.out), done.tokenizer, held_out, watched=done.row_map.new)
        described.update(report_on(model, tokenizer, init, done, before, after))
        return report_files(described, Path(out), done.auto_class, tokenizer)

    done = write(
        model,
        tokenizer,
        out,
        overwrite=overwrite,
        multiple=pad_to_multiple,
        model_tokenizer=model_tokenizer,
        describe=describe,
        **_how(init, model, tokenizer, model_tokenizer or model, donor, text or [], text_field, distil_steps or 300),
    )
    lora = f" With LoRA, train and keep them by {done.lora}." if done.row_map.new else ""
    report(
        f"{out}: {done.row_map}, {done.row_map.rows:,} rows in all, in {' and '.join(done.tables)}.{lora}",
        {"out": out, **described},
        as_json,
    )
    if held_out and not as_json:
        _print_scores(described)


def _how(
    init: str,
    model: str,
    tokenizer: str,
    model_tokenizer: str,
    donor: str | None,
    text: list[str],
    text_field: str,
    steps: int,
) -> dict[str, Callable[..., Any]]:
    """The ways to make rows that `trainers.model_rows.transplanting.transplant` takes."""
    from hf_sgpe.weights.model_loading import load_tokenizer
    from trainers import Corpus
    from trainers.model_rows.row_starts import by_position, by_pursuit

    if init == "weighted":
        return {"start": by_position}
    if init == "omp" and donor:
        from trainers.model_rows.transplanting import embedding_of

        tokenizers = load_tokenizer(tokenizer), load_tokenizer(donor)
        return {"start": partial(by_pursuit, tokenizer=tokenizers[0], donor=tokenizers[1], donor_rows=embedding_of(donor))}
    if init == "distil":
        from trainers.model_rows.distillation import distilled_rows

        lines = [line for line in Corpus.of(text, text_field=text_field).read_lines() if line.strip()]
        if not lines:
            raise SGPEError(f"--text {', '.join(text)}: holds no text")
        names = {"model": model, "tokenizer": load_tokenizer(tokenizer), "old": load_tokenizer(model_tokenizer)}
        return {"start": by_position, "learn": partial(distilled_rows, **names, texts=lines, steps=steps)}
    return {}


def _print_scores(described: dict[str, Any]) -> None:
    from rich.table import Table as RichTable

    from hub_cards.cards.card_of_model import table_of

    heading, *rows = table_of(described["texts"])
    table = RichTable(box=None, pad_edge=False)
    for number, title in enumerate(heading):
        table.add_column(title, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    print_table(table)
