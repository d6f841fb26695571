"""The settings of `hf-sgpe adapt`, which adapts a base model to a language."""

from __future__ import annotations

from dataclasses import dataclass

from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.extension.extension_config import AUTO, parse_new_tokens
from hf_sgpe.terminal.options import SEVERAL, argument, arguments, option, option_list

STARTS = ("distil", "mean")
"""The methods that initialize the rows of new tokens."""

PARTS = ("all", "ends", "embeddings", "new-rows")
"""Choices for the parts of a model to train. ``all`` means the whole model, ``ends`` means the tables and the first and last
layer, ``embeddings`` means the tables, and ``new-rows`` means only the new rows.
"""

REPORT_TO_HELP = "Programs that get the measurements of the training, such as trackio or wandb."

# With a smaller budget, additional training is a better use of the minutes that distillation takes.
_LEAST_TO_DISTIL = 1_000_000
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """The settings for adapting a base model to a language. The defaults did best in the documentation's measurements."""

    base: str = argument("The model to adapt: a folder or a Hub repository, with its tokenizer.")
    corpus: list[str] = arguments(
        "Text in the new language: files, folders or globs of .txt, .jsonl or .parquet. For an encoder–decoder, a line may "
        "be a source, a tab and a target."
    )
    out: str = option("Folder to write to.", ..., "-o")
    script: list[str] = option_list("Scripts or languages to add, such as sinhala or si (default: the scripts of the text).")
    keep: list[str] = option_list(
        "Text in languages that the model knows. It is mixed into the training text, so that the model does not "
        "forget these languages.",
        metavar=SEVERAL,
    )
    keep_share: float | None = option("Share of training sequences that contain text of --keep (default: 0.2).")
    evaluate: list[str] = option_list(
        "Held-out text on which to measure: FILE or NAME=FILE (default: a hundredth of the corpus).",
        "--eval",
        metavar=SEVERAL,
    )
    eval_minutes: float = option(
        "Greatest time in minutes for each measurement. If it is not enough for the whole text, only the beginning of the "
        "text is measured. 0 means no limit.",
        1.0,
    )
    new_tokens: str = option(f"Number of tokens to add, or {AUTO}.", AUTO)
    runs_in: list[str] = option_list(
        "Runtimes that must produce the same ids, such as llama.cpp. As a result, text may need more tokens."
    )
    budget: str = option("Number of tokens to train on, such as 10M.", "10M")
    init: str | None = option(
        "How to initialize the row of a new token: distil, or mean to average the rows of the old tokens in its text "
        "(default: distil, or mean if the budget is below 1M or the model is an encoder–decoder).",
        choices=STARTS,
    )
    parts: str = option("Parts of the model to train: " + ", ".join(PARTS) + ".", "ends", choices=PARTS)
    learning_rate: float = option("Peak of the learning rate.", 1e-4)
    rows_learning_rate: float = option("Peak of the learning rate for the rows of new tokens.", 1e-3)
    sweep: bool = option(
        "First train with a third of both learning rates, with the rates themselves and with three times the rates, on a "
        "twentieth of the budget (at least ten steps) each. Then train with the rates that did best on the held-out text.",
        False,
    )
    length: int = option("Number of tokens in each training sequence. This is the context length of training.", 512)
    batch_size: int = option("Training sequences per step.", 16)
    lines: bool = option("Treat each line of a text file as a separate text. Otherwise, the whole file is one text.", False)
    text_field: str = option("Field (.jsonl) or column (.parquet) that contains the text.", "text")
    source_language: str | None = option(
        "Language code of the sources, for a model such as NLLB: eng_Latn. For single texts, the code of the texts."
    )
    target_language: str | None = option(
        "Language code of the targets or of single texts, for a model such as NLLB: sin_Sinh."
    )
    report_to: list[str] = option_list(REPORT_TO_HELP, metavar="NAME...")
    seed: int = option("Seed of the random order of texts.", 1)
    resume: bool = option(
        "Continue an interrupted run in --out. After a training that diverged, give a lower learning rate.", False
    )

    @property
    def steps(self) -> int:
        """The number of training steps that the budget allows."""
        tokens, least = self._tokens, self.batch_size * self.length
        if tokens < least:
            raise SGPEError(f"--budget {self.budget}: give at least {least:,}, the number of tokens in one step")
        return tokens // least

    @property
    def _tokens(self) -> int:
        text = self.budget.strip().lower()
        number, unit = (text[:-1], text[-1]) if text[-1:] in ("k", "m", "b") else (text, "")
        try:
            return round(float(number) * _UNITS[unit])
        except (ValueError, OverflowError):
            raise SGPEError(f"--budget {self.budget}: give a number of tokens, such as 500k, 10M or 1B") from None

    @property
    def start(self) -> str:
        """The method that initializes the rows of new tokens: ``distil`` or ``mean``."""
        return self.init or ("distil" if self._tokens >= _LEAST_TO_DISTIL else "mean")

    def check(self) -> None:
        """Check the options before any file is read."""
        if not self.corpus:
            raise SGPEError("nothing to learn from: name files of text in the new language")
        if self.length < 2:
            raise SGPEError(f"--length must be at least 2 (a token and the next token), not {self.length}")
        if self.batch_size < 1:
            raise SGPEError(f"--batch-size must be at least 1, not {self.batch_size}")
        if not 0 <= self.seed < 2**32:
            raise SGPEError(f"--seed must be from 0 to {2**32 - 1:,}, not {self.seed}")
        parse_new_tokens(self.new_tokens)
        for name in ("learning_rate", "rows_learning_rate"):
            if not getattr(self, name) > 0:
                raise SGPEError(f"--{name.replace('_', '-')} must be above 0, not {getattr(self, name)}")
        if (self.source_language is None) != (self.target_language is None):
            raise SGPEError("give both --source-language and --target-language, or neither")
        if self.target_language and self.keep:
            raise SGPEError(
                "--keep has text in other languages, which --target-language would mark wrongly: leave out --keep"
            )
        _ = self.steps  # raises an error for a wrong budget
