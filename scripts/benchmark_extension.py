"""Compares extending a tokenizer with continued BPE as tokenizer-extension (arXiv 2512.03989) does it, on the same text.

Both are given the same lines, one after the other in processes of their own: tokens per word of held-out text, lines of
other text whose ids changed, seconds and peak memory of learning. Get the other by ``git clone
https://github.com/taidopurason/tokenizer-extension``, and name its folder.

Example: python scripts/benchmark_extension.py base-model si.txt --script si --eval si.txt --other en.txt --peer
tokenizer-extension
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hf_sgpe import BPETokenizer, ExtensionConfig
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.metrics import Measurable, evaluate, foreign_backend
from hf_sgpe.evaluation.same_ids import compare_ids
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from trainers import TokenizerExtender, find_files, read_lines


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("base", help="folder with the tokenizer to extend")
    parser.add_argument("corpus", type=Path, help="text to learn from, a document a line")
    parser.add_argument("--script", required=True, help="script of the text")
    parser.add_argument("--new-tokens", type=int, default=16_000)
    parser.add_argument("--megabytes", type=float, default=12.0, help="how much of the text to take")
    parser.add_argument("--eval", type=Path, required=True, help="held-out text in the script")
    parser.add_argument("--other", type=Path, required=True, help="text in another script, whose ids are to stay")
    parser.add_argument("--peer", type=Path, help="folder with tokenizer-extension; without it only ours is measured")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: Any) -> None:
    lines, size = [], 0
    for line in read_lines(find_files([args.corpus])[0]):
        lines.append(line)
        size += len(line.encode()) + 1
        if size >= args.megabytes * 1e6:
            break
    if args.peer and not args.peer.is_dir():
        raise SGPEError(f"{args.peer}: no such folder")
    print(f"{size / 1e6:.1f} MB of text, {args.new_tokens:,} new tokens for {args.base}")
    with TemporaryDirectory() as directory:
        ways: dict[str, Callable[..., float]] = {"hf_sgpe": extend_here}
        if args.peer:
            ways["tokenizer-extension"] = extend_by_peer
        base = measurable(Path(args.base))
        for name, extend in ways.items():
            out = Path(directory) / name
            seconds, peak = measured(extend, args, lines, out)
            tokenizer = measurable(out)
            result = evaluate(tokenizer, held_out(args.eval))
            same = compare_ids(base, tokenizer, held_out(args.other))
            cut = f"{result.cut_syllable_share or 0:.2%} of the syllables cut"
            changed = f"{same.lines - same.same:,} of {same.lines:,} other lines changed"
            cost = f"{seconds:.1f} s, {peak / 1e6:.0f} MB"
            per_word, per_character = result.tokens_per_word, result.tokens_per_character or 0
            took = f"{per_character:.3f} tokens a character" if per_word is None else f"{per_word:.3f} tokens a word"
            print(f"{name}: {took}, {cut}, {changed}, {cost}")


def held_out(path: Path) -> list[str]:
    return [line for line in read_lines(find_files([path])[0]) if line.strip()]


def measurable(folder: Path) -> BPETokenizer | Measurable:
    """A tokenizer in the form that both measures take; by ``tokenizers`` where this package does not read it."""
    try:
        return BPETokenizer.from_pretrained(folder)
    except SGPEError:
        backend = foreign_backend((folder / "tokenizer.json").read_text(encoding="utf-8"), str(folder))
        return Measurable(lambda text: (backend.encode(text).ids, []), backend.get_vocab_size())


def measured(extend: Callable[..., float], args: Any, lines: list[str], out: Path) -> tuple[float, int]:
    """Seconds and peak memory, in bytes, of a process that does nothing else."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_timed, args=(theirs, extend, vars(args), lines, out))
    process.start()
    theirs.close()
    try:
        seconds, peak = ours.recv()
    except EOFError:
        raise SGPEError(f"{extend.__name__} failed") from None
    process.join()
    return seconds, peak


def _timed(pipe: Any, extend: Callable[..., float], args: dict[str, Any], lines: list[str], out: Path) -> None:
    pipe.send((extend(args, lines, out), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))


def extend_here(args: dict[str, Any], lines: list[str], out: Path) -> float:
    config = ExtensionConfig([args["script"]], new_tokens=args["new_tokens"])
    start = time.perf_counter()
    tokenizer = TokenizerExtender(config, progress=False).extend(args["base"], iterator=lines)
    seconds = time.perf_counter() - start
    tokenizer.save_pretrained(out)
    return seconds


def extend_by_peer(args: dict[str, Any], lines: list[str], out: Path) -> float:
    sys.path.insert(0, str(args["peer"]))
    from transformers import AutoTokenizer

    train = import_module("tokenizer_extension.train_vocab_extension").train_vocab_extension
    extend = import_module("tokenizer_extension.extension").extend_tokenizer

    tokenizer = AutoTokenizer.from_pretrained(args["base"])
    start = time.perf_counter()
    size = args["new_tokens"]
    learned = train(tokenizer, lines, size)
    merges = [tuple(merge) for merge in learned["merges"]]
    given = {"new_vocab": learned["vocab"], "new_merges": merges, "n_tokens": size, "keep_added_token_positions": True}
    extended = extend(tokenizer, **given)
    seconds = time.perf_counter() - start
    extended.save_pretrained(out)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
