"""Files with Burmese text in the Zawgyi encoding: detection, and conversion to Unicode."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import lzma
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import regex

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.text_files import JSON_LINES, PARQUET, CorpusFile, find_files, kind_of, read_json_lines, read_lines
from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.files.atomic import atomic_file, check_file
from hf_sgpe.splitting.zawgyi import encoding_of, is_zawgyi, to_unicode

logger = logging.getLogger(__name__)

_LINE_IN_BURMESE = regex.compile(r".*[\u1000-\u109F].*")
# A smaller share has other causes, such as lines about single characters.
_LEAST_SHARE = 0.05


def warn_of_zawgyi(*corpora: Corpus) -> None:
    """Log a one-line warning if at least 5% of the first Burmese lines of a file or dataset are in Zawgyi. Only the first
    million characters are read. For a compressed file, this takes up to 0.1 s.
    """
    shares = {name: _share_in_zawgyi(texts) for corpus in corpora for name, texts in corpus.beginnings()}
    found = {name: share for name, share in shares.items() if share >= _LEAST_SHARE}
    if not found:
        return
    first, share = next(iter(found.items()))
    more = f", and so are lines in {len(found) - 1} other source{'s' * (len(found) > 2)}" if len(found) > 1 else ""
    logger.warning(
        "%s: %.0f%% of its lines in Burmese are in Zawgyi, not in Unicode%s: convert them with hf-sgpe convert-zawgyi",
        first,
        100 * share,
        more,
    )


def _share_in_zawgyi(texts: Iterable[str]) -> float:
    """Return the share of Zawgyi lines among the lines with characters of the Unicode block Myanmar."""
    lines = [is_zawgyi(line) for text in texts for line in _LINE_IN_BURMESE.findall(text)]
    return sum(lines) / len(lines) if lines else 0.0


_MOST_NAMED = 10


@dataclass(frozen=True)
class Converted:
    """The result of `convert_zawgyi`.

    Attributes:
        lines: Number of lines in the file.
        in_zawgyi: Number of converted lines.
        undecided: Number of lines that are valid in both encodings, but mean a different text in each.
        first_undecided: Numbers of the first ten undecided lines, counted from 1.
        undecided_are_converted: Whether the undecided lines were converted, because most other lines are in Zawgyi.
        without_text: Number of JSON lines that were copied, because their text field is missing or is neither a string nor
            null.
    """

    lines: int
    in_zawgyi: int
    undecided: int = 0
    first_undecided: tuple[int, ...] = ()
    undecided_are_converted: bool = False
    without_text: int = 0


def convert_zawgyi(
    path: CorpusFile | str, out: str | os.PathLike[str], *, text_field: str = "text", convert_all: bool = False
) -> Converted:
    """Convert the Zawgyi lines of a file to Unicode, and write the result to ``out``. Other lines and all line ends stay
    unchanged.

    A line that is valid in both encodings is treated like the majority of the other lines. The file is read twice to find
    this majority. A warning lists the lines that are valid in both encodings, except if all other lines in Burmese are in
    Unicode.

    Args:
        path: A text file or a JSON Lines file, plain or compressed. In JSON Lines, only the text field is converted.
        out: The file to write, of the same kind as ``path``. The extension of ``out`` sets the compression.
        text_field: The field with the text in JSON Lines. Lines without text in this field are copied.
        convert_all: Whether to convert every line with characters of the Unicode block Myanmar, even a line in Unicode.
    """
    target = Path(out)
    file = _file_to_convert(path, target)
    is_json = kind_of(file) == JSON_LINES
    read = partial(_json_lines, file, text_field) if is_json else partial(_text_lines, file)
    decided = Counter(encoding_of(part) for line in read() for part in (line.text or "").split("\n"))
    if convert_all and decided["unicode"] > decided["zawgyi"]:
        logger.warning(
            "%s: %d of its lines are in Unicode and %d in Zawgyi, and --all damages the lines in Unicode: leave out --all",
            file,
            decided["unicode"],
            decided["zawgyi"],
        )
    is_zawgyi_file = decided["zawgyi"] > decided["unicode"]
    lines = in_zawgyi = with_text = without_text = 0
    undecided: list[int] = []
    with atomic_file(target) as temporary, _packed(temporary, target.suffix.lower()) as writer:
        for lines, line in enumerate(read(), 1):
            parts = [_converted(part, is_zawgyi_file, convert_all) for part in (line.text or "").split("\n")]
            is_changed = any(part.is_changed for part in parts)
            writer.write(line.with_text("\n".join(part.text for part in parts)) if is_changed else line.given)
            in_zawgyi += is_changed
            with_text += line.text is not None and not line.given.isspace()
            without_text += line.text is None
            if any(part.is_undecided for part in parts):
                undecided.append(lines)
        if without_text and not with_text:
            raise SGPEError(
                f"{file}: no line has text in the field {text_field!r}: give the name of the field that holds the text"
            )
    first, are_converted = tuple(undecided[:_MOST_NAMED]), is_zawgyi_file and bool(undecided)
    done = Converted(lines, in_zawgyi, len(undecided), first, are_converted, without_text)
    if undecided and (decided["zawgyi"] or not decided["unicode"]):
        _warn_of_undecided(file, done, is_unicode_file=decided["unicode"] > decided["zawgyi"])
    return done


def _file_to_convert(path: CorpusFile | str, out: Path) -> CorpusFile:
    """Return the file at ``path``, after checking that its conversion can be written to ``out``."""
    files = find_files([path])
    if len(files) != 1:
        raise SGPEError(f"{path}: {len(files)} files match: give a single file")
    file, kind = files[0], kind_of(files[0])
    if kind == PARQUET:
        raise SGPEError(f"{file} is neither text nor JSON Lines: apply hf_sgpe.splitting.zawgyi.to_unicode to its rows")
    if kind_of(out) != kind:
        raise SGPEError(f"{out} must be the same kind of file as {file}: give a name that ends in {' or '.join(kind or ())}")
    if isinstance(file, Path) and out.resolve() == file.resolve():
        raise SGPEError(f"{out} is the file to convert: give another name")
    check_file(out)
    return file


def _warn_of_undecided(file: CorpusFile, done: Converted, *, is_unicode_file: bool) -> None:
    if done.undecided_are_converted:
        outcome = "were converted, because most other lines are in Zawgyi"
    elif is_unicode_file:
        outcome = "are unchanged, because most other lines are in Unicode"
    else:
        outcome = "are unchanged: --all converts every line"
    numbers = "line " if done.undecided == 1 else "lines "
    numbers += ", ".join(map(str, done.first_undecided)) + (", …" if done.undecided > len(done.first_undecided) else "")
    logger.warning("%s: %d of its lines could be in either encoding (%s), and %s", file, done.undecided, numbers, outcome)


class _Line(NamedTuple):
    """A line of a file: its bytes, its text (or None), and a function that returns the bytes of the line with a new text."""

    given: bytes
    text: str | None
    with_text: Callable[[str], bytes]


def _text_lines(file: CorpusFile) -> Iterator[_Line]:
    for line in read_lines(file, keep_ends=True):
        yield _Line(line.encode(), line, str.encode)


def _json_lines(file: CorpusFile, text_field: str) -> Iterator[_Line]:
    for given, record in read_json_lines(file):
        text = None if given.strip() else ""
        if isinstance(record, dict) and isinstance(record.get(text_field, 0), str | None):
            text = record[text_field] or ""

        def with_text(new: str, given: bytes = given, record: Any = record) -> bytes:
            changed = {**record, text_field: new}
            end = given[len(given.rstrip(b"\r\n")) :]
            return json.dumps(changed, ensure_ascii=not _is_utf8(changed)).encode() + end

        yield _Line(given, text, with_text)


class _Part(NamedTuple):
    text: str
    is_changed: bool
    is_undecided: bool


def _converted(text: str, is_zawgyi_file: bool, convert_all: bool) -> _Part:
    """Convert a line to Unicode if it is in Zawgyi, or if it is undecided (see `Converted`) in a file in Zawgyi."""
    if _LINE_IN_BURMESE.match(text) is None:
        return _Part(text, False, False)
    encoding = "zawgyi" if convert_all else encoding_of(text)
    if encoding == "unicode":
        return _Part(text, False, False)
    converted = to_unicode(text)
    if encoding == "zawgyi":
        return _Part(converted, True, False)
    is_undecided = converted != text
    return _Part(converted, True, True) if is_undecided and is_zawgyi_file else _Part(text, False, is_undecided)


def _is_utf8(record: Any) -> bool:
    """Return whether a record can be written as JSON in UTF-8, because it has no lone surrogate."""
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _packed(path: Path, suffix: str) -> Iterator[IO[bytes]]:
    """Open the file at ``path`` for writing. The extension ``suffix`` of its final name sets the compression."""
    with ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("wb"))
        if suffix == ".zst":
            zstandard = optional("zstandard", "writing .zst needs zstandard", extra="corpora")
            raw = stack.enter_context(zstandard.ZstdCompressor().stream_writer(raw))
        elif suffix == ".gz":
            # The time stamp is left out, so that equal texts make equal files.
            raw = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0))
        elif suffix == ".xz":
            raw = stack.enter_context(lzma.LZMAFile(raw, "wb"))
        elif suffix == ".bz2":
            raw = stack.enter_context(bz2.BZ2File(raw, "wb"))
        yield raw
