"""What `benchmark.py` measures of each package, and the process in which it does.

    python benchmark_peers.py versions NAME…    prints the versions that this interpreter has, as JSON
    python benchmark_peers.py work DESCRIPTOR    answers questions that come through an inherited pipe
    python benchmark_peers.py train NAME FILE PATTERN SIZE THREADS [TOKENS]
        trains once, prints how many bytes of memory that took at its peak, and may write the tokens to a file

Runs in other environments than `benchmark.py`, so it imports nothing but the standard library and, where it is used, the
package that is measured.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import hashlib
import importlib
import io
import json
import os
import re
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

MEASURES = ("batch", "lists", "5000", "200", "tok", "map", "decode")
"""Batches in the form that costs least, batches as lists, single texts of so many characters as lists, a list of texts in
transformers, `datasets.map(batched=True)`, and batches of ids to text."""
ONE_THREAD_ONLY = ("5000", "200")
# These have no cache across texts, so a second pass would not be faster.
WITHOUT_CACHE = ("tokenizers", "tiktoken", "kitoken")

Texts = list[str]
Rows = list[list[int]]
Task = tuple[Callable[[], Any], Callable[[Any], Iterable[Any]]]
"""What is timed, and what makes its result comparable."""


class Lacks(Exception):
    """The package has no such thing, or does not take this tokenizer."""


# ---------------------------------------------------------------- encoding and decoding with each package


class Package:
    """A package with one tokenizer.

    Args:
        folder: Holds ``tokenizer.json``, and the same for tiktoken in ``tiktoken.json``.
        threads: How many to use, for packages that are told so with each call. The others obey RAYON_NUM_THREADS.
    """

    def __init__(self, folder: str, threads: int) -> None:
        raise NotImplementedError

    def batch(self, texts: Texts) -> Any:
        """The ids of many texts in the form that costs this package least."""
        return self.lists(texts)

    def rows(self, batch: Any) -> Rows:
        """What `batch` returned, as lists. Not timed."""
        rows: Rows = batch
        return rows

    def lists(self, texts: Texts) -> Rows:
        raise NotImplementedError

    def one(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, rows: Rows) -> list[Any]:
        """Texts, or their bytes where the package has no more."""
        raise NotImplementedError

    def caller(self) -> Callable[[Texts], Any]:
        """The same as a tokenizer of transformers, or a drop-in for one."""
        raise Lacks("no tokenizer for transformers")


class HfSgpe(Package):
    def __init__(self, folder: str, threads: int) -> None:
        from hf_sgpe import BPETokenizer

        self.tokenizer, self.threads = BPETokenizer.from_pretrained(folder), threads

    def batch(self, texts: Texts) -> Any:
        return self.tokenizer.encode_batch_to_numpy(texts, threads=self.threads)

    def rows(self, batch: Any) -> Rows:
        return split(batch[0], batch[1][:-1])

    def lists(self, texts: Texts) -> Rows:
        return self.tokenizer.encode_batch(texts, threads=self.threads)

    def one(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def decode(self, rows: Rows) -> list[Any]:
        return self.tokenizer.decode_batch(rows)

    def caller(self) -> Callable[[Texts], Any]:
        from hf_sgpe import SGPETokenizerFast

        return SGPETokenizerFast.from_bpe(self.tokenizer)


class Tokenizers(Package):
    def __init__(self, folder: str, threads: int) -> None:
        from tokenizers import Tokenizer

        self.folder = folder
        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")

    def batch(self, texts: Texts) -> Any:
        return self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)

    def rows(self, batch: Any) -> Rows:
        return [encoding.ids for encoding in batch]

    def lists(self, texts: Texts) -> Rows:
        return self.rows(self.batch(texts))

    def one(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, rows: Rows) -> list[Any]:
        texts: Texts = self.tokenizer.decode_batch(rows, skip_special_tokens=False)
        return texts

    def caller(self) -> Callable[[Texts], Any]:
        return standard_tokenizer(self.folder)


class Tokenizers1(Tokenizers):
    """Version 1.0, which has no batches for decoding, and which no transformers takes yet."""

    def batch(self, texts: Texts) -> Any:
        return self.tokenizer.encode_batch(texts, add_special_tokens=False)

    def decode(self, rows: Rows) -> list[Any]:
        decode = self.tokenizer.decode
        return [decode(row, skip_special_tokens=False) for row in rows]

    def caller(self) -> Callable[[Texts], Any]:
        raise Lacks("transformers does not take this version")


class Gigatoken(Package):
    def __init__(self, folder: str, threads: int) -> None:
        import gigatoken

        # gigatoken recognises the pattern of GPT-2 only in the form of ByteLevel with use_regex.
        content = json.loads(Path(folder, "tokenizer.json").read_text(encoding="utf-8"))
        if "'s|'t|" in json.dumps(content["pre_tokenizer"]) and "(?i:" not in json.dumps(content["pre_tokenizer"]):
            byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
            content["pre_tokenizer"] = byte_level
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "tokenizer.json"
            path.write_text(json.dumps(content), encoding="utf-8", newline="\n")
            self.tokenizer = gigatoken.Tokenizer(str(path))
        self.parallel = threads > 1

    def batch(self, texts: Texts) -> Any:
        return self.tokenizer.encode_batch(texts, parallel=self.parallel)

    def rows(self, batch: Any) -> Rows:
        rows: Rows = batch.to_list()
        return rows

    def lists(self, texts: Texts) -> Rows:
        rows: Rows = self.tokenizer.encode_batch_list(texts, parallel=self.parallel)
        return rows

    def one(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text).tolist()
        return ids

    def decode(self, rows: Rows) -> list[Any]:
        decode = self.tokenizer.backend.decode
        return [decode(row) for row in rows]

    def caller(self) -> Callable[[Texts], Any]:
        caller: Callable[[Texts], Any] = self.tokenizer.as_hf()
        return caller


class Fastokens(Package):
    def __init__(self, folder: str, threads: int) -> None:
        import fastokens

        self.folder = folder
        self.tokenizer = fastokens.Tokenizer.from_file(f"{folder}/tokenizer.json")

    def batch(self, texts: Texts) -> Any:
        return self.tokenizer.encode_batch_flat(texts)

    def rows(self, batch: Any) -> Rows:
        import numpy as np

        return split(np.frombuffer(batch[0], np.uint32), np.frombuffer(batch[1], np.uint64)[1:-1].astype(int))

    def lists(self, texts: Texts) -> Rows:
        return [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]

    def one(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text).ids
        return ids

    def decode(self, rows: Rows) -> list[Any]:
        texts: Texts = self.tokenizer.decode_batch(rows)
        return texts

    def caller(self) -> Callable[[Texts], Any]:
        import fastokens

        with contextlib.redirect_stdout(io.StringIO()):  # it says so where it was done before
            fastokens.patch_transformers()
        return standard_tokenizer(self.folder)


class Tiktoken(Package):
    def __init__(self, folder: str, threads: int) -> None:
        import tiktoken

        content = json.loads(Path(folder, "tiktoken.json").read_text(encoding="utf-8"))
        ranks = {base64.b64decode(token): rank for token, rank in content["ranks"].items()}
        self.tokenizer = tiktoken.Encoding("x", pat_str=content["pattern"], mergeable_ranks=ranks, special_tokens={})
        self.threads = threads

    def lists(self, texts: Texts) -> Rows:
        rows: Rows = self.tokenizer.encode_ordinary_batch(texts, num_threads=self.threads)
        return rows

    def one(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode_ordinary(text)
        return ids

    def decode(self, rows: Rows) -> list[Any]:
        texts: Texts = self.tokenizer.decode_batch(rows, num_threads=self.threads)
        return texts


class Kitoken(Package):
    def __init__(self, folder: str, threads: int) -> None:
        import kitoken

        self.tokenizer = kitoken.Kitoken.from_tokenizers_file(f"{folder}/tokenizer.json")

    def lists(self, texts: Texts) -> Rows:
        rows: Rows = self.tokenizer.encode_all(texts, False)
        return rows

    def one(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, False)
        return ids

    def decode(self, rows: Rows) -> list[Any]:
        texts: list[bytes] = self.tokenizer.decode_all(rows)
        return texts


class Quicktok(Package):
    """Of the two packages on PyPI that are imported as quicktok, the one called quicktok-v1."""

    def __init__(self, folder: str, threads: int) -> None:
        quicktok = importlib.import_module("quicktok")
        with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stdout(io.StringIO()):
            quicktok.import_tokenizer(f"{folder}/tokenizer.json", "imported", temporary)
            self.tokenizer = quicktok.Tokenizer("imported", temporary)
        self.threads = threads

    def batch(self, texts: Texts) -> Any:
        return self.tokenizer.encode_batch(texts, self.threads)

    def rows(self, batch: Any) -> Rows:
        return split(batch[0], batch[1][1:-1])

    def lists(self, texts: Texts) -> Rows:
        return self.rows(self.batch(texts))

    def one(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode_ordinary(text)
        return ids

    def decode(self, rows: Rows) -> list[Any]:
        texts: Texts = self.tokenizer.decode_batch(rows)
        return texts


class Wordchipper(Package):
    def __init__(self, folder: str, threads: int) -> None:
        # As of 0.9.2 its Python class is made by from_pretrained alone, from the name of one of OpenAI's vocabularies.
        raise Lacks("loads only the vocabularies of OpenAI")


PACKAGES: dict[str, type[Package]] = {
    "hf_sgpe": HfSgpe,
    "tokenizers": Tokenizers,
    "tokenizers-1": Tokenizers1,
    "gigatoken": Gigatoken,
    "fastokens": Fastokens,
    "tiktoken": Tiktoken,
    "kitoken": Kitoken,
    "quicktok": Quicktok,
    "wordchipper": Wordchipper,
}


def split(ids: Any, ends: Any) -> Rows:
    import numpy as np

    return [row.tolist() for row in np.split(ids, ends)]


def standard_tokenizer(folder: str) -> Callable[[Texts], Any]:
    """The standard class of transformers, on whatever stands behind it."""
    from transformers import PreTrainedTokenizerFast

    tokenizer: Callable[[Texts], Any] = PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer


def cut(texts: Texts, characters: int) -> Texts:
    text = "".join(texts)
    return [text[start : start + characters] for start in range(0, len(text), characters)]


class Encoding:
    """The measures of one package, on its texts."""

    def __init__(self, name: str, texts: Texts, folder: str, threads: int) -> None:
        self._make: Callable[[], Package] = partial(PACKAGES[name], folder, threads)
        self._texts = texts
        self._rows: Rows = []

    def task(self, measure: str) -> Task:
        """A fresh tokenizer, and what it has to do. It has done so with one letter, for what is imported or started then."""
        package = self._make()
        if measure == "decode":
            self._rows = self._rows or package.lists(self._texts)
            package.decode([self._rows[0][:1]])
            return partial(package.decode, self._rows), as_it_is
        first, _ = task_of(package, measure, ["x"])
        first()
        return task_of(package, measure, self._texts)


def task_of(package: Package, measure: str, texts: Texts) -> Task:
    if measure == "batch":
        return partial(package.batch, texts), package.rows
    if measure == "lists":
        return partial(package.lists, texts), as_it_is
    if measure == "tok":
        return partial(package.caller(), texts), lambda encoded: encoded["input_ids"]
    if measure == "map":
        return mapped(package, texts), lambda dataset: dataset["input_ids"][:]
    singles = cut(texts, int(measure))
    return lambda: [package.one(text) for text in singles], as_it_is


def mapped(package: Package, texts: Texts) -> Callable[[], Any]:
    """Over a dataset in memory; with the tokenizer for transformers if there is one, otherwise with lists of ids."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    datasets.disable_caching()
    dataset = datasets.Dataset.from_dict({"text": texts})
    try:
        caller = package.caller()
    except Lacks:
        lists = package.lists
        function: Callable[[Any], Any] = lambda batch: {"input_ids": lists(batch["text"])}  # noqa: E731
    else:
        function = lambda batch: caller(batch["text"])  # noqa: E731
    return partial(dataset.map, function, batched=True, remove_columns=["text"], keep_in_memory=True)


