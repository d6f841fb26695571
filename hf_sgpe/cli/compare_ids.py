"""``compare-ids``: compare the ids that two tokenizers produce for a text."""

from __future__ import annotations

from dataclasses import dataclass

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.corpus_options import CORPUS_HELP
from hf_sgpe.cli.tokenizer_options import text_field_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument
from hf_sgpe.terminal.printing import print_json


@dataclass(frozen=True, kw_only=True)
class _CompareOptions:
    old: str = argument("The first tokenizer: a folder, a tokenizer.json or a Hub repository.")
    new: str = argument("The second tokenizer, such as an extension of the first.")
    files: list[str] = argument(CORPUS_HELP)
    text_field: str = text_field_option()


@command("compare-ids", epilog="Example: hf-sgpe compare-ids Qwen/Qwen3-0.6B-Base qwen-si en.txt de.txt")
def compare_ids(given: _CompareOptions, as_json: Json = False) -> None:
    """Count the lines for which two tokenizers produce the same ids, and show the first difference."""
    from hf_sgpe.evaluation.measurable import load
    from hf_sgpe.evaluation.same_ids import compare_ids as compare
    from trainers import find_files, read_lines

    paths = find_files(given.files)
    tokenizers = load(given.old), load(given.new)
    results = {}
    for path in paths:
        # Not normalized: the ids of text outside NFC may differ.
        lines = (line for line in read_lines(path, text_field=given.text_field) if line.strip())
        results[path] = compare(*tokenizers, lines)
        if not results[path].lines:
            raise SGPEError(f"{path} has no text to compare")
    if as_json:
        print_json([{"file": str(path), **result.to_dict()} for path, result in results.items()])
        return
    for path, result in results.items():
        share = f"{result.same:,} of {result.lines:,} lines have the same ids"
        print(f"{path}: {share} ({result.old_tokens:,} tokens with {given.old}, {result.new_tokens:,} with {given.new})")
        if difference := result.difference:
            print(f"  line {difference.line} is the first with different ids, after {difference.place} equal tokens:")
            for name, tokens in ((given.old, difference.old), (given.new, difference.new)):
                print(f"    {name}: {' '.join(f'{text!r}={id}' for text, id in tokens)}")
