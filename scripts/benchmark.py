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
import os
import pickle
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
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


# ---------------------------------------------------------------- training and encoding with each package


def train_hf_sgpe(docs: Docs, pattern: str, size: int, threads: int) -> Any:
    from trainers import TokenizerTrainer, TrainingConfig

    # The other packages have no minimum frequency, or get the same one.
    config = TrainingConfig(vocab_size=size, recipe="bpe", pattern=pattern, special_tokens=(), min_frequency=1)
    trainer = TokenizerTrainer(config, workers=threads, progress=False)
    return lambda: trainer.learn(trainer.count(iterator=docs))


def train_tokenizers(docs: Docs, pattern: str, size: int, threads: int) -> Any:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    from hf_sgpe.splitting.patterns import resolve_pattern

    def train() -> Any:
        tokenizer = Tokenizer(models.BPE())
        split = pre_tokenizers.Split(Regex(resolve_pattern(pattern)), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=0, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(docs, trainer)
        return tokenizer

    return train


def train_rustbpe(docs: Docs, pattern: str, size: int, threads: int) -> Any:
    import rustbpe

    from hf_sgpe.splitting.patterns import resolve_pattern

    def train() -> Any:
        tokenizer = rustbpe.Tokenizer()
        tokenizer.train_from_iterator(iter(docs), size, pattern=resolve_pattern(pattern))
        return tokenizer

    return train


def train_ffbpe(docs: Docs, pattern: str, size: int, threads: int) -> Any:
    import ffbpe

    return lambda: ffbpe.train_bpe(docs, vocab_size=size)


def train_gigatoken(docs: Docs, pattern: str, size: int, threads: int) -> Any:
    import gigatoken

    data = "<|doc|>".join(docs).encode()
    return lambda: gigatoken.train_bpe(data, size, [], separator=b"<|doc|>")


def train_bpeasy(docs: Docs, pattern: str, size: int, threads: int) -> Any:
    import bpeasy

    from hf_sgpe.splitting.patterns import resolve_pattern

    return lambda: bpeasy.train_bpe(iter(docs), resolve_pattern(pattern), 128, size)


def train_sentencepiece(docs: Docs, pattern: str, size: int, threads: int) -> Any:
    import io

    import sentencepiece

    def train() -> Any:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for doc in docs for line in doc.split("\n")),
            model_writer=model,
            vocab_size=size,
            model_type="bpe",
            num_threads=threads,
            byte_fallback=True,
            minloglevel=2,
        )
        return model

    return train


def tokens_of(name: str, trained: Any) -> list[bytes] | None:
    """The learned tokens in the order of their merges, or None if the package does not give them."""
    from hf_sgpe.byte_strings import string_to_bytes

    if name == "hf_sgpe":
        return [left + right for left, right in trained.merges]
    if name == "tokenizers":
        merges = json.loads(trained.to_str())["model"]["merges"]
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
        return [string_to_bytes(left) + string_to_bytes(right) for left, right in pairs]
    if name == "rustbpe":
        return [bytes(token) for token, rank in trained.get_mergeable_ranks() if rank >= 256]
    if name == "bpeasy":
        return [token for token, _ in sorted(trained.items(), key=lambda item: item[1])][256:]
    if name == "ffbpe":
        return [token for token, _ in sorted(trained.vocab.items(), key=lambda item: item[1])][256:]
    if name == "gigatoken":
        return [left + right for left, right in trained[1]]
    return None


def encode_hf_sgpe(folder: Path, threads: int) -> Any:
    import numpy as np

    from hf_sgpe import BPETokenizer

    tokenizer = BPETokenizer.from_pretrained(folder)
    tokenizer.encode("x")

    def ids(encoded: Any) -> list[list[int]]:
        return [row.tolist() for row in np.split(encoded[0], encoded[1][:-1])]

    return lambda docs: tokenizer.encode_batch_to_numpy(docs, threads=threads), ids


def encode_tokenizers(folder: Path, threads: int) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def encode(docs: Docs) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(docs, add_special_tokens=False)]

    return encode, lambda ids: ids


def encode_tiktoken(folder: Path, threads: int) -> Any:
    import tiktoken

    from hf_sgpe import BPETokenizer

    ours = BPETokenizer.from_pretrained(folder)
    ranks = dict(ours.get_mergeable_ranks())
    encoding = tiktoken.Encoding("x", pat_str=ours.get_pattern(), mergeable_ranks=ranks, special_tokens={})
    return lambda docs: encoding.encode_ordinary_batch(docs, num_threads=threads), lambda ids: ids


