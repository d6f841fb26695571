"""``playground``: a page where one types and sees tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, baseline_option, named_tokenizers
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, option
from hf_sgpe.terminal.printing import report


@dataclass(frozen=True, kw_only=True)
class PlaygroundOptions:
    """The tokenizers of a page, and what is written on it."""

    tokenizer: str = argument(TOKENIZER_HELP)
    out: str = option("Folder to write to.", ..., "-o")
    baseline: list[str] = baseline_option()
    name: str | None = option("What the page calls it (default: the name of its folder or repository).")
    title: str = option("Title of the page.", "Tokens as you type")
    text: str | None = option("Text that stands there at first (default: a few words in its script).")


@command(epilog="Example: hf-sgpe playground my-tokenizer --baseline llama3=llama3-hf --out site")
def playground(given: PlaygroundOptions, as_json: Json = False) -> None:
    """Write a page where one types and sees the tokens of several tokenizers side by side, in any browser.

    It is a folder of files that ask nothing of others: any web server can serve it, and so can a Space of the Hub. To look
    at it: python -m http.server --directory site, and then http://localhost:8000 in a browser.
    """
    from hub_cards.playground.playground_site import write_playground

    sources = named_tokenizers([given.tokenizer], given.baseline)
    # Nobody else should see where the files lie.
    names = [
        Path(known).resolve().name if known == source and Path(source).exists() else known
        for known, source in sources.items()
    ]
    names[0] = given.name or names[0]
    if len(set(names)) < len(names):
        raise SGPEError("two tokenizers would have one name on the page: name them by --name and --baseline NAME=TOKENIZER")
    tokenizers = dict(zip(names, sources.values(), strict=True))
    written = write_playground(given.out, tokenizers, title=given.title, text=given.text)
    report(f"{given.out}: {', '.join(written)}", {"out": given.out, "files": written}, as_json)
