"""Text files: find the files that a user names, and stream their texts. Files may be larger than memory.

A text file is one text. In a JSON Lines or Parquet file, one field of each row holds a text.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import json
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, AnyStr

from hf_sgpe.corpora.hub_files import PREFIX, HubFile, find_hub_files
from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.files.folder_contents import tokenizer_file
from hf_sgpe.files.unreadable import check_no_pointer, why_not_text
from hf_sgpe.splitting.streams import cut_stream

TEXT, JSON_LINES, PARQUET = (".txt",), (".jsonl", ".ndjson"), (".parquet",)
_COMPRESSIONS = (".gz", ".xz", ".zst", ".bz2")
_KNOWN = f"{', '.join(TEXT + JSON_LINES + PARQUET)}, plain or with {', '.join(_COMPRESSIONS)}"
_BLOCK_BYTES = 1 << 20
_ZSTD_BYTES = 1 << 10
# Parsing a line as JSON takes several times its size in memory.
_LONGEST_LINE = 256 << 20

SAMPLE = Path(__file__).parent / "sample"
"""A folder of small text files, in Sinhala, Hindi, Tamil and English, that ships with the package."""

CorpusFile = Path | HubFile
"""A file of a corpus, local or on the Hub."""

Text = str | Iterable[str]
"""A text. A text too large for one string is given as its parts, in order."""

Progress = Callable[[int], None]
"""A function that is called with the number of bytes read from disk since the last call."""


def find_files(paths: Iterable[str | os.PathLike[str] | HubFile]) -> list[CorpusFile]:
    """Return the corpus files that ``paths`` name. A path names a file or a folder, or is a glob. For a folder, return all
    files of a known kind below it, except hidden files.

    A path that begins with ``hf://`` is on the Hub. Its files are those of the latest commit.
    """
    files: list[CorpusFile] = []
    for path in paths:
        files += [path] if isinstance(path, HubFile) else _files_at(os.fspath(path))
    return list({file.resolve() if isinstance(file, Path) else file: file for file in reversed(files)}.values())[::-1]


def _files_at(name: str) -> Sequence[CorpusFile]:
    """Return the files at one path. Anything that cannot be read is an error: text is never left out in silence."""
    path = Path(name)
    matches: list[Path] = []
    if not name:
        raise SGPEError("the name of a corpus must not be empty: give a file, a folder or a glob")
    if name.startswith(PREFIX):
        on_hub = [file for file in find_hub_files(name) if kind_of(file) and "/." not in file.address]
        if on_hub:
            return on_hub
    elif path.is_dir():
        matches = _files_below(path)
    elif path.exists():
        if not kind_of(path):
            raise SGPEError(f"{name}: unknown kind of file: give one of {_KNOWN}")
        matches = [path]
    else:
        existing = sorted(Path(match) for match in glob.glob(name, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute globs
        if not existing:
            raise SGPEError(f"{name}: no such file or folder")
        matches = [match for match in existing if kind_of(match) and not match.is_dir()]
    if not matches:
        if path.is_dir() and tokenizer_file(path):
            raise SGPEError(f"{name}: a tokenizer, not text: give the tokenizer before the text files")
        raise SGPEError(f"{name}: no files of a known kind: give one of {_KNOWN}")
    for file in matches:
        if not file.is_file():
            kind = "not a regular file: save its text to a file" if file.exists() else "a broken link: remove it"
            raise SGPEError(f"{file} is {kind}, or name the files to read")
    return matches


def _files_below(folder: Path) -> list[Path]:
    """Return the files of a known kind below a folder, sorted, except hidden ones. Linked folders are included once."""

    def refuse(error: OSError) -> None:
        raise SGPEError(f"{error.filename}: this folder cannot be read ({error.strerror}): name the files to read")

    files: list[Path] = []
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = (Path(place, name) for name in names if not name.startswith("."))
        files += filter(kind_of, paths)
    return sorted(files)


def size_of(file: CorpusFile) -> int:
    """Return the size of a file in bytes."""
    return file.size if isinstance(file, HubFile) else file.stat().st_size


def source_of(file: CorpusFile) -> dict[str, Any]:
    """Return the name and the size of a file, as recorded in files of word counts."""
    # File names need not be valid UTF-8.
    return {"name": str(file).encode(errors="replace").decode(), "bytes": size_of(file)}


def read_texts(
    path: str | os.PathLike[str] | HubFile,
    *,
    text_field: str = "text",
    special_tokens: Iterable[str] = (),
    on_progress: Progress | None = None,
) -> Iterator[str]:
    """Yield the texts of one file: the text in each row of a JSON Lines or Parquet file, or the parts of a text file.

    A text file need not fit into memory. It is cut only where a cut does not change how the named split patterns split the
    text. After 1,048,576 characters without such a position, it is cut anywhere.

    Args:
        text_field: Name of the field or column that holds the text.
        special_tokens: Special tokens, which are never cut in two.
        on_progress: Function that is called with the number of bytes read since its last call.

    Raises:
        SGPEError: the file is damaged, is not UTF-8 or does not have the field; the message names the file and the position.
    """
    path = _file(path)
    kind = kind_of(path)
    if kind == PARQUET:
        yield from _parquet_texts(path, text_field, on_progress)
    elif kind == JSON_LINES:
        records = read_records(path, text_field=text_field, on_progress=on_progress)
        yield from (record[text_field] for record in records if record[text_field] is not None)
    else:
        yield from read_text_file(path, special_tokens=special_tokens, on_progress=on_progress)


def read_documents(
    path: CorpusFile,
    *,
    text_field: str = "text",
    lines: bool = False,
    special_tokens: Iterable[str] = (),
    whole: bool = False,
    on_progress: Progress | None = None,
) -> Iterator[tuple[str, bool]]:
    """Yield the documents of one file, whole or in parts. Each item is a pair: a string, and whether a document ends with
    this string. Empty documents are skipped.

    Each row of a JSON Lines or Parquet file is a document. A text file is one document, cut into parts. It is cut only where
    a cut does not change how the named split patterns split the text, even if such positions are far apart. Therefore the
    tokens of the parts are the tokens of the whole document.

    Args:
        text_field: See `read_texts`, also for ``special_tokens`` and ``on_progress``.
        lines: Whether each line of a text file is a document.
        whole: Whether to yield each document whole. Split patterns other than the named patterns need whole documents.
    """
    if kind_of(path) != TEXT:
        documents: Iterable[str] = read_texts(path, text_field=text_field, on_progress=on_progress)
    elif lines:
        documents = _text_lines(_decoded(path, on_progress), path)
    elif whole:
        documents = ["".join(_decoded(path, on_progress))]
    else:
        before = ""
        for text in cut_stream(_decoded(path, on_progress), special_tokens):
            if before:
                yield before, False
            before = text
        documents = [before]
    yield from ((text, True) for text in documents if text)


def read_model_texts(
    files: Iterable[CorpusFile],
    *,
    text_field: str = "text",
    special_tokens: Iterable[str] = (),
    lines: bool = False,
) -> Iterator[Text]:
    """Yield the texts that a model reads: each text file as an iterator over its parts, and each row of a JSON Lines or
    Parquet file as a string.

    Args:
        text_field: See `read_texts`, also for ``special_tokens``.
        lines: Whether each line of a text file is a separate text. Empty lines are skipped.
    """
    for file in files:
        if lines and kind_of(file) == TEXT:
            yield from filter(None, read_lines(file))
            continue
        texts = read_texts(file, text_field=text_field, special_tokens=special_tokens)
        if kind_of(file) == TEXT:
            yield texts
        else:
            yield from texts


def read_text_file(
    path: CorpusFile, *, special_tokens: Iterable[str] = (), on_progress: Progress | None = None
) -> Iterator[str]:
    """Yield the parts of one file as `read_texts` does. The file is read as a text file, whatever its extension."""
    return cut_stream(_decoded(path, on_progress), special_tokens, longest=_BLOCK_BYTES)


def beginning_of(texts: Iterable[str], characters: int = 1 << 20) -> Iterator[str]:
    """Yield the first of ``texts``, at most ``characters`` characters in total. The last text that is yielded may be cut."""
    for text in texts:
        yield text[:characters]
        characters -= len(text)
        if characters <= 0:
            return


def read_lines(
    path: str | os.PathLike[str] | HubFile,
    *,
    text_field: str = "text",
    keep_ends: bool = False,
    on_progress: Progress | None = None,
) -> Iterator[str]:
    """Yield the lines of all texts in one file, without their line ends unless ``keep_ends`` is set."""
    path = _file(path)
    if kind_of(path) == TEXT:
        texts: Iterable[Iterable[str]] = [_decoded(path, on_progress)]
    else:
        texts = ([text] for text in read_texts(path, text_field=text_field, on_progress=on_progress))
    for parts in texts:
        yield from _lines(parts, "\n", path, keep_ends=True) if keep_ends else _text_lines(parts, path)


def _text_lines(parts: Iterable[str], path: CorpusFile) -> Iterator[str]:
    for line in _lines(parts, "\n", path):
        yield line.removesuffix("\r")


def _file(path: str | os.PathLike[str] | HubFile) -> CorpusFile:
    """Return the file that a path names, on this machine or on the Hub."""
    if isinstance(path, HubFile):
        return path
    if not os.fspath(path).startswith(PREFIX):
        return Path(path)
    files = find_hub_files(os.fspath(path))
    if len(files) != 1:
        raise SGPEError(f"{path}: {len(files)} files match: give a single file")
    return files[0]


def kind_of(path: CorpusFile) -> tuple[str, ...] | None:
    """Return `TEXT`, `JSON_LINES` or `PARQUET` by the extension of a file, with or without that of a compression. If the
    extension is unknown, return None.
    """
    name = path.name.lower()
    for compression in _COMPRESSIONS:
        name = name.removesuffix(compression)
    suffix = Path(name).suffix
    return next((kind for kind in (TEXT, JSON_LINES, PARQUET) if suffix in kind), None)


def _decoded(path: CorpusFile, on_progress: Progress | None = None) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    for block in _blocks(path, on_progress):
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block)
        except UnicodeDecodeError as error:
            raise _not_utf8(path, offset - pending + error.start) from None
        yield text.removeprefix("\ufeff") if offset == 0 else text
        offset += len(block)
    if rest := decoder.getstate()[0]:
        raise _not_utf8(path, offset - len(rest))


def read_records(
    path: CorpusFile, *, text_field: str = "text", on_progress: Progress | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the object in each line of a JSON Lines file, after checking that its text field is a string or null. Blank
    lines are skipped.
    """
    for number, (line, record) in enumerate(read_json_lines(path, on_progress=on_progress), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        if not isinstance(record, dict):
            raise SGPEError(f"{where}: not a JSON object")
        if text_field not in record:
            raise SGPEError(f"{where}: {no_such('field', text_field, record)}")
        if not isinstance(record[text_field], str | None):
            raise SGPEError(f"{where}: field {text_field!r} must be a string, not {type(record[text_field]).__name__}")
        yield record


def read_json_lines(path: CorpusFile, *, on_progress: Progress | None = None) -> Iterator[tuple[bytes, Any]]:
    """Yield each line of a JSON Lines file as a pair: the bytes of the line, including its line end, and the parsed value,
    or None for a blank line.
    """
    for number, line in enumerate(_lines(_blocks(path, on_progress), b"\n", path, keep_ends=True), 1):
        try:
            yield line, json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8")) if line.strip() else None
        except UnicodeDecodeError as error:
            raise SGPEError(f"{path}, line {number}: not UTF-8 (byte {error.start} of the line)") from None
        except (ValueError, RecursionError) as error:
            raise SGPEError(f"{path}, line {number}: not valid JSON ({error})") from None


def _parquet_texts(path: CorpusFile, field: str, on_progress: Progress | None) -> Iterator[str]:
    pq = optional("pyarrow.parquet", f"{path}: reading Parquet needs pyarrow", "pyarrow", extra="corpora")
    import pyarrow as pa

    size, reported = size_of(path), 0
    with tempfile.TemporaryFile() as unpacked, path.open("rb") as opened:
        source: IO[bytes] = opened
        if path.suffix.lower() in _COMPRESSIONS:
            unpacked.writelines(_blocks(path))
            unpacked.seek(0)
            source = unpacked
        try:
            with pq.ParquetFile(source) as file:
                if field not in file.schema_arrow.names:
                    raise SGPEError(f"{path}: {no_such('column', field, file.schema_arrow.names)}")
                rows = 0
                for batch in file.iter_batches(columns=[field], batch_size=1024):
                    for value in batch.column(0).to_pylist():
                        if value is None:
                            continue
                        if not isinstance(value, str):
                            raise SGPEError(f"{path}: column {field!r} must contain strings, not {type(value).__name__}")
                        yield value
                    rows += batch.num_rows
                    position = size * rows // max(file.metadata.num_rows, 1)
                    if on_progress:
                        on_progress(position - reported)
                    reported = position
        except SGPEError:
            raise
        except (pa.ArrowException, ValueError, OSError) as error:
            _check_no_pointer(path)
            raise SGPEError(f"{path} is damaged or not a Parquet file ({str(error).splitlines()[0]})") from None


def _lines(blocks: Iterable[AnyStr], line_end: AnyStr, where: object, *, keep_ends: bool = False) -> Iterator[AnyStr]:
    """Yield the lines of a text that arrives in blocks. If the text ends in a line end, no empty line follows."""
    rest: list[AnyStr] = []
    for block in blocks:
        lines = block.split(line_end)
        rest.append(lines[0])
        if len(rest) > _LONGEST_LINE // _BLOCK_BYTES and sum(map(len, rest)) > _LONGEST_LINE:
            raise SGPEError(f"{where}: more than {_LONGEST_LINE >> 20} MiB without a line end: not a file of lines")
        for line in lines[1:]:
            yield line_end[:0].join(rest) + (line_end if keep_ends else line_end[:0])
            rest = [line]
    if last := line_end[:0].join(rest):
        yield last


def _blocks(path: CorpusFile, on_progress: Progress | None = None) -> Iterator[bytes]:
    """Yield the decompressed content of a file in blocks of bytes."""
    report = on_progress or (lambda count: None)
    with path.open("rb") as raw:
        position = 0
        try:
            for block in _unpacked(path, raw):
                if position == 0 and (reason := why_not_text(block)):
                    raise SGPEError(f"{path}: {reason}")
                report(raw.tell() - position)
                position = raw.tell()
                yield block
        except (EOFError, lzma.LZMAError, zlib.error) as error:
            raise _damaged(path, error) from None
        except OSError as error:
            # If the data has another format, gzip and bz2 raise an OSError without an error number.
            if error.errno is not None:
                raise
            raise _damaged(path, error) from None
        report(raw.tell() - position)


def _unpacked(path: CorpusFile, raw: IO[bytes]) -> Iterator[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".zst":
        return _unpacked_zstd(path, raw)
    if suffix == ".xz":
        return _streams(raw, lzma.LZMADecompressor, padding=b"\0")
    if suffix == ".bz2":
        return _streams(raw, bz2.BZ2Decompressor)
    file: Any = gzip.GzipFile(fileobj=raw) if suffix == ".gz" else raw
    return iter(lambda: file.read(_BLOCK_BYTES), b"")


def _streams(raw: IO[bytes], new: Callable[[], Any], *, padding: bytes = b"") -> Iterator[bytes]:
    """Decompress a file of one or more compressed streams, each followed by any number of the bytes ``padding``. Damaged
    data after a stream is an error, which `lzma.open` and `bz2.open` would ignore.
    """
    packed = raw.read(_BLOCK_BYTES)
    while True:
        stream = new()
        while not stream.eof:
            if not packed and stream.needs_input:
                raise EOFError("the file ends inside a compressed stream")
            if block := stream.decompress(packed, _BLOCK_BYTES):
                yield block
            packed = raw.read(_BLOCK_BYTES) if stream.needs_input and not stream.eof else b""
        packed = stream.unused_data.lstrip(padding)
        while not packed:
            packed = raw.read(_BLOCK_BYTES)
            if not packed:
                return
            packed = packed.lstrip(padding)


def _unpacked_zstd(path: CorpusFile, raw: IO[bytes]) -> Iterator[bytes]:
    zstandard = optional("zstandard", f"{path}: reading .zst needs zstandard", extra="corpora")
    frame = None
    try:
        # Read a few bytes at a time: each call unpacks its whole input into memory, and four bytes can become 128 kB.
        while packed := raw.read(_ZSTD_BYTES):
            while packed:
                if frame is None:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                block = frame.decompress(packed)
                for start in range(0, len(block), _BLOCK_BYTES):
                    yield block[start : start + _BLOCK_BYTES]
                packed = frame.unused_data
                if frame.eof:
                    frame = None
    except zstandard.ZstdError as error:
        raise _damaged(path, error) from None
    if frame is not None:
        raise _damaged(path, EOFError("the last frame has no end"))


def _damaged(path: CorpusFile, error: Exception) -> SGPEError:
    _check_no_pointer(path)
    return SGPEError(f"{path} is damaged or cut off ({error})")


def _check_no_pointer(path: CorpusFile) -> None:
    if isinstance(path, Path) and path.is_file():  # on the Hub, opening a pointer opens the file that it points to
        check_no_pointer(path)


def no_such(kind: str, name: str, names: Iterable[str]) -> str:
    """Return the error message for a missing field or column called ``name``."""
    return f"no {kind} {name!r} (it has {', '.join(map(repr, names))}): give the name of the {kind} with the text"


def _not_utf8(path: CorpusFile, offset: int) -> SGPEError:
    return SGPEError(f"{path} is not UTF-8 at byte offset {offset}: convert the file to UTF-8")