def as_it_is(result: Any) -> Any:
    return result


# ---------------------------------------------------------------- training with each package: the tokens in order of merges


def train_hf_sgpe(texts: Texts | Path, pattern: str, size: int, threads: int) -> Task:
    from trainers import TokenizerTrainer, TrainingConfig

    # The other packages have no minimum frequency, or get the same one.
    config = TrainingConfig(vocab_size=size, recipe="bpe", pattern=pattern, special_tokens=(), min_frequency=1)
    trainer = TokenizerTrainer(config, workers=threads, progress=False)

    def train() -> Any:
        counts = trainer.count(files=[texts]) if isinstance(texts, Path) else trainer.count(iterator=texts)
        return trainer.learn(counts)

    return train, lambda learned: [a + b for a, b in learned.merges]


def train_tokenizers(texts: Texts | Path, pattern: str, size: int, threads: int) -> Task:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    def train() -> Any:
        tokenizer = Tokenizer(models.BPE())
        split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=0, initial_alphabet=alphabet, show_progress=False)
        if isinstance(texts, Path):
            tokenizer.train([str(texts)], trainer)
        else:
            tokenizer.train_from_iterator(texts, trainer)
        return tokenizer

    def tokens(tokenizer: Any) -> list[bytes]:
        from hf_sgpe.vocabulary.byte_strings import string_to_bytes

        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
        return [string_to_bytes(left) + string_to_bytes(right) for left, right in pairs]

    return train, tokens


