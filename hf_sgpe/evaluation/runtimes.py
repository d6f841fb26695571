"""Where a tokenizer runs: which programs give its ids, tried on text where they are installed, else by what is known."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hf_sgpe.evaluation.runtime_rules import DIFFERS, EXACT, NFC_ONLY, REFUSED, Verdict, verdict_of
from hf_sgpe.formats import tiktoken
from hf_sgpe.splitting.normalization import prepare, well_formed
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.terminal.progress import without_remarks
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.vocabulary.special_tokens import any_of
from hf_sgpe.weights import gguf
from hf_sgpe.weights.llama_log import silence

Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Runtime:
    """A program that tokenizers are used in.

    Attributes:
        name: Of the program, with its versions if they differ.
        packages: What it is made of in Python, its own first; none where it is no package of Python.
        is_meant: Whether a version of the first package is one of these.
        rule: What it gives, by its rules.
        open: Loads the tokenizer, which is saved in a folder, and gives what encodes by it.
    """

    name: str
    packages: tuple[str, ...]
    rule: Callable[[BPETokenizer], Verdict]
    open: Callable[[BPETokenizer, Path], Encode] | None = None
    is_meant: Callable[[str], bool] = lambda version: True

    def version(self) -> str | None:
        """The installed version; None where it, or a part of it, is not there."""
        try:
            versions = [importlib.metadata.version(package) for package in self.packages]
        except importlib.metadata.PackageNotFoundError:
            return None
        return versions[0] if versions and self.open and self.is_meant(versions[0]) else None


@dataclass(frozen=True)
class RuntimeCheck:
    """What a runtime gives.

    Attributes:
        name: Of the runtime.
        version: The version that was tried; None where its rules speak.
        verdict: What was found.
        lines: How many lines were tried.
        same: How many of them had the same ids.
        different: The first that had not, or None.
    """

    name: str
    version: str | None
    verdict: Verdict
    lines: int = 0
    same: int = 0
    different: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {**asdict(self), "verdict": self.verdict.what, "why": self.verdict.why}


def check_runtimes(tokenizer: BPETokenizer, lines: Iterable[str] | None = None) -> Iterator[RuntimeCheck]:
    """Tries a tokenizer in all runtimes that are installed; of the others it says what is known.

    Args:
        lines: Text to try it on, without those that have the text of a special token; None for some lines of all scripts
            and of what tokenizers trip over.
    """
    # What programs do with the text of special tokens is another question, and what is no text they refuse.
    special = any_of(frozenset(tokenizer.special_tokens) | frozenset(tokenizer.added_tokens))
    tried = [line for line in map(well_formed, sample_lines() if lines is None else lines) if not special.search(line)]
    expected = tokenizer.encode_batch(tried)
    with TemporaryDirectory() as folder:
        tokenizer.save(folder)
        for runtime in RUNTIMES:
            version = runtime.version()
            if version is None:
                yield RuntimeCheck(runtime.name, None, runtime.rule(tokenizer))
            else:
                yield _tried(runtime, version, tokenizer, Path(folder), tried, expected)


def stated(tokenizer: BPETokenizer) -> list[tuple[str, Verdict]]:
    """What is known of each runtime, without trying any."""
    return [(runtime.name, runtime.rule(tokenizer)) for runtime in RUNTIMES]


def sample_lines() -> list[str]:
    """A greeting in each script, and what split patterns, normalizers and byte-level tokenizers trip over."""
    greetings = [script.greeting for script in SCRIPTS.values() if script.greeting]
    return [
        *greetings,
        *(f'({greeting}) "{greeting}", 123 {greeting}…' for greeting in greetings),
        "Hello, world! It's 12345 o'clock; I'll say:\n\n  don't\tSTOP",
        "def f(x):\r\n    return x_1 + 0.5  # naïve ½ ²",
        "ශ්\u200dරී ක්\u200dෂ ක\u200d ක\u0dd9\u0dcf \u0958 ড\u09bc e\u0301 \ufb01",
        "中文、日本語。한국어 ไทย עברית العربية 😀👩\u200d💻 \u00a0\u2028x",
    ]


def _tried(
    runtime: Runtime, version: str, tokenizer: BPETokenizer, folder: Path, lines: Sequence[str], expected: list[list[int]]
) -> RuntimeCheck:
    assert runtime.open is not None
    failures: list[str] = []

    def ids_of(encode: Encode, line: str) -> list[int] | None:
        with _kept(failures):
            return encode(line)
        return None

    encode: Encode | None = None
    with _kept(failures), without_remarks():
        encode = runtime.open(tokenizer, folder)
    found = [ids_of(encode, line) for line in lines] if encode is not None else []
    if failures and not any(line and ids is not None for line, ids in zip(lines, found, strict=False)):
        return RuntimeCheck(runtime.name, version, Verdict(REFUSED, failures[0]), len(lines))
    rule = runtime.rule(tokenizer)
    differing = [line for line, ids, wanted in zip(lines, found, expected, strict=True) if ids != wanted]
    if rule.what == DIFFERS or (rule.what == NFC_ONLY and not differing):
        verdict = rule  # few lines are no proof
    elif not differing:
        verdict = Verdict(EXACT)
    elif all(prepare(line, "nfc") != line for line in differing):
        verdict = Verdict(NFC_ONLY)
    else:
        verdict = Verdict(DIFFERS, failures[0] if failures else "")
    same = len(lines) - len(differing)
    return RuntimeCheck(runtime.name, version, verdict, len(lines), same, differing[0] if differing else None)


@contextmanager
def _kept(failures: list[str]) -> Iterator[None]:
    """A block whose error is kept, in its own words and a line."""
    try:
        yield
    except BaseException as error:
        # Engines in Rust panic, which is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        failures.append(next(iter(str(error).strip().splitlines()), type(error).__name__)[:200])


# ---------------------------------------------------------------- how each is asked


def _open_tokenizers(tokenizer: BPETokenizer, folder: Path) -> Encode:
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: list(loaded.encode(text, add_special_tokens=False).ids)


def _open_transformers(tokenizer: BPETokenizer, folder: Path) -> Encode:
    from transformers import PreTrainedTokenizerFast

    loaded = PreTrainedTokenizerFast.from_pretrained(str(folder))
    return lambda text: list(loaded(text, add_special_tokens=False)["input_ids"])


def _open_tiktoken(tokenizer: BPETokenizer, folder: Path) -> Encode:
    encoding = tiktoken.to_tiktoken(tokenizer.data)
    return lambda text: encoding.encode(text, allowed_special="all")


def _open_llama_cpp(tokenizer: BPETokenizer, folder: Path) -> Encode:
    import llama_cpp

    silence()
    gguf.write_vocabulary(tokenizer.data, folder / "vocabulary.gguf")
    loaded = llama_cpp.Llama(str(folder / "vocabulary.gguf"), vocab_only=True, verbose=False)
    return lambda text: list(loaded.tokenize(text.encode(), add_bos=False, special=True)) if text else []


def _open_openvino(tokenizer: BPETokenizer, folder: Path) -> Encode:
    import openvino
    from openvino_tokenizers import convert_tokenizer
    from transformers import PreTrainedTokenizerFast

    loaded = PreTrainedTokenizerFast.from_pretrained(str(folder))
    converted = convert_tokenizer(loaded, with_detokenizer=False, add_special_tokens=False)
    compiled = openvino.compile_model(converted, "CPU")
    return lambda text: [int(id) for id in compiled([text])["input_ids"][0]]


def _open_gigatoken(tokenizer: BPETokenizer, folder: Path) -> Encode:
    import gigatoken

    loaded = gigatoken.Tokenizer(str(folder / "tokenizer.json"))
    return lambda text: [int(id) for id in loaded.encode(text)]


def _open_fastokens(tokenizer: BPETokenizer, folder: Path) -> Encode:
    import fastokens

    loaded = fastokens.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: list(loaded.encode(text).ids)


def _runtime(
    name: str,
    packages: tuple[str, ...],
    open: Callable[[BPETokenizer, Path], Encode] | None = None,
    is_meant: Callable[[str], bool] = lambda version: True,
) -> Runtime:
    return Runtime(name, packages, partial(verdict_of, runtime=name), open, is_meant)


RUNTIMES = (
    _runtime("transformers", ("transformers",), _open_transformers),
    _runtime("tokenizers before 1.0", ("tokenizers",), _open_tokenizers, lambda version: version < "1"),
    _runtime("tokenizers 1.0", ("tokenizers",), _open_tokenizers, lambda version: version >= "1"),
    _runtime("transformers.js", ()),
    _runtime("tiktoken", ("tiktoken",), _open_tiktoken),
    _runtime("llama.cpp", ("llama-cpp-python", "gguf"), _open_llama_cpp),
    _runtime("OpenVINO Tokenizers", ("openvino-tokenizers", "transformers"), _open_openvino),
    _runtime("gigatoken", ("gigatoken",), _open_gigatoken),
    _runtime("fastokens", ("fastokens",), _open_fastokens),
)
"""Those that are known; the rules of each are in `hf_sgpe.evaluation.runtime_rules`."""
