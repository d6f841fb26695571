"""Letting models follow their tokenizers: ``transplant``."""

from __future__ import annotations

from typing import Annotated

import typer

from hf_sgpe.cli.app import Json, Quiet, command, report
from hf_sgpe.errors import SGPEError

_STARTS = ("mean", "weighted")


@command(epilog="Example: [bold]hf-sgpe transplant Qwen/Qwen3-0.6B-Base --tokenizer qwen-si --out qwen-si-model[/bold]")
def transplant(
    model: Annotated[str, typer.Argument(help="The model: folder or Hub repository.", show_default=False)],
    *,
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", "-t", help="The new tokenizer: folder or Hub repository.", show_default=False)
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write to.", show_default=False)],
    init: Annotated[
        str,
        typer.Option(
            help="Where a new token's row begins: mean of the rows of the pieces that the old tokenizer cuts it into, or "
            "weighted: later pieces count for more."
        ),
    ] = "mean",
    pad_to_multiple: Annotated[
        int, typer.Option(help="Add rows up to the next multiple of it, such as 64, which is faster on GPUs.")
    ] = 1,
    model_tokenizer: Annotated[
        str | None, typer.Option(help="The model's own tokenizer, if it does not lie beside it.", show_default=False)
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Give a model the rows that another tokenizer needs, such as one that was extended; all else stays bit for bit.

    The result is a folder with model and tokenizer that AutoModelForCausalLM and AutoTokenizer load. The model works at
    once, and should go on training on text in the new language.
    """
    from trainers.training_runs import require_pytorch

    if init not in _STARTS:
        raise SGPEError(f"--init {init}: known are {', '.join(_STARTS)}")
    require_pytorch()
    from trainers.row_starts import by_position
    from trainers.transplant import transplant as write

    done = write(
        model,
        tokenizer,
        out,
        start=by_position if init == "weighted" else None,
        multiple=pad_to_multiple,
        model_tokenizer=model_tokenizer,
    )
    modules = ", ".join(map(repr, done.modules_to_save))
    report(
        f"{out}: {done.row_map}, {done.row_map.rows:,} rows in all, in {' and '.join(done.tables)}. "
        f"With LoRA, train and keep them by modules_to_save=[{modules}].",
        {
            "out": out,
            "init": init,
            "rows": done.row_map.rows,
            "rows_kept": len(done.row_map.kept),
            "new_rows": len(done.row_map.pieces),
            "tables": done.tables,
            "modules_to_save": done.modules_to_save,
        },
        as_json,
    )
