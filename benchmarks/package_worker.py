"""Run one package in a process of its own, and measure it when `speed.py` asks. The process may use another interpreter.
This file has both ends of the pipe for questions and answers. As a program, it takes the descriptor of an inherited pipe.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import multiprocessing
import os
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness import Sample, forget_peak, measured, peak_bytes
from packages import PACKAGES, TRAINERS, Lacks, Package, Rows, Task, Texts

MEASURES = ("batch", "lists", "5000", "200", "tok", "map", "decode")
"""The names of the measures of encoding and decoding. `speed.py` has their meaning."""
ONE_THREAD_ONLY = ("5000", "200")
# These packages have no cache across texts, so a second pass is no faster.
WITHOUT_CACHE = ("tokenizers", "tiktoken", "kitoken")
_TIMEOUT = 900  # seconds for one answer of a package


# ---------------------------------------------------------------- the side of speed.py


class Worker:
    """A process that runs one package, as seen from `speed.py`.

    Args:
        row: The name of the package's row in tables.
        python: Path of the interpreter that runs the package.
        **job: The job, as described in `_work`. It is sent through the pipe, because texts may be long.
    """

    def __init__(self, row: str, python: str, **job: Any) -> None:
        self.row, self._job = row, job
        self.threads: int = job["threads"]
        self.failures: dict[str, str] = {}
        self._questions, theirs = multiprocessing.Pipe()
        several = {"RAYON_NUM_THREADS": str(self.threads), "TOKENIZERS_PARALLELISM": str(self.threads > 1).lower()}
        environment = {**os.environ, **several, "TRANSFORMERS_VERBOSITY": "error"}
        command = [python, __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        with contextlib.suppress(OSError):  # the process has ended; the first question reports it
            self._questions.send(job)

    def ask(self, what: str, measure: str) -> Any:
        """Return the answer of the process to a question about a measure (see `_work`). If the measure fails or has failed
        before, return None; ``failures`` has the reason.
        """
        if measure in self.failures:
            return None
        answer: Any = f"no answer after {_TIMEOUT} s"
        try:
            self._questions.send((what, measure))
            if self._questions.poll(_TIMEOUT):
                answer = self._questions.recv()
        except (EOFError, OSError):
            answer = "the process has ended"
        if isinstance(answer, str):
            self.failures[measure] = answer
            return None
        return answer

    def turn(self, measure: str) -> dict[str, Sample]:
        """Measure a first pass (``cold``) and, if a cache may make it faster, a second pass (``warm``). Return the times of
        each pass that succeeded.
        """
        once = measure in ("train", "decode") or self._job["name"] in WITHOUT_CACHE
        answers = {how: self.ask(how, measure) for how in (("cold",) if once else ("cold", "warm"))}
        return {how: answer for how, answer in answers.items() if answer is not None}

    def close(self) -> None:
        self._questions.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def version_there(name: str, python: str) -> str:
    """Return the version of a package in the interpreter ``python``, or an empty string if it is not installed, or only in
    another major version than ``name`` means.
    """
    package = {"hf_sgpe": "hf-sgpe", "tokenizers-1": "tokenizers", "quicktok": "quicktok-v1"}.get(name, name)
    command = [python, "-c", f"from importlib.metadata import version; print(version({package!r}))"]
    installed = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    wrong = {"tokenizers": "1.", "tokenizers-1": "0."}.get(name)
    return "" if wrong and installed.startswith(wrong) else installed


# ---------------------------------------------------------------- the side of the process


def _work(questions: Connection) -> None:
    """Run the package, and answer questions of the form ``(what, measure)`` until the pipe is closed.

    For ``cold`` (first pass) and ``warm`` (second pass), the measure is run, and the answer is the time taken. For ``peak``,
    the answer is the peak memory in bytes. For ``check``, the answer is a list of digests, one for each row of the last
    result. If an answer is a string, the question failed, and the string is the reason.

    The first message is the job, a dict with ``name``, ``texts``, ``threads`` and ``core`` (the only core to run on, or
    None). For encoding, the job also has ``folder``. For training, it also has ``pattern`` and ``size``. If the whole
    process is measured, ``texts`` is the path of a file instead of a list.
    """
    job = questions.recv()
    if job["core"] is not None:
        os.sched_setaffinity(0, {job["core"]})
    before = 0 if isinstance(job["texts"], Path) else forget_peak()
    rows: Rows = []
    result: Any = None
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
                        inputs, (run, comparable) = _task(job, measure, rows)
                    _renew(inputs)
                    gc.collect()
                    result, taken = measured(run)
                    questions.send(taken)
                case "peak":
                    questions.send(peak_bytes() - before)
                case "check":
                    # Asked after ``peak``, because digests take memory.
                    questions.send([_digest(row) for row in comparable(result)])
        except KeyboardInterrupt:
            return
        except BaseException as error:  # Rust panics are not subclasses of Exception
            reason = str(error) if isinstance(error, Lacks) else f"{type(error).__name__}: {error}"
            questions.send(" ".join(reason.split())[:300])


def _task(job: dict[str, Any], measure: str, rows: Rows) -> tuple[Texts, Task]:
    """Return the function to time for a measure, and its input texts if they must be new in each pass.

    To encode, first load the tokenizer, and run the measure on a tiny input, so that imports are not timed. ``rows`` keeps
    the ids for the measure ``decode``.
    """
    texts = job["texts"]
    if measure == "train":
        return [], TRAINERS[job["name"]](texts, job["pattern"], job["size"], job["threads"])
    package = PACKAGES[job["name"]](job["folder"], job["threads"])
    encode: Callable[[Texts], Any] = package.lists
    comparable: Callable[[Any], Iterable[Any]] = list
    match measure:
        case "decode":
            rows[:] = rows or package.lists(texts)
            package.decode([rows[0][:1]])
            return [], (partial(package.decode, rows), list)
        case "map":
            _mapped(package, ["x"])()
            return [], (_mapped(package, texts), lambda dataset: dataset["input_ids"][:])
        case "batch":
            encode, comparable = package.batch or package.lists, package.rows
        case "tok":
            encode, comparable = package.caller(), lambda encoded: encoded["input_ids"]
        case "5000" | "200":
            encode = lambda texts: [package.one(text) for text in texts]  # noqa: E731
            text, size = "".join(texts), int(measure)
            texts = [text[start : start + size] for start in range(0, len(text), size)]
    encode(["x"])
    return texts, (partial(encode, texts), comparable)


def _renew(texts: Texts) -> None:
    """Replace each text in a list by a copy.

    Some packages store the UTF-8 of a text in Python's string object, so they encode the same object faster again. In real
    work, the texts to encode are always new objects.
    """
    for place, text in enumerate(texts):
        texts[place] = text[:1] + text[1:]


def _mapped(package: Package, texts: Texts) -> Callable[[], Any]:
    """Return a function that encodes the texts with `datasets.map`, in memory. It calls the package's transformers tokenizer
    or, if there is none, its function for lists of ids.
    """
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    datasets.disable_caching()
    dataset = datasets.Dataset.from_dict({"text": texts})
    function: Callable[[Any], Any]
    try:
        caller = package.caller()
        function = lambda batch: caller(batch["text"])  # noqa: E731
    except Lacks:
        function = lambda batch: {"input_ids": package.lists(batch["text"])}  # noqa: E731
    return partial(dataset.map, function, batched=True, remove_columns=["text"], keep_in_memory=True)


def _digest(row: Any) -> bytes:
    if isinstance(row, str):
        row = row.encode()
    elif not isinstance(row, bytes):
        row = array("q", row).tobytes()
    return hashlib.blake2b(row, digest_size=8).digest()


if __name__ == "__main__":
    os.dup2(2, 1)  # some packages print to stdout
    with Connection(int(sys.argv[1])) as pipe:
        _work(pipe)
