"""Runtimes, the programs that tokenizers are used in: which of them give a tokenizer's ids, by the rules of each, and tried
on text where they are installed. Most rules are about the split alone, so training asks them before it learns.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import model_vocab, tiktoken
from hf_sgpe.formats.llama_cpp_pre_tokenizers import of_patterns
from hf_sgpe.splitting.normalization import prepare, well_formed
from hf_sgpe.splitting.patterns import PATTERNS
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.terminal.progress import without_remarks
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.vocabulary.special_tokens import any_of
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.weights import gguf
from hf_sgpe.weights.llama_log import silence

EXACT, NFC_ONLY, DIFFERS, REFUSED = "exact", "exact but for text that is not in the form NFC", "not exact", "refused"

LLAMA_CPP = "llama.cpp"


class Verdict(NamedTuple):
    """One of `EXACT`, `NFC_ONLY`, `DIFFERS` and `REFUSED`, and why."""

    what: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if self.why else self.what


Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Runtime:
    """A program that tokenizers are used in.

    Attributes:
        name: Of the program, with its versions if they differ.
        packages: What it is made of in Python, its own first; none where it is no package of Python.
        is_meant: Whether a version of the first package is one of these.
        rule: What it gives for a tokenizer, or for any that cuts text in some way.
        open: Loads the tokenizer, which is saved in a folder, and gives what encodes by it.
    """

    name: str
    packages: tuple[str, ...]
    rule: Callable[[TokenizerData | Splitting], Verdict]
    open: Callable[[BPETokenizer, Path], Encode] | None = None
    is_meant: Callable[[str], bool] = lambda version: True

    def version(self) -> str | None:
        """Return the installed version; None where it, or a part of it, is not there."""
        try:
            versions = [importlib.metadata.version(package) for package in self.packages]
        except importlib.metadata.PackageNotFoundError:
            return None
        return versions[0] if versions and self.open and self.is_meant(versions[0]) else None


def verdict_of(what: TokenizerData | Splitting, runtime: str) -> Verdict:
    """Return what a runtime, one of `RUNTIMES`, gives for a tokenizer, or for any that cuts text in some way."""
    return next(one for one in RUNTIMES if one.name == runtime).rule(what)


def find_runtimes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in `RUNTIMES` that are meant, each once.

    Args:
        names: In any case, with spaces or hyphens; several can be in one text, with commas between.

    Raises:
        SGPEError: a name is unknown.

    >>> find_runtimes(["llama.cpp,Tokenizers-1.0"])
    ('llama.cpp', 'tokenizers 1.0')
    """
    known = {_typed(runtime.name): runtime.name for runtime in RUNTIMES}
    given = [_typed(name.strip()) for text in names for name in text.split(",")]
    if unknown := [name for name in given if name not in known]:
        raise SGPEError(f"unknown runtime {unknown[0]!r}: known are {', '.join(known)}")
    return tuple(dict.fromkeys(known[name] for name in given))


def _typed(name: str) -> str:
    """Return a name of a runtime as it is typed on a command line."""
    return name.casefold().replace(" ", "-")


def inexact(what: TokenizerData | Splitting, runtimes: Iterable[str], *, nfc: bool = False) -> list[str]:
    """Return those runtimes that do not give the ids of a tokenizer, or of one that cuts text in some way.

    Args:
        nfc: Whether it is enough that a runtime is exact on text in the form NFC.

    >>> inexact(Splitting(pattern="bloom"), ["llama.cpp", "transformers"])
    ['llama.cpp']
    """
    enough = {EXACT, NFC_ONLY} if nfc else {EXACT}
    return [name for name in runtimes if verdict_of(what, name).what not in enough]


def portable_patterns(runtimes: Iterable[str]) -> list[str]:
    """Return the names of the split patterns that all of some runtimes give exact ids for.

    >>> portable_patterns(["llama.cpp", "tokenizers 1.0", "gigatoken"])
    ['cl100k', 'o200k', 'llama3', 'qwen2']
    """
    runtimes = list(runtimes)
    return [name for name in PATTERNS if not inexact(Splitting("bpe", pattern=name), runtimes)]


# ---------------------------------------------------------------- tried


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
        """Return all of it as JSON values."""
        return {**asdict(self), "verdict": self.verdict.what, "why": self.verdict.why}


def check_runtimes(tokenizer: BPETokenizer, lines: Iterable[str] | None = None) -> Iterator[RuntimeCheck]:
    """Try a tokenizer in all runtimes that are installed; of the others it says what is known.

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
                yield RuntimeCheck(runtime.name, None, runtime.rule(tokenizer.data))
            else:
                yield _tried(runtime, version, tokenizer, Path(folder), tried, expected)


def stated(tokenizer: BPETokenizer) -> list[tuple[str, Verdict]]:
    """Return what is known of each runtime, without trying any."""
    return [(runtime.name, runtime.rule(tokenizer.data)) for runtime in RUNTIMES]


def sample_lines() -> list[str]:
    """Return a greeting in each script, and what split patterns, normalizers and byte-level tokenizers trip over."""
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
    rule = runtime.rule(tokenizer.data)
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
    """Keep the error of a block, in its own words and a line."""
    try:
        yield
    except BaseException as error:
        # Engines in Rust panic, which is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        failures.append(next(iter(str(error).strip().splitlines()), type(error).__name__)[:200])


# ---------------------------------------------------------------- the rules


def _split_of(what: TokenizerData | Splitting) -> Splitting:
    return what if isinstance(what, Splitting) else what.splitting


def _always(what: TokenizerData | Splitting) -> Verdict:
    return Verdict(EXACT)


def _unless_respelled(what: TokenizerData | Splitting) -> Verdict:
    return Verdict(NFC_ONLY if _split_of(what).normalization == "nfc" else EXACT)


def _knowing(*names: str) -> Callable[[TokenizerData | Splitting], Verdict]:
    """Return the rule of a program that has code for some split patterns, and refuses any other regex."""

    def rule(what: TokenizerData | Splitting) -> Verdict:
        splitting = _split_of(what)
        if splitting.recipe == "bpe" and splitting.base is not None and splitting.base.name in names:
            return Verdict(EXACT)
        return Verdict(REFUSED, f"its regexes are not among those it has code for: {', '.join(sorted(names))}")

    return rule


def _of_tiktoken(what: TokenizerData | Splitting) -> Verdict:
    try:
        tiktoken.one_pattern(_split_of(what))
    except SGPEError as error:
        return Verdict(REFUSED, str(error))
    return _unless_respelled(what)


def _of_llama_cpp(what: TokenizerData | Splitting) -> Verdict:
    if isinstance(what, Splitting):
        known = next(iter(of_patterns(what.patterns)), None) if what.recipe == "bpe" else None
    else:
        if merged := model_vocab.left_out(what):
            return Verdict(DIFFERS, f"it takes other text for the added tokens {', '.join(map(repr, merged))}: give it ids")
        known = gguf.pre_tokenizer_of(what)
    if known is None:
        return Verdict(DIFFERS, "it knows split patterns by name, and none that cuts alike: give it ids, as hf-sgpe does")
    if known.differs:
        return Verdict(DIFFERS, f"its pre-tokenizer {known.name} gives other ids for {known.differs}")
    return _unless_respelled(what)


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
    Runtime("fastokens", ("fastokens",), _always, _open_fastokens),
)
"""Those that are known."""
