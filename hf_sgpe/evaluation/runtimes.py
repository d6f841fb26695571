"""Runtimes: other programs that run tokenizers, such as llama.cpp. Do they produce the same ids as this package?

Each runtime has a rule that predicts the answer. A runtime that is installed is also run on text. Most rules depend only on
how text is split into words, so they can be applied before training.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.auto_tokenizer import folder_for_auto_tokenizer, may_be_overridden, read_with_auto_tokenizer
from hf_sgpe.formats import llama_cpp_characters, model_vocab, tiktoken
from hf_sgpe.formats.llama_cpp_pre_tokenizers import PreTokenizer, of_patterns
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.splitting.normalization import NFC, prepare, well_formed
from hf_sgpe.splitting.patterns import PATTERNS
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.terminal.progress import without_remarks
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.vocabulary.special_tokens import any_of
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.weights import gguf
from hf_sgpe.weights.llama_log import silence

logger = logging.getLogger(__name__)

EXACT, NFC_ONLY, DIFFERS, REFUSED = "exact", "exact except for text that is not in the form NFC", "not exact", "refused"

TRANSFORMERS, LLAMA_CPP = "transformers", "llama.cpp"


class Verdict(NamedTuple):
    """One of `EXACT`, `NFC_ONLY`, `DIFFERS` and `REFUSED`, and the reason, which may be empty."""

    what: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if self.why else self.what


Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Runtime:
    """A program that runs tokenizers.

    Attributes:
        packages: Python packages of the program, the main package first. Empty if the program is not a Python package.
        rule: Function that predicts the verdict for a tokenizer, or for the `Splitting` of a future tokenizer.
        open: Function that loads the tokenizer saved in a folder, and returns a function that encodes text. None if the
            program cannot be run from Python.
        is_meant: Function that returns whether this entry covers a given version of the first package.
    """

    name: str
    packages: tuple[str, ...]
    rule: Callable[[TokenizerData | Splitting], Verdict]
    open: Callable[[BPETokenizer, Path], Encode] | None = None
    is_meant: Callable[[str], bool] = lambda version: True

    def _version(self) -> str | None:
        """Return the installed version, or None if the program is missing or this entry does not cover its version."""
        try:
            versions = [importlib.metadata.version(package) for package in self.packages]
        except importlib.metadata.PackageNotFoundError:
            return None
        return versions[0] if versions and self.open and self.is_meant(versions[0]) else None


def verdict_of(what: TokenizerData | Splitting, runtime: str) -> Verdict:
    """Return the verdict that the rule of the runtime called ``runtime`` predicts."""
    return next(entry for entry in RUNTIMES if entry.name == runtime).rule(what)


def find_runtimes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the runtimes that a user typed, spelled as in `RUNTIMES` and without duplicates. A string may
    contain several names, separated by commas.

    >>> find_runtimes(["llama.cpp,Tokenizers-1.0"])
    ('llama.cpp', 'tokenizers 1.0')
    """
    by_typed_name = {_typed(runtime.name): runtime.name for runtime in RUNTIMES}
    names = [names] if isinstance(names, str) else names
    typed = [_typed(name.strip()) for text in names for name in text.split(",")]
    if unknown := [name for name in typed if name not in by_typed_name]:
        raise SGPEError(f"unknown runtime {unknown[0]!r}: choose from {', '.join(by_typed_name)}")
    return tuple(dict.fromkeys(by_typed_name[name] for name in typed))


def _typed(name: str) -> str:
    return name.casefold().replace(" ", "-")


def inexact(what: TokenizerData | Splitting, runtimes: Iterable[str], *, nfc: bool = False) -> list[str]:
    """Return those of ``runtimes`` whose ids are not exactly those of this package, according to their rules.

    Args:
        nfc: Whether a runtime counts as exact if its ids are exact only for text in NFC.

    >>> inexact(Splitting(pattern="bloom"), ["llama.cpp", "transformers"])
    ['llama.cpp']
    """
    enough = {EXACT, NFC_ONLY} if nfc else {EXACT}
    return [name for name in runtimes if verdict_of(what, name).what not in enough]


