"""The options of ``evaluate``, for its two kinds of report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hf_sgpe.cli.tokenizer_options import (
    TokenizerFirst,
    baseline_option,
    eval_minutes_option,
    overwrite_option,
    text_field_option,
)
from hf_sgpe.terminal.options import arguments, option, option_list


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(TokenizerFirst):
    """Options of ``hf-sgpe evaluate``."""

    files: list[str] = arguments("Held-out text: files, folders or globs of .txt, .jsonl or .parquet.")
    baseline: list[str] = baseline_option()
    model: list[str] = option_list(
        "Language model to measure in bits per byte (repeatable): a folder or a Hub repository. Write MODEL "
        "for the model of the first tokenizer, and NAME=MODEL for the model of --baseline NAME=TOKENIZER."
    )
    vocabulary: bool = option(
        "Instead, measure the health of one tokenizer's vocabulary on text or word counts. The result shows used, "
        "unused and unreachable tokens by script, and nearly equal tokens. For an extended tokenizer, it also shows "
        "how many tokens the first new tokens save. With --model, it also shows rows that look untrained.",
        False,
    )
    picture: Path | None = option("With --vocabulary: SVG file to write a picture to.")
    overwrite: bool = overwrite_option()
    eval_minutes: float = eval_minutes_option()
    text_field: str = text_field_option()
