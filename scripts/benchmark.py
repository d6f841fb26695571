#!/usr/bin/env python3
"""Compares training and encoding with other packages, if they are installed: on the same bytes, in one run, in turns.

Every package runs in its own process, which reports its peak memory. Before any speed is printed, results are compared with
a reference: `tokenizers` for ids, and `rustbpe` for merges (of equally frequent pairs, the one with the smallest ids first).
Different results are marked. Writes benchmark.md, benchmark.json and benchmark.png into a folder.

    python scripts/benchmark.py out/ --text english=en.txt.xz --text code=code.jsonl.xz --text sinhala=si.txt.xz
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import platform
import re
import statistics
import sys
import tempfile
import textwrap
import time
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PATTERNS = {"code": "cl100k", "sinhala": " ?[\u0d80-\u0dff\u200d]+| ?[^ \\t\\n\\r]|[ \\t\\n\\r]"}
"""The split pattern for each kind of text, otherwise gpt2. The one for Sinhala keeps conjuncts whole in all packages."""
TRAINERS = ("hf_sgpe", "tokenizers", "rustbpe", "ffbpe", "gigatoken", "bpeasy", "sentencepiece")
ENCODERS = ("hf_sgpe", "tokenizers", "tiktoken", "gigatoken", "fastokens", "kitoken")
_TIMEOUT = 900  # seconds for one answer of a package
_LONG = 12  # seconds; a package whose turn takes longer gets no more turns
# These have no cache across texts, so a second pass would not be faster.
_WITHOUT_CACHE = ("tokenizers", "tiktoken", "kitoken")

Docs = list[str]
Task = tuple[Callable[[], Any], Callable[[Any], Any]]
"""What is timed, and what makes its result comparable."""


# ---------------------------------------------------------------- training with each package: the tokens in order of merges


def train_hf_sgpe(docs: Docs, pattern: str, size: int, threads: int) -> Task:
    from trainers import TokenizerTrainer, TrainingConfig

    # The other packages have no minimum frequency, or get the same one.
    config = TrainingConfig(vocab_size=size, recipe="bpe", pattern=pattern, special_tokens=(), min_frequency=1)
    trainer = TokenizerTrainer(config, workers=threads, progress=False)
    return lambda: trainer.learn(trainer.count(iterator=docs)), lambda learned: [a + b for a, b in learned.merges]


def train_tokenizers(docs: Docs, pattern: str, size: int, threads: int) -> Task:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    from hf_sgpe.byte_strings import string_to_bytes

    def train() -> Any:
        tokenizer = Tokenizer(models.BPE())
        split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=0, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(docs, trainer)
        return tokenizer

    def tokens(tokenizer: Any) -> list[bytes]:
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
        return [string_to_bytes(left) + string_to_bytes(right) for left, right in pairs]

    return train, tokens


def train_rustbpe(docs: Docs, pattern: str, size: int, threads: int) -> Task:
    import rustbpe

    def train() -> Any:
        tokenizer = rustbpe.Tokenizer()
        tokenizer.train_from_iterator(iter(docs), size, pattern=pattern)
        return tokenizer

    return train, lambda learned: [bytes(token) for token, rank in learned.get_mergeable_ranks() if rank >= 256]


def train_ffbpe(docs: Docs, pattern: str, size: int, threads: int) -> Task:
    import ffbpe

    return lambda: ffbpe.train_bpe(docs, vocab_size=size), lambda learned: by_id(learned.vocab)


def train_gigatoken(docs: Docs, pattern: str, size: int, threads: int) -> Task:
    import gigatoken

    data = "<|doc|>".join(docs).encode()
    train = partial(gigatoken.train_bpe, data, size, [], separator=b"<|doc|>")
    return train, lambda learned: [left + right for left, right in learned[1]]


def train_bpeasy(docs: Docs, pattern: str, size: int, threads: int) -> Task:
    import bpeasy

    return lambda: bpeasy.train_bpe(iter(docs), pattern, 128, size), by_id


def train_sentencepiece(docs: Docs, pattern: str, size: int, threads: int) -> Task:
    import io

    import sentencepiece

    def train() -> None:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for doc in docs for line in doc.split("\n")),
            model_writer=io.BytesIO(),
            vocab_size=size,
            model_type="bpe",
            num_threads=threads,
            byte_fallback=True,
            minloglevel=2,
        )

    return train, lambda _: None


def by_id(vocab: dict[bytes, int]) -> list[bytes]:
    return sorted(vocab, key=vocab.__getitem__)[256:]


# ---------------------------------------------------------------- encoding with each package: the ids of each document


def encode_hf_sgpe(docs: Docs, folder: str, size: int, threads: int) -> Task:
    import numpy as np

    from hf_sgpe import BPETokenizer

    tokenizer = BPETokenizer.from_pretrained(folder)
    tokenizer.encode("x")

    def ids(encoded: Any) -> list[list[int]]:
        return [row.tolist() for row in np.split(encoded[0], encoded[1][:-1])]

    return lambda: tokenizer.encode_batch_to_numpy(docs, threads=threads), ids


def encode_tokenizers(docs: Docs, folder: str, size: int, threads: int) -> Task:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    return lambda: [encoding.ids for encoding in tokenizer.encode_batch_fast(docs, add_special_tokens=False)], as_it_is


def encode_tiktoken(docs: Docs, folder: str, size: int, threads: int) -> Task:
    import tiktoken

    from hf_sgpe import BPETokenizer

    ours = BPETokenizer.from_pretrained(folder)
    ranks = dict(ours.get_mergeable_ranks())
    encoding = tiktoken.Encoding("x", pat_str=ours.get_pattern(), mergeable_ranks=ranks, special_tokens={})
    return lambda: encoding.encode_ordinary_batch(docs, num_threads=threads), as_it_is


def encode_gigatoken(docs: Docs, folder: str, size: int, threads: int) -> Task:
    import gigatoken

    # gigatoken recognises the pattern of GPT-2 only in the form of ByteLevel with use_regex.
    content = json.loads(Path(folder, "tokenizer.json").read_text(encoding="utf-8"))
    if "'s|'t|" in json.dumps(content["pre_tokenizer"]) and "(?i:" not in json.dumps(content["pre_tokenizer"]):
        content["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "tokenizer.json"
        path.write_text(json.dumps(content), encoding="utf-8", newline="\n")
        tokenizer = gigatoken.Tokenizer(str(path))
    return lambda: tokenizer.encode_batch(docs, parallel=threads > 1), lambda ids: ids.to_list()


def encode_fastokens(docs: Docs, folder: str, size: int, threads: int) -> Task:
    import fastokens
    import numpy as np

    tokenizer = fastokens.Tokenizer.from_file(f"{folder}/tokenizer.json")

    def ids(encoded: Any) -> list[list[int]]:
        flat, ends = np.frombuffer(encoded[0], np.uint32), np.frombuffer(encoded[1], np.uint64)
        return [row.tolist() for row in np.split(flat, ends[1:-1].astype(int))]

    return lambda: tokenizer.encode_batch_flat(docs), ids


def encode_kitoken(docs: Docs, folder: str, size: int, threads: int) -> Task:
    import kitoken

    tokenizer = kitoken.Kitoken.from_tokenizers_file(f"{folder}/tokenizer.json")
    return lambda: tokenizer.encode_all(docs, False), lambda ids: [list(row) for row in ids]


def call_hf_sgpe(docs: Docs, folder: str, size: int, threads: int) -> Task:
    from hf_sgpe import BPETokenizer, SGPETokenizerFast

    tokenizer = SGPETokenizerFast.from_bpe(BPETokenizer.from_pretrained(folder))
    return lambda: tokenizer(docs), lambda encoded: encoded["input_ids"]


def call_tokenizers(docs: Docs, folder: str, size: int, threads: int) -> Task:
    """The standard class of transformers."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return lambda: tokenizer(docs), lambda encoded: encoded["input_ids"]