def train_rustbpe(texts: Texts | Path, pattern: str, size: int, threads: int) -> Task:
    import rustbpe

    def train() -> Any:
        tokenizer = rustbpe.Tokenizer()
        with texts.open(encoding="utf-8") if isinstance(texts, Path) else contextlib.nullcontext(texts) as lines:
            tokenizer.train_from_iterator(iter(lines), size, pattern=pattern)
        return tokenizer

    return train, lambda learned: [bytes(token) for token, rank in learned.get_mergeable_ranks() if rank >= 256]


def train_ffbpe(texts: Texts, pattern: str, size: int, threads: int) -> Task:
    import ffbpe

    return lambda: ffbpe.train_bpe(texts, vocab_size=size), lambda learned: by_id(learned.vocab)


def train_gigatoken(texts: Texts | Path, pattern: str, size: int, threads: int) -> Task:
    import gigatoken

    # A file's documents are its lines here as elsewhere, but without the line breaks, which it drops.
    data = texts if isinstance(texts, Path) else "<|doc|>".join(texts).encode()
    separator = b"\n" if isinstance(texts, Path) else b"<|doc|>"
    train = partial(gigatoken.train_bpe, data, size, [], separator=separator)
    return train, lambda learned: [left + right for left, right in learned[1]]


def train_bpeasy(texts: Texts, pattern: str, size: int, threads: int) -> Task:
    import bpeasy

    return lambda: bpeasy.train_bpe(iter(texts), pattern, 128, size), by_id


