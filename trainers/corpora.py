"""Corpora: which files a user means, and the texts in them. Streams, so that files may be larger than memory.

A text file is one text. A JSON Lines or Parquet file holds one text in each line or row, in a field.
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

from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.splitting.streams import cut_stream
from trainers.hub_files import PREFIX, HubFile, find_hub_files

TEXT, JSON_LINES, PARQUET = (".txt",), (".jsonl", ".ndjson"), (".parquet",)
COMPRESSIONS = (".gz", ".xz", ".zst", ".bz2")
_KNOWN = f"{', '.join(TEXT + JSON_LINES + PARQUET)}, plain or with {', '.join(COMPRESSIONS)}"
_BLOCK_BYTES = 1 << 20
_ZSTD_BYTES = 1 << 10
# A line is in memory as a whole, several times while it is read as JSON.
_LONGEST_LINE = 256 << 20

SAMPLE = Path(__file__).parent / "sample"
"""A folder of small text files, in Sinhala, Hindi, Tamil and English, that ships with the package."""

CorpusFile = Path | HubFile
"""A file of a corpus, here or on the Hub."""

Progress = Callable[[int], None]
"""Called with how many more bytes of the file, as it lies on disk, have been read."""


def find_files(paths: Iterable[str | os.PathLike[str] | HubFile]) -> list[CorpusFile]:
    """The files that ``paths`` name: files, folders (all corpora below, hidden ones left out) and globs.

    What begins with ``hf://`` is looked for on the Hub, and read from there, as of the commit that is the latest now.

    Raises:
        SGPEError: a path names nothing, or nothing that can be read as a corpus.
    """
    files: list[CorpusFile] = []
    for path in paths:
        if isinstance(path, HubFile):
            files.append(path)
            continue
        name = os.fspath(path)
        found: Sequence[CorpusFile]
        if not name:
            raise SGPEError("a corpus must have a name: give a file, a folder or a glob")
        if name.startswith(PREFIX):
            found = [file for file in find_hub_files(name) if kind_of(file) and "/." not in file.address]
        elif Path(name).is_dir():
            below = [file for file in sorted(Path(name).rglob("*")) if file.is_file() and kind_of(file)]
            found = [file for file in below if not any(part.startswith(".") for part in file.relative_to(name).parts)]
        elif Path(name).exists():
            found = [Path(name)]
            if not kind_of(found[0]):
                raise SGPEError(f"{name}: unknown kind of file: known are {_KNOWN}")
        else:
            matches = sorted(Path(match) for match in glob.glob(name, recursive=True))  # noqa: PTH207 - a Path has no absolute globs
            found = [match for match in matches if match.is_file() and kind_of(match)]
            if not matches:
                raise SGPEError(f"{name}: no such file or folder")
        if not found:
            raise SGPEError(f"{name}: holds no corpus: known are {_KNOWN}")
        files += found
    return list({file.resolve() if isinstance(file, Path) else file: file for file in reversed(files)}.values())[::-1]


def size_of(file: CorpusFile) -> int:
    """Bytes that a file has."""
    return file.size if isinstance(file, HubFile) else file.stat().st_size


def source_of(file: CorpusFile) -> dict[str, Any]:
    """A file of a corpus as a file of counts names it: its name and size."""
    # Names need not be UTF-8.
    return {"name": str(file).encode(errors="replace").decode(), "bytes": size_of(file)}


def read_texts(
    path: str | os.PathLike[str] | HubFile,
    *,
    text_field: str = "text",
    special_tokens: Iterable[str] = (),
    on_progress: Progress | None = None,
) -> Iterator[str]:
    """The texts of one file. A text file comes in parts, cut where no split pattern sees it; after 1,048,576 characters
    without such a place, anywhere.

    Args:
        text_field: Name of the field or column that holds the text.
        special_tokens: Texts that no cut may fall into.
        on_progress: Told of the bytes read.

    Raises:
        SGPEError: the file is damaged, not UTF-8 or without the field; the message names file and place.
    """
    path = _file(path)
    report = on_progress or (lambda count: None)
    kind = kind_of(path)
    if kind == PARQUET:
        yield from _parquet_texts(path, text_field, report)
    elif kind == JSON_LINES:
        yield from _json_texts(path, text_field, report)
    else:
        yield from read_text_file(path, special_tokens=special_tokens, on_progress=report)


def read_text_file(
    path: CorpusFile, *, special_tokens: Iterable[str] = (), on_progress: Progress | None = None
) -> Iterator[str]:
    """The text of one file in parts, whatever its name ends in; arguments and errors as for `read_texts`."""
    return cut_stream(_decoded(path, on_progress or (lambda count: None)), special_tokens, longest=_BLOCK_BYTES)


def beginnings(files: Sequence[CorpusFile], *, text_field: str = "text", most: int = 64) -> Iterator[str]:
    """The first texts of files, of a few if there are many: enough to see which scripts a corpus is written in.

    Args:
        text_field: As for `read_texts`.
        most: Files to look into; of more, some that lie evenly among them.

    Raises:
        SGPEError: as `read_texts`.
    """
    for file in files[:: -(-len(files) // most) or 1]:
        yield from beginning_of(read_texts(file, text_field=text_field))


def beginning_of(texts: Iterable[str], characters: int = 1 << 20) -> Iterator[str]:
    """The first of some texts, up to about this many characters."""
    for text in texts:
        yield text[:characters]
        characters -= len(text)
        if characters <= 0:
            return


def read_lines(path: str | os.PathLike[str] | HubFile, *, text_field: str = "text") -> Iterator[str]:
    """The lines of all texts of one file, without their line ends; errors as for `read_texts`."""
    path = _file(path)
    if kind_of(path) == TEXT:
        texts: Iterable[Iterable[str]] = [_decoded(path, lambda count: None)]
    else:
        texts = ([text] for text in read_texts(path, text_field=text_field))
    for parts in texts:
        for line in _lines(parts, "\n", path):
            yield line.removesuffix("\r")


def _file(path: str | os.PathLike[str] | HubFile) -> CorpusFile:
    """The one file that a path names."""
    if isinstance(path, HubFile):
        return path
    if not os.fspath(path).startswith(PREFIX):
        return Path(path)
    found = find_hub_files(os.fspath(path))
    if len(found) != 1:
        raise SGPEError(f"{path}: names {len(found)} files: name one")
    return found[0]


def kind_of(path: CorpusFile) -> tuple[str, ...] | None:
    """The kind of a file by its name, compressed or not: `TEXT`, `JSON_LINES`, `PARQUET` or None."""
    name = path.name.lower()
    for compression in COMPRESSIONS:
        name = name.removesuffix(compression)
    suffix = Path(name).suffix
    return next((kind for kind in (TEXT, JSON_LINES, PARQUET) if suffix in kind), None)


def _decoded(path: CorpusFile, report: Progress) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    for block in _blocks(path, report):
        kept = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block)
        except UnicodeDecodeError as error:
            raise _not_utf8(path, offset - kept + error.start) from None
        yield text.removeprefix("\ufeff") if offset == 0 else text
        offset += len(block)
    if rest := decoder.getstate()[0]:
        raise _not_utf8(path, offset - len(rest))


def _json_texts(path: CorpusFile, field: str, report: Progress) -> Iterator[str]:
    for number, line in enumerate(_lines(_blocks(path, report), b"\n", path), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise SGPEError(f"{path}, line {number}: not UTF-8 (byte {error.start} of the line)") from None
        except (ValueError, RecursionError) as error:
            raise SGPEError(f"{path}, line {number}: not valid JSON ({error})") from None
        if not isinstance(record, dict) or field not in record:
            has = f"it has {', '.join(map(repr, record))}" if isinstance(record, dict) else "it is no object"
            raise SGPEError(f"{path}, line {number}: no field {field!r} ({has}): name the one with the text")
        if record[field] is None:
            continue
        if not isinstance(record[field], str):
            raise SGPEError(f"{path}, line {number}: field {field!r} must be text, not {type(record[field]).__name__}")
        yield record[field]


def _parquet_texts(path: CorpusFile, field: str, report: Progress) -> Iterator[str]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise not_installed(f"{path}: reading Parquet needs pyarrow", "pyarrow", extra="corpora") from None
    size, reported = size_of(path), 0
    with tempfile.TemporaryFile() as unpacked, path.open("rb") as opened:
        source: IO[bytes] = opened
        if path.suffix.lower() in COMPRESSIONS:
            for block in _blocks(path, lambda count: None):
                unpacked.write(block)
            unpacked.seek(0)
            source = unpacked
        try:
            with pq.ParquetFile(source) as file:
                if field not in file.schema_arrow.names:
                    names = ", ".join(map(repr, file.schema_arrow.names))
                    raise SGPEError(f"{path}: no column {field!r} (it has {names}): name the one with the text")
                rows = 0
                for batch in file.iter_batches(columns=[field], batch_size=1024):
                    for value in batch.column(0).to_pylist():
                        if value is None:
                            continue
                        if not isinstance(value, str):
                            raise SGPEError(f"{path}: column {field!r} must be text, not {type(value).__name__}")
                        yield value
                    rows += batch.num_rows
                    now = size * rows // max(file.metadata.num_rows, 1)
                    report(now - reported)
                    reported = now
        except SGPEError:
            raise
        except (pa.ArrowException, ValueError, OSError) as error:
            raise SGPEError(f"{path}: damaged or not a Parquet file ({str(error).splitlines()[0]})") from None


def _lines(blocks: Iterable[AnyStr], line_end: AnyStr, where: object = "") -> Iterator[AnyStr]:
    """The lines of a text in blocks. A line end at the very end begins no further line.

    Raises:
        SGPEError: a line is so long that it is none; ``where`` is what it stands in.
    """
    rest: list[AnyStr] = []
    for block in blocks:
        lines = block.split(line_end)
        rest.append(lines[0])
        if len(rest) > _LONGEST_LINE // _BLOCK_BYTES and sum(map(len, rest)) > _LONGEST_LINE:
            raise SGPEError(f"{where}: more than {_LONGEST_LINE >> 20} MiB without a line end: not a file of lines")
        for line in lines[1:]:
            yield line_end[:0].join(rest)
            rest = [line]
    if last := line_end[:0].join(rest):
        yield last


def _blocks(path: CorpusFile, report: Progress) -> Iterator[bytes]:
    """The unpacked bytes of a file, block by block."""
    with path.open("rb") as raw:
        position = 0
        try:
            for block in _unpacked(path, raw):
                report(raw.tell() - position)
                position = raw.tell()
                yield block
        except (EOFError, lzma.LZMAError, zlib.error) as error:
            raise _damaged(path, error) from None
        except OSError as error:
            # gzip and bz2 raise a bare OSError, without a number, for data in another format
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
    """The content of compressed streams, one after another. `lzma.open` and `bz2.open` ignore data behind them.

    Args:
        new: Makes what unpacks one stream, and fails if it is none.
        padding: May stand behind a stream.
    """
    packed = raw.read(_BLOCK_BYTES)
    while True:
        stream = new()
        while not stream.eof:
            if not packed and stream.needs_input:
                raise EOFError("it ends within a compressed stream")
            if block := stream.decompress(packed, _BLOCK_BYTES):
                yield block
            packed = raw.read(_BLOCK_BYTES) if stream.needs_input and not stream.eof else b""
        packed = stream.unused_data.lstrip(padding) if padding else stream.unused_data
        while not packed:
            packed = raw.read(_BLOCK_BYTES)
            if not packed:
                return
            packed = packed.lstrip(padding) if padding else packed


def _unpacked_zstd(path: CorpusFile, raw: IO[bytes]) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise not_installed(f"{path}: reading .zst needs zstandard", "zstandard", extra="corpora") from None
    frame = None
    try:
        # All that one call unpacks is in memory at once, and four bytes can stand for 128 kB.
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
    return SGPEError(f"{path}: damaged or cut off ({error})")


def _not_utf8(path: CorpusFile, offset: int) -> SGPEError:
    return SGPEError(f"{path}: not UTF-8 at byte offset {offset}: convert the file to UTF-8")
