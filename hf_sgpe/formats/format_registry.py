"""The file formats of tokenizers, with one record for each format. The command line and the documentation list these
formats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import tokenizer_format
from hf_sgpe.splitting.normalization import NFC, NONE
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


class Written(NamedTuple):
    """A summary of a written file: a sentence for people, and facts for ``--json``."""

    remark: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Format:
    """One file format.

    Attributes:
        name: The value of ``hf-sgpe export --format``.
        ending: The ending of the file names. It is empty for a folder.
        holds: A short phrase that says what a file of this format contains.
        read: Function that reads a tokenizer. Its arguments are the source (a path or repository) and the keyword arguments
            in ``read_options``. None if the format can only be written.
        write: Function that writes a tokenizer and returns a summary. Its arguments are the tokenizer, the path and the
            keyword arguments in ``write_options``. None if the format can only be read.
        read_options: Names of the keyword arguments of ``read``. They pass information that is not in the file.
        write_options: Names of the keyword arguments of ``write``. The argument ``model`` is the folder of a model that is
            written together with the tokenizer.
    """

    name: str
    ending: str
    holds: str
    read: Callable[..., TokenizerData] | None = None
    write: Callable[..., Written] | None = None
    read_options: tuple[str, ...] = ()
    write_options: tuple[str, ...] = ()


FORMATS: dict[str, Format] = {}
"""Records of formats, keyed by name. `add_format` adds a record."""


def add_format(form: Format) -> None:
    """Add a format to ``hf-sgpe export``."""
    if form.name in FORMATS:
        raise SGPEError(f"a format {form.name!r} already exists: choose another name")
    FORMATS[form.name] = form


def format_of(source: str | os.PathLike[str]) -> Format:
    """Return the format of a file, folder or Hub repository, ``folder`` if it is unknown.

    >>> format_of("my.tiktoken").name, format_of("user/name").name
    ('tiktoken', 'folder')
    """
    for form in FORMATS.values():
        if form.ending and os.fspath(source).endswith(form.ending):
            return form
    return FORMATS["tiktoken" if tokenizer_format(Path(source)) == "tiktoken" else "folder"]


# ---------------------------------------------------------------- the formats; their modules are imported when needed


def _read_folder(source: str) -> TokenizerData:
    from hf_sgpe.formats.loading import load

    return load(source)


def _write_folder(tokenizer: TokenizerData, out: Path, *, auto_class: bool = False) -> Written:
    from hf_sgpe.formats import tokenizer_json

    tokenizer_json.save(tokenizer, out, auto_class=auto_class)
    return Written(f"{tokenizer.vocab_size:,} tokens", {})


def _read_tiktoken(source: str, **options: Any) -> TokenizerData:
    from hf_sgpe.formats import tiktoken

    return tiktoken.read(source, **options)


def _write_tiktoken(tokenizer: TokenizerData, out: Path) -> Written:
    from hf_sgpe.formats import tiktoken

    tiktoken.write(tokenizer, out)
    left_out = ["split pattern"]
    for kind, ids in (("special", tokenizer.special_tokens), ("added", tokenizer.added_tokens)):
        if ids or kind == "special":
            left_out.append(f"{kind} tokens ({' '.join(f'{text}={id}' for text, id in ids.items()) or 'none'})")
    if tokenizer.template:
        around = " ".join("TEXT" if name == "$A" else name for name, _ in tokenizer.template.single)
        left_out.append(f"template ({around})")
    if tokenizer.normalization != NONE:
        left_out.append(f"normalization ({tokenizer.normalization})")
    return Written(
        f"{len(tokenizer.vocab):,} tokens. Not in the file: {', '.join(left_out)}",
        {"patterns": list(tokenizer.splitting.regexes), "normalization": str(tokenizer.normalization)},
    )


def _read_gguf(source: str) -> TokenizerData:
    from hf_sgpe.formats import gguf_tokenizer

    return gguf_tokenizer.read_tokenizer(Path(source))


def _write_gguf(
    tokenizer: TokenizerData,
    out: Path,
    *,
    model: Path,
    weight_type: str | None = None,
    pre_tokenizer: str | None = None,
) -> Written:
    from hf_sgpe.weights import gguf

    exact = gguf.write(model, out, weight_type, tokenizer=tokenizer, pre_tokenizer=pre_tokenizer) is not None
    size = out.stat().st_size
    name, fitting = gguf.pre_to_write(tokenizer, pre_tokenizer), gguf.pre_tokenizer_of(tokenizer)
    kind = f"kind {name}" if tokenizer.by_characters else f"pre-tokenizer {name}"
    if exact:
        only = " for text that is already in NFC" if tokenizer.normalization == NFC else ""
        but = f", except for {fitting.rarely}" if fitting and fitting.rarely else ""
        around = f", except around {next(iter(tokenizer.matching))!r}" if tokenizer.matching else ""
        own = f"llama.cpp's own tokenizer returns the same ids{only}{but}{around} ({kind})"
    else:
        where = f"for {fitting.differs}" if fitting and name == fitting.name else "than this tokenizer"
        own = f"llama.cpp's own tokenizer ({kind}) returns other ids {where}: pass ids to llama.cpp, as hf-sgpe chat does"
    facts = {"bytes": size, "pre_tokenizer": name, "exact": exact, "normalization": str(tokenizer.normalization)}
    return Written(f"{size / 1e6:,.1f} MB. {own}", facts)


def _read_gpt2(
    source: str,
    *,
    pattern: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
    ignore_merges: bool = False,
) -> TokenizerData:
    from hf_sgpe.formats import gpt2_files

    if pattern is None and Path(source).name == gpt2_files.MERGES_FILE and Path(source).is_file():
        data = _read_folder(source).with_special_tokens(special_tokens or {})  # the settings may name the pattern
        return replace(data, ignore_merges=ignore_merges or data.ignore_merges)
    if pattern is None:
        raise SGPEError(f"{source}: the file has no split pattern: add --pattern NAME")
    vocab = Path(source.removesuffix("merges.txt") + "vocab.json")
    if not vocab.exists():
        raise SGPEError(f"{source}: the ids of its tokens are in {vocab.name}, which must be in the same folder")
    options: dict[str, Any] = {"special_tokens": special_tokens or {}, "ignore_merges": ignore_merges}
    return gpt2_files.read(vocab, Path(source), pattern=pattern, **options)


def _read_sgpe(source: str) -> TokenizerData:
    from hf_sgpe.sgpe.sgpe_vocabulary import SGPEVocabulary

    try:
        return SGPEVocabulary.load(source).to_data()
    except SGPEError as error:
        raise SGPEError(f"{source}: {str(error).removeprefix(f'{source}: ')}") from None


for _form in (
    Format(
        "folder", "", "a complete tokenizer for AutoTokenizer", _read_folder, _write_folder, write_options=("auto_class",)
    ),
    Format(
        "tiktoken",
        ".tiktoken",
        "tokens and their ids, for the tiktoken package",
        _read_tiktoken,
        _write_tiktoken,
        read_options=("pattern", "special_tokens"),
    ),
    Format(
        "gguf",
        ".gguf",
        "a model with its tokenizer, for llama.cpp",
        _read_gguf,
        _write_gguf,
        write_options=("model", "weight_type", "pre_tokenizer"),
    ),
    Format(
        "gpt2",
        "merges.txt",
        "merges in GPT-2's format, with vocab.json in the same folder",
        read=_read_gpt2,
        read_options=("pattern", "special_tokens", "ignore_merges"),
    ),
    Format("tekken", "tekken.json", "Mistral's tokenizer", read=_read_folder),
    Format("sgpe", "vocab.json", "the vocabulary of the SGPE document", read=_read_sgpe),
):
    add_format(_form)