def train_sentencepiece(texts: Texts, pattern: str, size: int, threads: int) -> Task:
    import sentencepiece

    def train() -> None:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for text in texts for line in text.split("\n")),
            model_writer=io.BytesIO(),
            vocab_size=size,
            model_type="bpe",
            num_threads=threads,
            byte_fallback=True,
            minloglevel=2,
        )

    return train, lambda _: ()


def by_id(vocab: dict[bytes, int]) -> list[bytes]:
    return sorted(vocab, key=vocab.__getitem__)[256:]


TRAINERS: dict[str, Callable[[Any, str, int, int], Task]] = {
    "hf_sgpe": train_hf_sgpe,
    "tokenizers": train_tokenizers,
    "rustbpe": train_rustbpe,
    "ffbpe": train_ffbpe,
    "gigatoken": train_gigatoken,
    "bpeasy": train_bpeasy,
    "sentencepiece": train_sentencepiece,
}


# ---------------------------------------------------------------- the process of one package


def work(questions: Connection) -> None:
    """Answers ``(what, measure)``: ``cold`` and ``warm`` with seconds by the clock and the processor, ``peak`` with bytes,
    and ``check`` with what to compare.

    The first message says what to do: a dict with ``name``, ``texts``, ``threads``, ``core`` (the only one to run on, or
    None), and ``folder``, or ``pattern`` and ``size`` to train. An answer that is a string says why there is none.
    """
    job = questions.recv()
    if job["core"] is not None:
        os.sched_setaffinity(0, {job["core"]})
    make: Callable[[str], Task]
    if "folder" in job:
        make = Encoding(job["name"], job["texts"], job["folder"], job["threads"]).task
    else:
        trainer = partial(TRAINERS[job["name"]], job["texts"], job["pattern"], job["size"], job["threads"])
        make = lambda _: trainer()  # noqa: E731
    before = forget_peak()
    result: Any = None
    run: Callable[[], Any]
    while True:
        try:
            what, measure = questions.recv()
        except EOFError:
            return
        try:
            match what:
                case "cold" | "warm":
                    result = None
                    if what == "cold":
                        run, comparable = make(measure)
                        gc.collect()
                    started, cpu_started = time.perf_counter(), time.process_time()
                    result = run()
                    questions.send((time.perf_counter() - started, time.process_time() - cpu_started))
                case "peak":
                    questions.send(peak_bytes() - before)
                case "check":
                    # After ``peak``, because it takes memory itself.
                    questions.send([digest(row) for row in comparable(result)])
        except KeyboardInterrupt:
            return
        except BaseException as error:  # panics of Rust are no Exception
            reason = str(error) if isinstance(error, Lacks) else f"{type(error).__name__}: {error}"
            questions.send(" ".join(reason.split())[:300])


