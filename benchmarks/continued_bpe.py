"""Extend a tokenizer with hf_sgpe and with tokenizer-extension (continued BPE, arXiv 2512.03989), and compare the results.

Each program runs in its own process, on the same lines of text. The script measures the tokens per word of held-out text,
the number of lines of other text whose ids change, and the time and peak memory of training. Get tokenizer-extension with
``git clone https://github.com/taidopurason/tokenizer-extension``, and pass the cloned folder to --peer.

Example: python benchmarks/continued_bpe.py base-model si.txt --script si --eval si.txt --other en.txt --peer
tokenizer-extension
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import Records, apart, beginning, command, measured, peak_bytes

from hf_sgpe import ExtensionConfig, SGPEError
from hf_sgpe.evaluation.measurable import load
from hf_sgpe.evaluation.metrics import evaluate
from hf_sgpe.evaluation.same_ids import compare_ids
from trainers import TokenizerExtender, find_files, read_lines


def _run(args: Namespace) -> None:
    if args.peer and not args.peer.is_dir():
        raise SGPEError(f"{args.peer}: no such folder")
    texts = list(beginning((f"{line}\n" for line in read_lines(find_files([args.corpus])[0])), args.megabytes))
    print(
        f"{sum(len(text.encode()) for text in texts) / 1e6:.1f} MB of text, {args.new_tokens:,} new tokens for {args.base}"
    )
    lines = [text[:-1] for text in texts]
    ways: dict[str, Callable[..., Callable[[], Any]]] = {"hf_sgpe": _extend_here}
    if args.peer:
        ways["tokenizer-extension"] = _extend_by_peer
    records, base = Records(args.out / "continued_bpe.jsonl"), load(args.base)
    with TemporaryDirectory() as directory:
        for name, prepare in ways.items():
            out = Path(directory) / name
            seconds, peak = apart(_measured, prepare, args, lines, out)
            tokenizer = load(out)
            measures = evaluate(tokenizer, _held_out(args.eval)).to_dict()
            same = compare_ids(base, tokenizer, _held_out(args.other))
            changed = {"other_lines": same.lines, "changed_lines": same.lines - same.same}
            records.add(name, {"seconds": seconds, "peak": peak, **changed, **measures})
            report({name: records.results[name]})


def report(results: dict[str, Any], out: Path | None = None) -> None:
    for name, one in results.items():
        took = f"{one['tokens_per_character'] or 0:.3f} tokens per character"
        if one["tokens_per_word"] is not None:
            took = f"{one['tokens_per_word']:.3f} tokens per word"
        print(
            f"{name}: {took}, {one['cut_syllable_share'] or 0:.2%} of the syllables cut, {one['changed_lines']:,} of "
            f"{one['other_lines']:,} other lines changed, {one['seconds']:.1f} s, {one['peak'] / 1e6:.0f} MB"
        )


def _held_out(path: Path) -> list[str]:
    return [line for line in read_lines(find_files([path])[0]) if line.strip()]


def _measured(prepare: Callable[..., Callable[[], Any]], args: Namespace, lines: list[str], out: Path) -> tuple[float, int]:
    """Save the extended tokenizer, and return the seconds of extending it and the peak memory of this process."""
    tokenizer, taken = measured(prepare(args, lines))
    tokenizer.save_pretrained(out)
    return taken.seconds, peak_bytes()


def _extend_here(args: Namespace, lines: list[str]) -> Callable[[], Any]:
    config = ExtensionConfig([args.script], new_tokens=args.new_tokens)
    return partial(TokenizerExtender(config, progress=False).extend, args.base, iterator=lines)


def _extend_by_peer(args: Namespace, lines: list[str]) -> Callable[[], Any]:
    sys.path.insert(0, str(args.peer))
    from transformers import AutoTokenizer

    train = import_module("tokenizer_extension.train_vocab_extension").train_vocab_extension
    extend = import_module("tokenizer_extension.extension").extend_tokenizer
    tokenizer, size = AutoTokenizer.from_pretrained(args.base), args.new_tokens

    def work() -> Any:
        learned = train(tokenizer, lines, size)
        given = {"new_vocab": learned["vocab"], "new_merges": [tuple(merge) for merge in learned["merges"]]}
        return extend(tokenizer, **given, n_tokens=size, keep_added_token_positions=True)

    return work


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("base", help="folder with the tokenizer to extend")
        option("corpus", type=Path, help="text to learn from, one document per line")
        option("--script", required=True, help="script of the text, such as si")
        option("--new-tokens", default=16_000, help="number of tokens to add")
        option("--megabytes", default=12.0, help="megabytes of the text to use")
        option("--eval", type=Path, required=True, help="held-out text in the script")
        option("--other", type=Path, required=True, help="text in another script; the ids of this text should not change")
        option("--peer", type=Path, help="cloned folder of tokenizer-extension (default: measure only hf_sgpe)")
        option("--out", default=Path("extending"), help="folder for the records")
