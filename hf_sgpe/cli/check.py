"""``check``: find the runtimes that produce the same ids as a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, text_field_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, arguments
from hf_sgpe.terminal.printing import print_json, print_table

_LINES = 20  # of a paragraph


@dataclass(frozen=True, kw_only=True)
class _CheckOptions:
    tokenizer: str = argument(TOKENIZER_HELP)
    text: list[str] = arguments(
        "Files of text to test on, line by line, and in paragraphs of 20 lines (default: sample lines in all scripts)."
    )
    text_field: str = text_field_option()


@command(epilog="Example: hf-sgpe check my-tokenizer held-out.txt")
def check(given: _CheckOptions, as_json: Json = False) -> None:
    """Show which runtimes produce the same ids as a tokenizer. Installed runtimes are tested: transformers on the given
    folder, other runtimes on the tokenizer as this package saves it. For other runtimes, the known result is shown.
    """
    from hf_sgpe.corpora.text_files import read_lines
    from hf_sgpe.evaluation.auto_tokenizer import folder_for_auto_tokenizer
    from hf_sgpe.evaluation.runtimes import check_runtimes
    from hf_sgpe.tokenizer import BPETokenizer
    from trainers import find_files

    loaded = BPETokenizer.from_pretrained(given.tokenizer)
    lines = [line for file in find_files(given.text) for line in read_lines(file, text_field=given.text_field)]
    if given.text and not any(map(str.strip, lines)):
        raise SGPEError(f"{', '.join(given.text)}: no text to test on")
    paragraphs = ["\n".join(lines[start : start + _LINES]) for start in range(0, len(lines), _LINES)]
    texts = [*lines, *paragraphs] if given.text else None
    checks = list(check_runtimes(loaded, texts, saved=folder_for_auto_tokenizer(given.tokenizer)))
    if as_json:
        print_json([one.to_dict() for one in checks])
        return
    rows = []
    for one in checks:
        same = "–" if one.version is None else f"{one.same:,} of {one.lines:,}"
        rows.append((one.name, one.version or "–", str(one.verdict), same))
    print_table(("runtime", "version", "the same ids", "texts"), rows)