def digest(row: Any) -> bytes:
    if isinstance(row, str):
        row = row.encode()
    data = row if isinstance(row, bytes) else array("q", row).tobytes()
    return hashlib.blake2b(data, digest_size=8).digest()


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


def versions(names: list[str]) -> dict[str, str | None]:
    """None for what is not installed here."""
    return {name: installed_version(name) for name in names}


def installed_version(name: str) -> str | None:
    distribution = {"hf_sgpe": "hf-sgpe", "tokenizers-1": "tokenizers", "quicktok": "quicktok-v1"}.get(name, name)
    try:
        installed = version(distribution)
    except PackageNotFoundError:
        return None
    wrong = {"tokenizers": "1.", "tokenizers-1": "0."}.get(name)
    return None if wrong and installed.startswith(wrong) else installed


def main(command: str, *arguments: str) -> None:
    match command:
        case "versions":
            print(json.dumps(versions(list(arguments))))
        case "work":
            os.dup2(2, 1)  # some packages print
            with Connection(int(arguments[0])) as questions:
                work(questions)
        case "train":
            name, file, pattern, size, threads, *out = arguments
            run, tokens = TRAINERS[name](Path(file), pattern, int(size), int(threads))
            result = run()
            print(peak_bytes())
            for path in out:
                content = json.dumps([token.hex() for token in tokens(result)])
                Path(path).write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
