"""The tokenizers that a command is about, and options that several commands have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, option, option_list

TOKENIZER_HELP = "Folder, tokenizer.json or Hub repository."

overwrite_option = partial(option, "Replace a tokenizer, a model or files of these names that are in --out already.", False)
text_field_option = partial(option, "Field with the text in .jsonl and .parquet.", "text")
baseline_option = partial(option_list, "Another tokenizer beside it: TOKENIZER or NAME=TOKENIZER (repeatable).")


@dataclass(frozen=True, kw_only=True)
class TokenizerFirst:
    """The arguments of a command whose first one names the tokenizer; in earlier versions ``--tokenizer`` did."""

    tokenizer: str | None = argument(TOKENIZER_HELP, None)
    older: list[str] = option_list("", "--tokenizer", "-t", hidden=True)

    def tokenizer_and_rest(self, rest: list[str]) -> tuple[str, list[str], list[str]]:
        """Return the tokenizer, the rest of the arguments, and further tokenizers.

        Args:
            rest: The arguments after the first.
        """
        if self.older:
            return self.older[0], rest if self.tokenizer is None else [self.tokenizer, *rest], self.older[1:]
        if self.tokenizer is None:
            raise SGPEError("name the tokenizer first: a folder, a tokenizer.json or a Hub repository: see --help")
        return self.tokenizer, rest, []


def named_tokenizers(first: Iterable[str], given: Iterable[str]) -> dict[str, str]:
    """Return name → tokenizer: the first ones, called as they are written, and those of ``--baseline llama3=llama3-hf``.

    Raises:
        SGPEError: a part is empty, or a name comes twice.
    """
    tokenizers = {name: name for name in first}
    for text in given:
        # A path may have an equals sign, too.
        name, equals, tokenizer = (text, "", "") if Path(text).exists() else text.partition("=")
        if not name or (equals and not tokenizer):
            raise SGPEError(f"--baseline {text!r}: write TOKENIZER or NAME=TOKENIZER")
        if name in tokenizers:
            raise SGPEError(f"--baseline {text!r}: two tokenizers are called {name}: write NAME=TOKENIZER with another name")
        tokenizers[name] = tokenizer or name
    return tokenizers
