"""Burmese in Zawgyi in files: says where it is, and converts it to Unicode."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import lzma
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import regex

from hf_sgpe.atomic import atomic_file, check_file
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.zawgyi import is_zawgyi, to_unicode
from trainers.corpora import (
    JSON_LINES,
    PARQUET,
    CorpusFile,
    beginning_of,
    find_files,
    kind_of,
    read_lines,
    read_records,
    read_texts,
)

logger = logging.getLogger(__name__)

_LINE_IN_BURMESE = regex.compile(r".*[\u1000-\u109F].*")
# Below this, lines are of another kind, such as those that speak of single signs.
_LEAST_SHARE = 0.05
_MOST_FILES = 64


def warn_of_zawgyi(
    files: Sequence[CorpusFile], datasets: Mapping[str, Iterable[str]] | None = None, *, text_field: str = "text"
) -> None:
    """Warns, in one line, of those files and datasets whose beginning is Burmese in Zawgyi.

    Of many files 64 are looked at, evenly spaced. It takes as long as reading a million characters of each, up to 0.1 s
    where they are packed; for text without Burmese nothing else is done.

    Args:
        datasets: Name → texts.
        text_field: As for `read_texts`; so are errors.
    """
    texts: dict[str, Iterable[str]] = {
        str(file): read_texts(file, text_field=text_field) for file in files[:: -(-len(files) // _MOST_FILES) or 1]
    }
    shares = {name: share_in_zawgyi(beginning_of(read)) for name, read in (texts | dict(datasets or {})).items()}
    found = {name: share for name, share in shares.items() if share >= _LEAST_SHARE}
    if not found:
        return
    first, share = next(iter(found.items()))
    more = f", and more in {len(found) - 1} other{'s' * (len(found) > 2)}" if len(found) > 1 else ""
    logger.warning(
        "%s: %.0f%% of its lines in Burmese are in Zawgyi, not in Unicode%s: convert them by hf-sgpe convert-zawgyi",
        first,
        100 * share,
        more,
    )


def share_in_zawgyi(texts: Iterable[str]) -> float:
    """The share of the lines in Zawgyi among those with characters of Unicode's block Myanmar.

    >>> share_in_zawgyi(["ျမန္မာ\\nမြန်မာ\\nMyanmar"])
    0.5
    """
    lines = [is_zawgyi(line) for text in texts for line in _LINE_IN_BURMESE.findall(text)]
    return sum(lines) / len(lines) if lines else 0.0


@dataclass(frozen=True)
class Converted:
    """What `convert_zawgyi` did: how many lines, or texts of JSON Lines, there are, and how many were in Zawgyi."""

    lines: int
    in_zawgyi: int


def convert_zawgyi(path: CorpusFile | str, out: str | os.PathLike[str], *, text_field: str = "text") -> Converted:
    """Writes a file again, with its lines in Zawgyi in Unicode, and all others as they are; each ends with a line feed.

    Args:
        path: Text, or JSON Lines, of which the field with the text is converted and all else stays; packed or not.
        out: The file to write, of the same kind. It is packed as its name says.
        text_field: As for `read_texts`; so are errors.

    Raises:
        SGPEError: ``out`` is the file itself or of another kind, or the file is Parquet.
    """
    files = find_files([path])
    if len(files) != 1:
        raise SGPEError(f"{path}: this names {len(files)} files: give a single file")
    file = files[0]
    kind, target = kind_of(file), Path(out)
    if kind == PARQUET:
        raise SGPEError(f"{file}: only text and JSON Lines are converted: apply hf_sgpe.zawgyi.to_unicode to its rows")
    if kind_of(target) != kind:
        raise SGPEError(f"{out}: must be of the kind of {file}: give a name that ends in {' or '.join(kind or ())}")
    if isinstance(file, Path) and target.resolve() == file.resolve():
        raise SGPEError(f"{out} is the file that is converted: give another name")
    check_file(target)
    lines = in_zawgyi = 0
    with atomic_file(target) as temporary, _packed(temporary, target.suffix.lower()) as writer:
        for line, is_changed in _json_lines(file, text_field) if kind == JSON_LINES else map(_converted, read_lines(file)):
            writer.write(f"{line}\n".encode())
            lines += 1
            in_zawgyi += is_changed
    return Converted(lines, in_zawgyi)


def _converted(text: str) -> tuple[str, bool]:
    return (to_unicode(text), True) if is_zawgyi(text) else (text, False)


def _json_lines(file: CorpusFile, text_field: str) -> Iterator[tuple[str, bool]]:
    for record in read_records(file, text_field=text_field):
        converted = [_converted(line) for line in (record[text_field] or "").split("\n")]
        is_changed = any(changed for _, changed in converted)
        if is_changed:
            record[text_field] = "\n".join(line for line, _ in converted)
        yield json.dumps(record, ensure_ascii=not _is_utf8(record)), is_changed


def _is_utf8(record: Any) -> bool:
    """Not with a lone surrogate, which can be written as an escape only."""
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _packed(path: Path, suffix: str) -> Iterator[IO[bytes]]:
    """Opens a file for writing, packed as the suffix of its final name says."""
    with ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("wb"))
        if suffix == ".zst":
            try:
                import zstandard
            except ImportError:
                raise not_installed("writing .zst needs zstandard", "zstandard", extra="corpora") from None
            raw = stack.enter_context(zstandard.ZstdCompressor().stream_writer(raw))
        elif suffix == ".gz":
            # Without the time, so that the same text is the same file.
            raw = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0))
        elif suffix == ".xz":
            raw = stack.enter_context(lzma.LZMAFile(raw, "wb"))
        elif suffix == ".bz2":
            raw = stack.enter_context(bz2.BZ2File(raw, "wb"))
        yield raw
