"""``compare-ids``: which text has the same ids by two tokenizers."""

from __future__ import annotations

from dataclasses import dataclass

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import text_field_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument
from hf_sgpe.terminal.printing import print_json


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Two tokenizers and some text."""

    old: str = argument("A tokenizer: folder, tokenizer.json or Hub repository.")
    new: str = argument("Another, for example an extended one.")
    files: list[str] = argument("Text, in the formats that train takes.")
    text_field: str = text_field_option()


@command("compare-ids", epilog="Example: hf-sgpe compare-ids Qwen/Qwen3-0.6B-Base qwen-si en.txt de.txt")
def compare_ids(given: CompareOptions, as_json: Json = False) -> None:
    """Say which share of a text's lines has the same ids by two tokenizers, and show where the first other line differs."""
    from hf_sgpe.evaluation.metrics import load
    from hf_sgpe.evaluation.same_ids import compare_ids as compare
    from trainers import find_files, read_lines

    paths = find_files(given.files)
    tokenizers = load(given.old), load(given.new)
    results = {}
    for path in paths:
        # As they are: ids may differ in text that is not in NFC.
        lines = (line for line in read_lines(path, text_field=given.text_field) if line.strip())
        results[path] = compare(*tokenizers, lines)
        if not results[path].lines:
            raise SGPEError(f"{path}: holds no text to compare")
    if as_json:
        print_json([{"file": str(path), **result.to_dict()} for path, result in results.items()])
        return
    for path, result in results.items():
        share = f"{result.same:,} of {result.lines:,} lines have the same ids"
        print(f"{path}: {share} ({result.old_tokens:,} tokens by {given.old}, {result.new_tokens:,} by {given.new})")
        if difference := result.difference:
            print(f"  line {difference.line} is the first that differs, after {difference.place} tokens:")
            for name, tokens in ((given.old, difference.old), (given.new, difference.new)):
                print(f"    {name}: {' '.join(f'{text!r}={id}' for text, id in tokens)}")
