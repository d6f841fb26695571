"""``playground``: write a web page that shows the tokens of typed text."""

from __future__ import annotations

from dataclasses import dataclass

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, baseline_option, named_tokenizers
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, option
from hf_sgpe.terminal.printing import report


@dataclass(frozen=True, kw_only=True)
class _PlaygroundOptions:
    tokenizer: str = argument(TOKENIZER_HELP)
    out: str = option("Folder to write the page to.", ..., "-o")
    baseline: list[str] = baseline_option()
    name: str | None = option("Name of the tokenizer on the page (default: the name of its folder or repository).")
    title: str = option("Title of the page.", "Tokens as you type")
    text: str | None = option("Initial text in the input field (default: a few words in the tokenizer's script).")


@command(epilog="Example: hf-sgpe playground my-tokenizer --baseline llama3=llama3-hf --out site")
def playground(given: _PlaygroundOptions, as_json: Json = False) -> None:
    """Write a web page that shows the tokens of typed text in several tokenizers side by side.

    The page is a folder of static files without external dependencies. Any web server or a static Space on the Hub can serve
    it. To try it, run python -m http.server --directory site and open http://localhost:8000 in a browser.
    """
    from hf_sgpe.files.hub import public_name
    from hub_cards.playground.playground_site import write_playground

    sources = named_tokenizers([given.tokenizer], given.baseline)
    names = [public_name(name) if name == source else name for name, source in sources.items()]
    names[0] = given.name or names[0]
    if len(set(names)) < len(names):
        raise SGPEError(
            "two tokenizers have the same name on the page: give them different names with --name and --baseline "
            "NAME=TOKENIZER"
        )
    tokenizers = dict(zip(names, sources.values(), strict=True))
    written = write_playground(given.out, tokenizers, title=given.title, text=given.text)
    report(f"{given.out}: {', '.join(written)}", {"out": given.out, "files": written}, as_json)
