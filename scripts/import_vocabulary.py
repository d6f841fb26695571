"""Turns a ``vocab.json`` and ``merges.txt`` of GPT-2's kind into a folder that every loader knows.

Example: python scripts/import_vocabulary.py llama3/vocab.json llama3/merges.txt llama3-hf --pattern llama3 --ignore-merges
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hf_sgpe import SPLIT_PATTERNS
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.formats import gpt2_files, tokenizer_json
from hf_sgpe.terminal.command import ArgumentParser, exit_code


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("vocab", type=Path, help="vocab.json: token → id")
    parser.add_argument("merges", type=Path, help="merges.txt: one merge a line")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--pattern", required=True, help=f"split pattern: {', '.join(SPLIT_PATTERNS)}, or a regex")
    parser.add_argument("--special-token", action="append", default=[], help="an entry that is special (repeatable)")
    parser.add_argument("--ignore-merges", action="store_true", help="whole words that are tokens skip the merges (Llama 3)")
    parser.add_argument("--overwrite", action="store_true", help="replace a tokenizer or a model that is there already")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    check_new_folder(args.out, overwrite=args.overwrite)
    tokenizer = gpt2_files.read(
        args.vocab,
        args.merges,
        pattern=args.pattern,
        special_tokens=args.special_token,
        ignore_merges=args.ignore_merges,
    )
    tokenizer_json.save(tokenizer, args.out)
    print(f"{args.out}: {tokenizer}")


if __name__ == "__main__":
    sys.exit(main())
