"""``encode``: encode text to token ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.input_lines import stdin_lines, well_formed
from hf_sgpe.cli.tokenizer_options import TokenizerFirst, baseline_option, named_tokenizers, overwrite_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import why_not_text
from hf_sgpe.terminal.options import arguments, option
from hf_sgpe.terminal.printing import report


@dataclass(frozen=True, kw_only=True)
class _EncodeOptions(TokenizerFirst):
    text: list[str] = arguments("Texts (default: read lines from stdin).")
    older_text: str | None = option("", None, "--text", hidden=True)
    file: Path | None = option("Encode this UTF-8 file as one text.")
    show_tokens: bool = option("Also print the text of the tokens, on the line below the ids.", False)
    html: Path | None = option(
        "HTML file to write instead of printing ids. The page shows the tokens and syllables. Standard input is read as "
        "one text."
    )
    overwrite: bool = overwrite_option()
    baseline: list[str] = baseline_option()
    special: str = option(
        "How to encode special tokens that are written in the text: as ordinary text (none), or as special tokens (all).",
        "none",
        choices=("none", "all"),
        metavar="none|all",
    )
    add_special_tokens: bool = option("Add the tokenizer's special tokens, such as BOS, around each text.", False)


@command(epilog="Example: echo 'ශ්‍රී ලංකාව' | hf-sgpe encode my-tokenizer")
def encode(given: _EncodeOptions, as_json: Json = False) -> None:
    """Encode text to token ids. For each line of text, print a line of ids or, with --json, a line with the text, the ids
    and the tokens.

    With --html, --baseline adds the tokens of other tokenizers to the page.
    """
    from hf_sgpe.files.overwriting import check_new_file

    name, texts, further = given.tokenizer_and_rest(given.text)
    texts = [*texts, *([] if given.older_text is None else [given.older_text])]
    if given.file and (texts or given.html):
        raise SGPEError("--file cannot be combined with texts or with --html: leave out the texts and --html")
    if given.html:
        if given.special != "none" or given.add_special_tokens:
            raise SGPEError("--html shows only the tokens of the text: leave out --special and --add-special-tokens")
        check_new_file(given.html, overwrite=given.overwrite)
        _write_page(given.html, texts, named_tokenizers((name, *further), given.baseline), as_json)
        return
    if further or given.baseline:
        raise SGPEError("several tokenizers can be shown only with --html: add --html FILE, or name one tokenizer")
    encode_line, text_of = _functions_of(name, given)
    lines: Iterable[str] = [_text_of(given.file)] if given.file else well_formed(texts) or stdin_lines()
    for line in lines:
        ids = encode_line(line)
        tokens = list(map(text_of, ids)) if as_json or given.show_tokens else []
        if as_json:
            print(json.dumps({"text": line, "ids": ids, "tokens": tokens}, ensure_ascii=False))
        else:
            print(*ids)
            if given.show_tokens:
                print(json.dumps(tokens, ensure_ascii=False))


def _functions_of(name: str, given: _EncodeOptions) -> tuple[Callable[[str], list[int]], Callable[[int], str]]:
    """Return the function that encodes a line, and the function that returns the text of a token."""
    from hf_sgpe.evaluation.measurable import tokenizer_in
    from hf_sgpe.tokenizer import BPETokenizer

    loaded, add = tokenizer_in(name), given.add_special_tokens
    if not isinstance(loaded, BPETokenizer):
        return partial(loaded.encode, with_special=given.special == "all", add_special_tokens=add), loaded.text_of
    encode_line = partial(loaded.encode, allowed_special=given.special, add_special_tokens=add)
    return encode_line, lambda id: loaded.token_bytes(id).decode(errors="replace")


def _text_of(file: Path) -> str:
    """Read a UTF-8 file without changing its line ends."""
    content = file.read_bytes()
    if reason := why_not_text(content):
        raise SGPEError(f"{file}: {reason}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SGPEError(f"{file} is not UTF-8 at byte offset {error.start}") from None


def _write_page(path: Path, texts: list[str], tokenizers: dict[str, str], as_json: bool) -> None:
    from hf_sgpe.files.atomic import atomic_file
    from hub_cards.token_views.token_view import TokenView

    with atomic_file(path) as temporary:
        view = TokenView(well_formed(texts) if texts else "\n".join(stdin_lines()), tokenizers)
        temporary.write_text(view.to_html(), encoding="utf-8", newline="\n")
    count = len(view.texts)
    report(
        f"{path}: {count:,} {'text' if count == 1 else 'texts'} as tokens of {', '.join(tokenizers)}",
        {"out": str(path), "texts": count, "tokenizers": list(tokenizers)},
        as_json,
    )