def as_it_is(result: Any) -> Any:
    return result


# ---------------------------------------------------------------- the process of one package


def work(questions: Connection, task: str, *arguments: Any) -> None:
    """Answers questions: ``cold`` and ``warm`` with seconds, ``end`` with peak memory, ``check`` with the result."""
    os.dup2(2, 1)  # some packages print
    before = forget_peak()
    result: Any = None
    try:
        while True:
            match questions.recv():
                case "cold" | "warm" as how:
                    if how == "cold":
                        run, comparable = globals()[task](*arguments)
                    result = None
                    started = time.perf_counter()
                    result = run()
                    questions.send(time.perf_counter() - started)
                case "end":
                    questions.send(peak_bytes() - before)
                case "check":
                    # After ``end``, because it takes memory itself.
                    questions.send(comparable(result))
    except EOFError:
        pass
    except BaseException as error:  # panics of Rust are no Exception
        questions.send(RuntimeError(f"{type(error).__name__}: {error}"))


def forget_peak() -> int:
    """Resets the peak of memory, which only Linux can, and returns the present peak."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_bytes(b"5")
    return peak_bytes()


def peak_bytes() -> int:
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024  # type: ignore[index]
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ---------------------------------------------------------------- taking turns


class Worker:
    """The process of one package, which answers questions until it fails."""

    def __init__(self, name: str, task: str, docs: Docs, argument: str, size: int, threads: int) -> None:
        self.name = name
        self.failure = ""
        os.environ |= {"RAYON_NUM_THREADS": str(threads), "TRANSFORMERS_VERBOSITY": "error"}
        os.environ["TOKENIZERS_PARALLELISM"] = str(threads > 1).lower()
        context = multiprocessing.get_context("spawn")
        self._questions, theirs = context.Pipe()
        self._process = context.Process(
            target=work, args=(theirs, f"{task}_{name}", docs, argument, size, threads), daemon=True
        )
        self._process.start()
        theirs.close()

    def ask(self, question: str) -> Any:
        """The answer; None after a failure."""
        if self.failure:
            return None
        answer: Any = TimeoutError(f"no answer after {_TIMEOUT} s")
        try:
            self._questions.send(question)
            if self._questions.poll(_TIMEOUT):
                answer = self._questions.recv()
        except (EOFError, OSError):
            answer = ChildProcessError("the process has ended")
        if isinstance(answer, Exception):
            self.failure = str(answer).strip().splitlines()[0][:150]
            return None
        return answer

    def close(self) -> None:
        self._questions.close()
        self._process.join(5)
        self._process.kill()


def measure(
    names: tuple[str, ...], task: str, docs: Docs, argument: str, size: int, threads: int, repeats: int, reference: str
) -> dict[str, dict[str, Any]]:
    """The results of each package: median ``cold`` and ``warm`` (MB/s), ``peak`` (bytes), ``differs``; or ``failure``."""
    outputs: dict[str, Any] = {}
    results: dict[str, dict[str, Any]] = {}
    seconds: dict[str, dict[str, list[float]]] = {name: {"cold": [], "warm": []} for name in names}
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(contextlib.closing(Worker(name, task, docs, argument, size, threads))) for name in names
        ]
        for worker in repeats * workers:
            once = task == "train" or worker.name in _WITHOUT_CACHE
            if max(seconds[worker.name]["cold"], default=0) > _LONG:
                continue
            for how in ("cold",) if once else ("cold", "warm"):
                answer = worker.ask(how)
                if answer is not None:
                    seconds[worker.name][how].append(answer)
        for worker in workers:
            peak, output = worker.ask("end"), worker.ask("check")
            if worker.failure:
                results[worker.name] = {"failure": worker.failure}
                continue
            if output is not None:
                outputs[worker.name] = output
            total, taken = megabytes(docs), seconds[worker.name]
            medians = {how: total / statistics.median(times) for how, times in taken.items() if times}
            results[worker.name] = {**medians, "seconds": taken, "peak": peak, "megabytes": total}
    expected = outputs.get(reference) or outputs.get("hf_sgpe") or []
    for name, output in outputs.items():
        differing = sum(row != expected_row for row, expected_row in zip(output, expected, strict=False))
        results[name]["differs"] = (differing + abs(len(output) - len(expected))) / max(len(expected), 1)
    return results


def megabytes(docs: Docs) -> float:
    return sum(len(doc.encode()) for doc in docs) / 1e6


def read_documents(path: str, megabytes: float) -> Docs:
    """The beginning of a corpus, in documents of a few thousand characters."""
    from trainers import find_files, read_texts

    docs, size = [], 0.0
    for text in (text for file in find_files([path]) for text in read_texts(file)):
        for piece in pieces(text):
            docs.append(piece)
            size += len(piece.encode()) / 1e6
            if size >= megabytes:
                return docs
    return docs


def pieces(text: str, characters: int = 4000) -> Iterator[str]:
    start = 0
    while start < len(text):
        cut = text.find("\n", start + characters) + 1 or len(text)
        yield text[start:cut]
        start = cut


def trained(docs: Docs, folder: Path, recipe: str, pattern: str, vocab_size: int) -> Path:
    from trainers import TokenizerTrainer, TrainingConfig

    # No special tokens: packages differ in whether they recognise them in text, and some of the code contains them.
    config = TrainingConfig(vocab_size, recipe, pattern=pattern, special_tokens=())

    trainer = TokenizerTrainer(config, progress=False)
    trainer.learn(trainer.count(iterator=docs)).save(folder)
    return folder


def syllables_per_second(docs: Docs) -> dict[str, float]:
    """Words per second of the native LinguisTrie, for the ends of syllables and for strings."""
    from hf_sgpe import LinguisTrie

    trie, text = LinguisTrie(), "".join(docs)
    words = len(text.split())
    ways: dict[str, Callable[[str, bool], Any]] = {"ends": trie.ends, "tokenize": trie.tokenize}
    return {name: words / statistics.median(timeit.repeat(partial(way, text, True), number=1)) for name, way in ways.items()}


# ---------------------------------------------------------------- tables and the chart


def table(title: str, results: dict[str, dict[str, Any]], columns: tuple[str, ...], notes: str = "") -> str:
    ours = results.get("hf_sgpe", {})
    heads = {"cold": "first pass, MB/s", "warm": "again, MB/s"} if "warm" in columns else {"cold": "MB/s"}
    lines = [f"### {title}", "", notes, ""] if notes else [f"### {title}", ""]
    lines.append(
        f"| package | {' | '.join(f'{heads[column]} | hf_sgpe is' for column in columns)} | peak memory | same result |"
    )
    lines.append(f"|---|{'---:|---:|' * len(columns)}---:|---|")
    for name, result in results.items():
        if "failure" in result:
            failure = textwrap.shorten(result["failure"].replace("|", "/"), 60, placeholder=" …")
            lines.append(f"| {name} | {'– | – | ' * len(columns)} – | {failure} |")
            continue
        cells = []
        for column in columns:
            if column not in result:
                cells += ["", ""]
                continue
            ratio = ours.get(column, 0) / result[column]
            cells += [
                f"{result[column]:.1f}",
                "" if name == "hf_sgpe" else f"{ratio:.2g}×" if ratio < 10 else f"{ratio:.0f}×",
            ]
        differs = result.get("differs")
        same = "not comparable" if differs is None else "yes" if differs == 0 else f"**no**: {differs:.2%} differ"
        lines.append(f"| {name} | {' | '.join(cells)} | {result['peak'] / 1e6:.0f} MB | {same} |")
    return "\n".join(lines) + "\n"


def growth_table(title: str, growth: dict[str, dict[str, dict[str, Any]]]) -> str:
    names = list(dict.fromkeys(name for results in growth.values() for name in results))
    lines = [f"### {title}", "", f"| package | {' | '.join(growth)} |", f"|---|{'---:|' * len(growth)}"]
    for name in names:
        cells = [f"{results[name]['cold']:.1f}" if "cold" in results.get(name, {}) else "–" for results in growth.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def picture(results: dict[str, dict[str, dict[str, Any]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = (len(results) + 2) // 3
    figure, axes = pyplot.subplots(rows, 3, figsize=(13, 3.2 * rows), squeeze=False)
    for axis in axes.flat[len(results) :]:
        axis.set_visible(False)
    for axis, (title, measured) in zip(axes.flat, results.items(), strict=False):
        shown = {name: result for name, result in measured.items() if "failure" not in result}
        ordered = sorted(shown, key=lambda name: shown[name]["cold"])
        values = [shown[name]["cold"] for name in ordered]
        colours = ["#d9480f" if name == "hf_sgpe" else "#8a94a0" for name in ordered]
        bars = axis.barh(ordered, values, color=colours)
        labels = [
            f"{value:.0f}" + ("" if not shown[name].get("differs") else " *")
            for name, value in zip(ordered, values, strict=True)
        ]
        axis.bar_label(bars, labels, padding=3, fontsize=9)
        axis.set_title(textwrap.fill(title, 40), fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.15)
        axis.set_xlabel("MB of UTF-8 per second", fontsize=9)
    figure.text(0.995, 0.005, "* result differs from the reference", ha="right", fontsize=8, color="#666666")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def label(pattern: str) -> str:
    """The name of a pattern, for titles."""
    return pattern if re.fullmatch(r"[\w-]+", pattern) else "one regex"


def machine() -> str:
    from hf_sgpe.bpe.codec import available_cores

    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]  # type: ignore[index]
    return f"{model}, {available_cores()} cores, {platform.system()}, Python {platform.python_version()}"


def versions() -> str:
    texts = []
    for name in dict.fromkeys(("hf-sgpe", *TRAINERS[1:], *ENCODERS[1:], "transformers")):
        with contextlib.suppress(PackageNotFoundError):
            texts.append(f"{name} {version(name)}")
    return ", ".join(texts)


def installed(names: tuple[str, ...]) -> tuple[str, ...]:
    importable = []
    for name in names:
        try:
            importlib.import_module(name)
            importable.append(name)
        except ImportError:
            print(f"{name} is not installed: pip install {name}", file=sys.stderr)
    return tuple(importable)


def main() -> int:
    from hf_sgpe.command import ArgumentParser, exit_code

    parser = ArgumentParser(__doc__)
    parser.add_argument("out", type=Path, help="folder for the tables and the chart")
    parser.add_argument(
        "--text", action="append", required=True, metavar="NAME=FILE", help="text to measure on (repeatable)"
    )
    parser.add_argument("--megabytes", type=float, default=64, help="size of each text to use (default: %(default)s)")
    parser.add_argument("--vocab-size", type=int, default=32_000, help="number of tokens (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each package (default: %(default)s)")
    parser.add_argument("--growth", default="1,4,16", help="more sizes to measure, in megabytes (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads to measure with, besides one (default: %(default)s)")
    parser.add_argument("--skip", default="", help="packages to leave out, separated by commas")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    from hf_sgpe.splitting.patterns import resolve_pattern

    skipped = args.skip.split(",")
    trainers = installed(tuple(name for name in TRAINERS if name not in skipped))
    encoders = installed(tuple(name for name in ENCODERS if name not in skipped))
    args.out.mkdir(parents=True, exist_ok=True)

    turns = f"Medians of {args.repeats} turns (one where a turn takes more than {_LONG} s), {args.vocab_size:,} tokens"
    report = [f"{machine()}. {versions()}. {turns}.\n"]
    everything: dict[str, Any] = {}

    def add(key: str, text: str, results: Any) -> None:
        everything[key] = results
        report.append(text)
        print(text, flush=True)
        (args.out / "benchmark.md").write_text("\n".join(report), encoding="utf-8", newline="\n")
        (args.out / "benchmark.json").write_text(json.dumps(everything, indent=1), encoding="utf-8", newline="\n")

    def encode(docs: Docs, folder: Path, threads: int) -> dict[str, dict[str, Any]]:
        return measure(encoders, "encode", docs, str(folder), 0, threads, args.repeats, "tokenizers")

    def train(names: tuple[str, ...], docs: Docs, pattern: str) -> dict[str, dict[str, Any]]:
        regex = resolve_pattern(pattern)
        return measure(names, "train", docs, regex, args.vocab_size, args.threads, args.repeats, "rustbpe")

    for text in args.text:
        kind, _, path = text.partition("=")
        docs = read_documents(path, args.megabytes)
        size = f"{megabytes(docs):.0f} MB"
        pattern = PATTERNS.get(kind, "gpt2")
        with tempfile.TemporaryDirectory() as temporary:
            folders = {label(pattern): trained(docs, Path(temporary) / "bpe", "bpe", pattern, args.vocab_size)}
            if kind == "sinhala":
                folders["hybrid"] = trained(docs, Path(temporary) / "hybrid", "hybrid", "o200k", args.vocab_size)
            for name, folder in folders.items():
                for threads in (1, args.threads):
                    results = encode(docs, folder, threads)
                    title = f"Encoding {kind}, {name}, {size}, {threads} thread{'s' * (threads > 1)}"
                    add(title, table(title, results, ("cold", "warm")), results)
            results = measure(("hf_sgpe", "tokenizers"), "call", docs, str(folder), 0, 1, args.repeats, "tokenizers")
            title = f"tok(list of texts) in transformers, {kind}, {size}, 1 thread"
            note = "`tokenizers` here is the standard class of transformers."
            add(title, table(title, results, ("cold", "warm"), note), results)
        results = train(trainers, docs, pattern)
        title = f"Training on {kind}, {label(pattern)}, {size}, {args.threads} threads"
        add(title, table(title, results, ("cold",)), results)
        if kind == "sinhala":
            speeds = syllables_per_second(docs)
            lines = [f"{name}: {speed / 1e6:.2f} million words per second" for name, speed in speeds.items()]
            add("LinguisTrie", "### LinguisTrie\n\n" + "\n".join(lines) + "\n", speeds)

    kind, _, path = args.text[0].partition("=")
    pattern = PATTERNS.get(kind, "gpt2")
    encoding, training = {}, {}
    for size in [f"{float(size):g}" for size in args.growth.split(",") if size]:
        docs = read_documents(path, float(size))
        with tempfile.TemporaryDirectory() as temporary:
            folder = trained(docs, Path(temporary) / "bpe", "bpe", pattern, args.vocab_size)
            encoding[f"{size} MB"] = encode(docs, folder, 1)
        training[f"{size} MB"] = train(tuple(name for name in trainers if name != "sentencepiece"), docs, pattern)
    if encoding:
        title = f"Encoding {kind}, first pass, 1 thread, MB/s"
        add("growth of encoding", growth_table(title, encoding), encoding)
        title = f"Training on {kind}, {args.threads} threads, MB/s"
        add("growth of training", growth_table(title, training), training)
    shown = {title: results for title, results in everything.items() if title.startswith(("Encoding", "Training", "tok("))}
    picture(shown, args.out / "benchmark.png")
    print(f"written: {args.out}/benchmark.md, benchmark.json, benchmark.png")


if __name__ == "__main__":
    sys.exit(main())