def encode_gigatoken(folder: Path, threads: int) -> Any:
    import gigatoken

    # gigatoken recognises the pattern of GPT-2 only in the form of ByteLevel with use_regex.
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    if "'s|'t|" in json.dumps(content["pre_tokenizer"]) and "(?i:" not in json.dumps(content["pre_tokenizer"]):
        content["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "tokenizer.json"
        path.write_text(json.dumps(content), encoding="utf-8", newline="\n")
        tokenizer = gigatoken.Tokenizer(str(path))
    return lambda docs: tokenizer.encode_batch(docs, parallel=threads > 1), lambda ids: ids.to_list()


def encode_fastokens(folder: Path, threads: int) -> Any:
    import fastokens
    import numpy as np

    tokenizer = fastokens.Tokenizer.from_file(str(folder / "tokenizer.json"))

    def ids(encoded: Any) -> list[list[int]]:
        flat, ends = np.frombuffer(encoded[0], np.uint32), np.frombuffer(encoded[1], np.uint64)
        return [row.tolist() for row in np.split(flat, ends[1:-1].astype(int))]

    return lambda docs: tokenizer.encode_batch_flat(docs), ids


def encode_kitoken(folder: Path, threads: int) -> Any:
    import kitoken

    tokenizer = kitoken.Kitoken.from_tokenizers_file(str(folder / "tokenizer.json"))
    return lambda docs: tokenizer.encode_all(docs, False), lambda ids: [list(row) for row in ids]


def call(name: str, folder: Path) -> Any:
    """``tok(texts)`` with the standard class of transformers, or with ours."""
    from transformers import PreTrainedTokenizerFast

    from hf_sgpe import BPETokenizer, SGPETokenizerFast

    if name == "hf_sgpe":
        tokenizer: Any = SGPETokenizerFast.from_bpe(BPETokenizer.from_pretrained(folder))
    else:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return lambda docs: tokenizer(docs), lambda encoded: encoded["input_ids"]


# ---------------------------------------------------------------- the process of one package


def work(name: str, task: str, docs_file: Path, argument: str, size: int, threads: int) -> None:
    """Answers commands on stdin: ``cold`` and ``warm`` with seconds, ``end`` with peak memory; ``check`` saves results."""
    docs = pickle.loads(docs_file.read_bytes())
    before = forget_peak()
    if task == "train":
        run = globals()[f"train_{name}"](docs, argument, size, threads)
    elif task == "encode":
        run, ids_of = globals()[f"encode_{name}"](Path(argument), threads)
    else:
        run, ids_of = call(name, Path(argument))
    say("ready")
    result: Any = None
    for line in sys.stdin:
        match line.strip():
            case "cold" if task == "train":
                result, seconds = timed(run)
                say(seconds)
            case "cold" | "warm" as how:
                if how == "cold":
                    if task == "encode":
                        run, ids_of = globals()[f"encode_{name}"](Path(argument), threads)
                    else:
                        run, ids_of = call(name, Path(argument))
                result = None
                result, seconds = timed(run, docs)
                say(seconds)
            case "end":
                say(peak_bytes() - before)
            case "check":
                # After ``end``, because it takes memory itself.
                with open(f"{docs_file}.{name}.{task}.out", "wb") as file:  # noqa: PTH123
                    pickle.dump(tokens_of(name, result) if task == "train" else ids_of(result), file)
                say("ok")


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - started


def forget_peak() -> int:
    """Resets the peak of memory, which only Linux can, and returns the present peak."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_bytes(b"5")
    return peak_bytes()


def peak_bytes() -> int:
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def say(answer: Any) -> None:
    os.write(_answers, f"{json.dumps(answer)}\n".encode())


_answers = 1


# ---------------------------------------------------------------- taking turns


class Worker:
    """The process of one package, which answers commands line by line."""

    def __init__(self, name: str, task: str, docs: Path, argument: str, size: int, threads: int) -> None:
        command = [sys.executable, __file__, "--work", name, task, str(docs), argument, str(size), str(threads)]
        environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "TRANSFORMERS_VERBOSITY": "error"}
        if threads == 1:
            environment["TOKENIZERS_PARALLELISM"] = "false"
        self.name = name
        self.failure = ""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
        )
        self._read()

    def ask(self, question: str) -> Any:
        if self.failure:
            return None
        assert self._process.stdin
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout
        assert self._process.stderr
        watch = subprocess.Popen(["sh", "-c", f"sleep {_TIMEOUT}; kill {self._process.pid}"], start_new_session=True)
        line = self._process.stdout.readline()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(watch.pid, 9)
        watch.wait()
        if not line:
            lines = self._process.stderr.read().strip().splitlines()
            errors = [line for line in lines if re.search(r"Error|panicked|refuse|nknown|unsupported", line)]
            self.failure = (errors or lines or [f"ended after {_TIMEOUT} s"])[-1].strip()[:150]
            return None
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def measure(
    names: tuple[str, ...], task: str, docs: Docs, argument: str, size: int, threads: int, repeats: int, reference: str
) -> dict[str, dict[str, Any]]:
    """The results of each package: median ``cold`` and ``warm`` (MB/s), ``peak`` (bytes), ``differs``; or ``failure``."""
    megabytes = sum(len(doc.encode()) for doc in docs) / 1e6
    with tempfile.TemporaryDirectory() as temporary:
        docs_file = Path(temporary) / "docs"
        docs_file.write_bytes(pickle.dumps(docs))
        workers = [Worker(name, task, docs_file, argument, size, threads) for name in names]
        seconds: dict[str, dict[str, list[float]]] = {name: {"cold": [], "warm": []} for name in names}
        for _ in range(repeats):
            for worker in workers:
                once = task == "train" or worker.name in _WITHOUT_CACHE
                if max(seconds[worker.name]["cold"], default=0) > _LONG:
                    continue
                for how in ("cold",) if once else ("cold", "warm"):
                    taken = worker.ask(how)
                    if taken is not None:
                        seconds[worker.name][how].append(taken)
        outputs: dict[str, Any] = {}
        results: dict[str, dict[str, Any]] = {}
        for worker in workers:
            peak = worker.ask("end")
            if worker.ask("check"):
                outputs[worker.name] = pickle.loads(Path(f"{docs_file}.{worker.name}.{task}.out").read_bytes())
            if worker.failure:
                results[worker.name] = {"failure": worker.failure}
            else:
                medians = {how: megabytes / statistics.median(taken) for how, taken in seconds[worker.name].items() if taken}
                results[worker.name] = {**medians, "seconds": seconds[worker.name], "peak": peak, "megabytes": megabytes}
            worker.close()
    expected = outputs.get(reference, outputs.get("hf_sgpe"))
    for name, output in outputs.items():
        if "failure" in results[name] or output is None:
            continue
        pairs = list(zip(output, expected or [], strict=False))
        differing = sum(row != expected_row for row, expected_row in pairs) + abs(len(output) - len(expected or []))
        results[name]["differs"] = differing / max(len(expected or []), 1)
    return results


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


def trained(docs: Docs, folder: Path, **config: Any) -> Path:
    from trainers import TokenizerTrainer, TrainingConfig

    # No special tokens: packages differ in whether they recognise them in text, and some of the code contains them.
    trainer = TokenizerTrainer(TrainingConfig(special_tokens=(), **config), progress=False)
    trainer.learn(trainer.count(iterator=docs)).save(folder)
    return folder


def syllables_per_second(docs: Docs) -> dict[str, float]:
    """Words per second of the native LinguisTrie, for the ends of syllables and for strings."""
    from hf_sgpe import LinguisTrie

    trie, text = LinguisTrie(), "".join(docs)
    words = len(text.split())
    speeds: dict[str, float] = {}
    for name, function in (("ends", trie.ends), ("tokenize", trie.tokenize)):
        taken = [timed(function, text, True)[1] for _ in range(5)]
        speeds[name] = words / statistics.median(taken)
    return speeds


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
            lines.append(f"| {name} | {'– | – | ' * len(columns)} – | {result['failure'].replace('|', '/')} |")
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


def growth_table(title: str, growth: dict[str, dict[str, dict[str, Any]]], column: str) -> str:
    names = list(dict.fromkeys(name for results in growth.values() for name in results))
    lines = [f"### {title}", "", f"| package | {' | '.join(growth)} |", f"|---|{'---:|' * len(growth)}"]
    for name in names:
        cells = [f"{results[name][column]:.1f}" if column in results.get(name, {}) else "–" for results in growth.values()]
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
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]  # type: ignore[index]
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {platform.system()}, Python {platform.python_version()}"


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    skipped = args.skip.split(",")
    trainers = installed(tuple(name for name in TRAINERS if name not in skipped))
    encoders = installed(tuple(name for name in ENCODERS if name not in skipped))
    args.out.mkdir(parents=True, exist_ok=True)

    turns = f"Medians of {args.repeats} turns (one where a turn takes more than {_LONG} s), {args.vocab_size:,} tokens"
    report = [f"# Benchmark\n\n{machine()}. {versions()}. {turns}.\n"]
    everything: dict[str, Any] = {}

    def add(key: str, text: str, results: Any) -> None:
        everything[key] = results
        report.append(text)
        print(text, flush=True)
        (args.out / "benchmark.md").write_text("\n".join(report), encoding="utf-8", newline="\n")
        (args.out / "benchmark.json").write_text(json.dumps(everything, indent=1), encoding="utf-8", newline="\n")

    for text in args.text:
        kind, _, path = text.partition("=")
        docs = read_documents(path, args.megabytes)
        size = sum(len(doc.encode()) for doc in docs) / 1e6
        pattern = PATTERNS.get(kind, "gpt2")
        with tempfile.TemporaryDirectory() as temporary:
            folders = {
                pattern: trained(docs, Path(temporary) / "bpe", vocab_size=args.vocab_size, recipe="bpe", pattern=pattern)
            }
            if kind == "sinhala":
                folders["hybrid"] = trained(docs, Path(temporary) / "hybrid", vocab_size=args.vocab_size)
            for name, folder in folders.items():
                for threads in (1, args.threads):
                    results = measure(encoders, "encode", docs, str(folder), 0, threads, args.repeats, "tokenizers")
                    title = f"Encoding {kind}, {label(name)}, {size:.0f} MB, {threads} thread{'s' * (threads > 1)}"
                    add(title, table(title, results, ("cold", "warm")), results)
            folder = list(folders.values())[-1]
            names = ("hf_sgpe", "tokenizers")
            results = measure(names, "call", docs, str(folder), 0, 1, args.repeats, "tokenizers")
            title = f"tok(list of texts) in transformers, {kind}, {size:.0f} MB, 1 thread"
            add(
                title,
                table(title, results, ("cold", "warm"), "`tokenizers` here is the standard class of transformers."),
                results,
            )
        results = measure(trainers, "train", docs, pattern, args.vocab_size, args.threads, args.repeats, "rustbpe")
        title = f"Training on {kind}, {label(pattern)}, {size:.0f} MB, {args.threads} threads"
        add(title, table(title, results, ("cold",)), results)
        if kind == "sinhala":
            speeds = syllables_per_second(docs)
            lines = [f"{name}: {speed / 1e6:.2f} million words per second" for name, speed in speeds.items()]
            add("LinguisTrie", "### LinguisTrie\n\n" + "\n".join(lines) + "\n", speeds)

    sizes = [float(size) for size in args.growth.split(",") if size]
    if sizes:
        kind, _, path = args.text[0].partition("=")
        pattern = PATTERNS.get(kind, "gpt2")
        encoding, training = {}, {}
        for megabytes in sizes:
            docs = read_documents(path, megabytes)
            with tempfile.TemporaryDirectory() as temporary:
                folder = trained(docs, Path(temporary) / "bpe", vocab_size=args.vocab_size, recipe="bpe", pattern=pattern)
                encoding[f"{megabytes:g} MB"] = measure(
                    encoders, "encode", docs, str(folder), 0, 1, args.repeats, "tokenizers"
                )
            fewer = tuple(name for name in trainers if name != "sentencepiece")
            training[f"{megabytes:g} MB"] = measure(
                fewer, "train", docs, pattern, args.vocab_size, args.threads, args.repeats, "rustbpe"
            )
        add("growth of encoding", growth_table(f"Encoding {kind}, first pass, 1 thread, MB/s", encoding, "cold"), encoding)
        add(
            "growth of training",
            growth_table(f"Training on {kind}, {args.threads} threads, MB/s", training, "cold"),
            training,
        )
    shown = {title: results for title, results in everything.items() if title.startswith(("Encoding", "Training", "tok("))}
    picture(shown, args.out / "benchmark.png")
    print(f"written: {args.out}/benchmark.md, benchmark.json, benchmark.png")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        # Some packages print to stdout: keep it for the answers, and send everything else to stderr.
        _answers = os.dup(1)
        os.dup2(2, 1)
        work(sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5], int(sys.argv[6]), int(sys.argv[7]))
    else:
        main()