def portable_patterns(runtimes: Iterable[str]) -> list[str]:
    """Return the names of the split patterns for which all ``runtimes`` produce exact ids.

    >>> portable_patterns(["llama.cpp", "tokenizers 1.0", "gigatoken"])
    ['cl100k', 'o200k', 'llama3', 'qwen2']
    """
    runtimes = list(runtimes)
    return [name for name in PATTERNS if not inexact(Splitting("bpe", pattern=name), runtimes)]


# ---------------------------------------------------------------- trials


@dataclass(frozen=True)
class RuntimeCheck:
    """The result of checking a tokenizer in one runtime.

    Attributes:
        version: Version that was run. None if only the rule was applied.
        lines: Number of lines that were encoded.
        same: Number of lines with equal ids.
        different: The first line with different ids, or None.
    """

    name: str
    version: str | None
    verdict: Verdict
    lines: int = 0
    same: int = 0
    different: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the check as JSON values."""
        return {**asdict(self), "verdict": self.verdict.what, "why": self.verdict.why}


def check_runtimes(
    tokenizer: BPETokenizer,
    lines: Iterable[str] | None = None,
    *,
    names: Iterable[str] | None = None,
    saved: Path | None = None,
) -> Iterator[RuntimeCheck]:
    """Check whether runtimes produce the same ids for a tokenizer as this package. Installed runtimes encode text. For the
    other runtimes, only the rule is applied.

    Args:
        saved: Folder from which the tokenizer was read, or None. transformers loads this folder with ``AutoTokenizer``,
            because the class in its settings may override its ``tokenizer.json``. Other runtimes load the tokenizer as this
            package saves it.
        lines: Lines to encode; None for sample lines. Lines that contain the text of a special token are left out.
        names: Names of runtimes, as in `RUNTIMES`; None for all.
    """
    chosen = None if names is None else set(names)
    # Runtimes treat the text of special tokens differently, and reject lone surrogates.
    special = any_of(frozenset(tokenizer.special_tokens) | frozenset(tokenizer.added_tokens))
    tried = [line for line in map(well_formed, sample_lines() if lines is None else lines) if not special.search(line)]
    expected = tokenizer.encode_batch(tried)
    with TemporaryDirectory() as folder:
        tokenizer.save(folder)
        for runtime in RUNTIMES:
            if chosen is not None and runtime.name not in chosen:
                continue
            version = runtime._version()
            if version is None:
                yield RuntimeCheck(runtime.name, None, runtime.rule(tokenizer.data))
            elif runtime.name == TRANSFORMERS and saved is not None:
                yield _read_as_saved(version, saved, tried, expected)
            else:
                yield _tried(runtime, version, tokenizer, Path(folder), tried, expected)


def warn_of_class(path_or_repo: str | os.PathLike[str], tokenizer: TokenizerData | PieceFolder) -> None:
    """Log a warning if ``AutoTokenizer`` encodes sample lines to other ids than ``tokenizer``, which was read from the same
    folder.
    """
    folder = folder_for_auto_tokenizer(path_or_repo)
    if folder is None or not may_be_overridden(folder):
        return
    lines = sample_lines()
    try:
        reading = read_with_auto_tokenizer(folder, lines)
    except SGPEError:  # the command needs only tokenizer.json
        return
    encoder = tokenizer if isinstance(tokenizer, PieceFolder) else BPETokenizer.of(tokenizer)
    line = _first_different(lines, reading.ids, encoder.encode_batch(lines))
    if line is not None:
        logger.warning(
            "%s: %s, and its ids differ, for example for %r. This command follows tokenizer.json. If the model was trained "
            "with the ids of AutoTokenizer, load the folder with AutoTokenizer, save it with save_pretrained, and use the "
            "saved folder instead",
            path_or_repo,
            reading.cause,
            line,
        )


def stated(tokenizer: BPETokenizer) -> list[tuple[str, Verdict]]:
    """Return the name of each runtime, and the verdict that its rule predicts for this tokenizer."""
    return [(runtime.name, runtime.rule(tokenizer.data)) for runtime in RUNTIMES]


def sample_lines() -> list[str]:
    """Return a greeting in each script, and difficult cases for split patterns, normalizers and byte-level tokenizers."""
    greetings = [script.greeting for script in SCRIPTS.values() if script.greeting]
    return [
        *greetings,
        *(f'({greeting}) "{greeting}", 123 {greeting}…' for greeting in greetings),
        "x = 1234567 23202320; y = -3.25e10 camelCase SNAKE_CASE",
        "Hello, world! It's 12345 o'clock; I'll say:\n\n  don't\tSTOP",
        "def f(x):\r\n    return x_1 + 0.5  # naïve ½ ²",
        "ශ්\u200dරී ක්\u200dෂ ක\u200d ක\u0dd9\u0dcf \u0958 ড\u09bc e\u0301 \ufb01",
        "中文、日本語。한국어 ไทย עברית العربية 😀👩\u200d💻 \u00a0\u2028x",
    ]


def _read_as_saved(version: str, folder: Path, lines: Sequence[str], expected: list[list[int]]) -> RuntimeCheck:
    try:
        reading = read_with_auto_tokenizer(folder, lines)
    except SGPEError as error:
        return RuntimeCheck(TRANSFORMERS, version, Verdict(REFUSED, str(error)[:200]), len(lines))
    different = _first_different(lines, reading.ids, expected)
    same = sum(ids == wanted for ids, wanted in zip(reading.ids, expected, strict=True))
    verdict = Verdict(EXACT)
    if different is not None:
        export = shlex.join(["hf-sgpe", "export", str(folder), "--out", f"{folder.name}-exported"])
        repair = f"{export} writes a folder that AutoTokenizer reads as tokenizer.json"
        verdict = Verdict(DIFFERS, f"{reading.cause}: {repair}")
    return RuntimeCheck(TRANSFORMERS, version, verdict, len(lines), same, different)


def _first_different(lines: Sequence[str], rows: Sequence[list[int]], expected: Sequence[list[int]]) -> str | None:
    return next((line for line, ids, wanted in zip(lines, rows, expected, strict=True) if ids != wanted), None)


def _tried(
    runtime: Runtime, version: str, tokenizer: BPETokenizer, folder: Path, lines: Sequence[str], expected: list[list[int]]
) -> RuntimeCheck:
    assert runtime.open is not None
    failures: list[str] = []
    rows: list[list[int] | None] = []
    with _kept(failures), without_remarks():
        encode = runtime.open(tokenizer, folder)
        for line in lines:
            rows.append(None)
            with _kept(failures):
                rows[-1] = encode(line)
    if failures and not any(line and ids is not None for line, ids in zip(lines, rows, strict=False)):
        return RuntimeCheck(runtime.name, version, Verdict(REFUSED, failures[0]), len(lines))
    rule = runtime.rule(tokenizer.data)
    differing = [line for line, ids, wanted in zip(lines, rows, expected, strict=True) if ids != wanted]
    if rule.what == DIFFERS or (rule.what == NFC_ONLY and not differing):
        verdict = rule  # a few lines with equal ids do not refute the rule
    elif not differing:
        verdict = Verdict(EXACT)
    elif all(prepare(line, "nfc") != line for line in differing):
        verdict = Verdict(NFC_ONLY)
    else:
        verdict = Verdict(DIFFERS, failures[0] if failures else "")
    same = len(lines) - len(differing)
    return RuntimeCheck(runtime.name, version, verdict, len(lines), same, next(iter(differing), None))


@contextmanager
def _kept(failures: list[str]) -> Iterator[None]:
    """Catch an error raised in the ``with`` block, and append the first line of its message to ``failures``."""
    try:
        yield
    except BaseException as error:
        # A panic in an engine written in Rust is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        failures.append(next(iter(str(error).strip().splitlines()), type(error).__name__)[:200])


# ---------------------------------------------------------------- the rules


def _split_of(what: TokenizerData | Splitting) -> Splitting:
    return what if isinstance(what, Splitting) else what.splitting


def _always(what: TokenizerData | Splitting) -> Verdict:
    return Verdict(EXACT)


def _unless_respelled(what: TokenizerData | Splitting) -> Verdict:
    return Verdict(NFC_ONLY if _split_of(what).normalization == NFC else EXACT)


def _knowing(*names: str) -> Callable[[TokenizerData | Splitting], Verdict]:
    """Return the rule of a program that supports only the split patterns called ``names`` and rejects all other regexes."""

    def rule(what: TokenizerData | Splitting) -> Verdict:
        splitting = _split_of(what)
        if splitting.normalization.is_metaspace:  # has no pattern
            return Verdict(EXACT)
        if splitting.recipe == "bpe" and splitting.base is not None and splitting.base.name in names:
            return Verdict(EXACT)
        return Verdict(REFUSED, f"it supports only the split patterns {', '.join(sorted(names))}")

    return rule


def _of_fastokens(what: TokenizerData | Splitting) -> Verdict:
    if _split_of(what).normalization.scheme in ("metaspace-always", "metaspace-first"):
        return Verdict(REFUSED, "it does not support the pre-tokenizer Metaspace")
    return Verdict(EXACT)


def _of_tiktoken(what: TokenizerData | Splitting) -> Verdict:
    try:
        tiktoken.one_pattern(_split_of(what))
    except SGPEError as error:
        return Verdict(REFUSED, str(error))
    return _unless_respelled(what)


def _of_llama_cpp(what: TokenizerData | Splitting) -> Verdict:
    pre_tokenizer: PreTokenizer | None
    if isinstance(what, Splitting) and what.normalization.is_metaspace:
        differs = llama_cpp_characters.text_differs(what.normalization)
        pre_tokenizer = PreTokenizer(llama_cpp_characters.KIND, (), differs=differs)
    elif isinstance(what, Splitting):
        pre_tokenizer = next(iter(of_patterns(what.patterns)), None) if what.recipe == "bpe" else None
    else:
        if merged := model_vocab.left_out(what):
            tokens = ", ".join(map(repr, merged))
            return Verdict(DIFFERS, f"it encodes other text as the added tokens {tokens}: pass ids instead of text")
        pre_tokenizer = gguf.pre_tokenizer_of(what)
    if pre_tokenizer is None:
        return Verdict(DIFFERS, "none of its pre-tokenizers splits text this way: pass ids instead of text, as hf-sgpe does")
    if pre_tokenizer.differs:
        own = f"its pre-tokenizer {pre_tokenizer.name}" if pre_tokenizer.regexes else "its own tokenizer"
        return Verdict(DIFFERS, f"{own} produces different ids for {pre_tokenizer.differs}")
    return _unless_respelled(what)


# ---------------------------------------------------------------- loading


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


RUNTIMES = (
    Runtime("transformers", ("transformers",), _always, _open_transformers),
    Runtime("tokenizers before 1.0", ("tokenizers",), _always, _open_tokenizers, lambda version: version < "1"),
    Runtime(
        "tokenizers 1.0",
        ("tokenizers",),
        _knowing("gpt2", "cl100k", "llama3", "qwen2", "o200k"),
        _open_tokenizers,
        lambda version: version >= "1",
    ),
    Runtime("transformers.js", (), _always),
    Runtime("tiktoken", ("tiktoken",), _of_tiktoken, _open_tiktoken),
    Runtime(LLAMA_CPP, ("llama-cpp-python", "gguf"), _of_llama_cpp, _open_llama_cpp),
    Runtime("OpenVINO Tokenizers", ("openvino-tokenizers", "transformers"), _unless_respelled, _open_openvino),
    Runtime(
        "gigatoken",
        ("gigatoken",),
        _knowing("cl100k", "llama3", "qwen2", "qwen35", "o200k", "tekken"),
        _open_gigatoken,
    ),
    Runtime("fastokens", ("fastokens",), _of_fastokens, _open_fastokens),
)
"""The supported runtimes."""
