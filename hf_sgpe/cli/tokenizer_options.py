"""The tokenizer arguments of commands, and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, option, option_list

TOKENIZER_HELP = "The tokenizer: a folder, a tokenizer.json or a Hub repository."

overwrite_option = partial(option, "Replace existing output: a tokenizer, a model or files of the same names.", False)
text_field_option = partial(option, "Field (.jsonl) or column (.parquet) that contains the text.", "text")
eval_minutes_option = partial(
    option,
    "Greatest time in minutes to measure a model. If it is not enough for the whole text, only the beginning of the text is "
    "measured. 0 means no limit.",
    1.0,
    "--eval-minutes",
)
baseline_option = partial(option_list, "Another tokenizer to compare with: TOKENIZER or NAME=TOKENIZER (repeatable).")


@dataclass(frozen=True, kw_only=True)
class TokenizerFirst:
    """A command whose first argument is the tokenizer. The tutorial writes it as the option ``--tokenizer``."""

    tokenizer: str | None = argument(TOKENIZER_HELP, None)
    tokenizers: list[str] = option_list("", "--tokenizer", "-t", hidden=True)

    def tokenizer_and_rest(self, rest: list[str]) -> tuple[str, list[str], list[str]]:
        """Return the first tokenizer, the other arguments, and further tokenizers that were given with ``--tokenizer``."""
        if self.tokenizers:
            return self.tokenizers[0], rest if self.tokenizer is None else [self.tokenizer, *rest], self.tokenizers[1:]
        if self.tokenizer is None:
            raise SGPEError("the first argument must be a tokenizer: name a folder, a tokenizer.json or a Hub repository")
        return self.tokenizer, rest, []


def named_tokenizers(first: Iterable[str], given: Iterable[str]) -> dict[str, str]:
    """Return the tokenizers ``first``, named by their paths, and the values of ``--baseline``, such as ``llama3=llama3-hf``,
    keyed by name.
    """
    tokenizers = {name: name for name in first}
    for text in given:
        # A path may contain an equals sign.
        name, equals, tokenizer = (text, "", "") if Path(text).exists() else text.partition("=")
        if not name or (equals and not tokenizer):
            raise SGPEError(f"--baseline {text!r}: write TOKENIZER or NAME=TOKENIZER")
        if name in tokenizers:
            raise SGPEError(f"--baseline {text!r}: two tokenizers are called {name}: write NAME=TOKENIZER with another name")
        tokenizers[name] = tokenizer or name
    return tokenizers
