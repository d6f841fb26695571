"""Measure the CPU time of encoding a growing conversation at each turn, with and without the cache of recent texts.

In each turn, the whole conversation so far is rendered and encoded again, because clients send all of it to a server. The
messages are lines of a file. The script prints the total time of all turns and the mean time of the last ten turns, and both
times for rendering alone.

    python benchmarks/conversations.py my-tokenizer si.txt en.txt --turns 100
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from harness import Records, command
from reporting import table

from hf_sgpe import BPETokenizer
from hf_sgpe.corpora.text_files import read_texts
from hf_sgpe.vocabulary.recent_texts import RecentTexts


def _main() -> None:
    with command(__doc__, _run) as option:
        option("tokenizer", help="folder of a tokenizer; a tokenizer without a chat template uses alpaca")
        option("text", nargs="+", help="files of text, one for each conversation")
        option("--turns", default=100, help="number of turns, each with a user message and an answer")
        option("--lines", default=4, help="number of lines in a message")
        option("--out", default=Path("grown"), help="folder for the records")


def _run(args: argparse.Namespace) -> None:
    records = Records(args.out / "conversations.jsonl")
    rows = []
    for name in args.text:
        result = _measured(args, name)
        records.add(Path(name).stem, result)
        cells = (f"{result[way][which]:,.1f}" for which in ("all", "last") for way in ("without", "with", "rendering"))
        rows.append((Path(name).stem, f"{result['characters']:,}", *cells))
    head = ("conversation", "characters", "ms without", "with", "rendering", "last turns without", "with", "rendering")
    print(table(head, rows))


def _measured(args: argparse.Namespace, name: str) -> dict[str, Any]:
    lines = [line for text in read_texts(name) for line in text.splitlines() if line]
    texts = ["\n".join(lines[start : start + args.lines]) for start in range(0, len(lines), args.lines)]
    roles = ["user", "assistant"] * args.turns
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    kept, other = (BPETokenizer.from_pretrained(args.tokenizer) for _ in range(2))
    other._recent = RecentTexts(0)
    template = kept.chat_template or "alpaca"
    if kept.apply_chat_template(messages, template) != other.apply_chat_template(messages, template):
        raise AssertionError("the ids differ with and without the cache")
    kept._recent = RecentTexts()
    return {
        "characters": len(kept.apply_chat_template(messages, template, tokenize=False)),
        "without": _times(other, messages, tokenize=True),
        "with": _times(kept, messages, tokenize=True),
        "rendering": _times(kept, messages, tokenize=False),
    }


def _times(tokenizer: BPETokenizer, messages: Sequence[Mapping[str, str]], *, tokenize: bool) -> dict[str, float]:
    """Render the growing conversation at each turn and, with ``tokenize``, also encode it. Return CPU times in milliseconds:
    the total of all turns, and the mean of the last ten turns.
    """
    taken = []
    template = tokenizer.chat_template or "alpaca"
    for end in range(1, len(messages), 2):
        begun = time.process_time()
        tokenizer.apply_chat_template(messages[:end], template, tokenize=tokenize)
        taken.append(1000 * (time.process_time() - begun))
    return {"all": sum(taken), "last": mean(taken[-10:])}


if __name__ == "__main__":
    _main()
