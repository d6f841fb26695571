"""Files that cannot be read: Git LFS pointers, text in UTF-16 or UTF-32, pipes and devices."""

from __future__ import annotations

import codecs
import stat
from itertools import chain
from pathlib import Path

from hf_sgpe.errors import SGPEError

_POINTER = b"version https://git-lfs.github.com/spec/"
_IS_POINTER = "a Git LFS pointer, not the file itself: run git lfs pull in its clone"
# UTF-32 is first, because its byte order mark begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
# Larger files, in bytes, are not read. The largest published tokenizer.json have 100 MB.
_LARGEST = 1 << 30
_MODEL_FILES = ("*.safetensors", "*.bin", "*.gguf", "*.json", "*.jinja", "*.model", "*.tiktoken", "*.xml")


def why_not_text(start: bytes) -> str:
    """Return why a file with these first bytes is not UTF-8 text. If it may be UTF-8 text, return an empty string.

    >>> why_not_text("hello".encode("utf-16"))
    'UTF-16, not UTF-8: convert it by iconv -f UTF-16 -t UTF-8'
    """
    if start.startswith(_POINTER):
        return _IS_POINTER
    encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    return f"{encoding}, not UTF-8: convert it by iconv -f {encoding} -t UTF-8" if encoding else ""


def read_data(path: Path) -> bytes:
    """Return the bytes of a file of a tokenizer or of settings."""
    status = path.stat()
    # A pipe could make the program wait for ever, and a device could fill the memory.
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise SGPEError(f"{path}: a pipe or a device, not a file: copy its content to a file")
    if status.st_size > _LARGEST:
        raise SGPEError(f"{path}: has {status.st_size / 1e9:.1f} GB, more than any tokenizer: give another file")
    return path.read_bytes()


def read_utf8(path: Path) -> str:
    """Return the text of a file of a tokenizer or of settings."""
    data = read_data(path)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SGPEError(f"{path}: {why_not_text(data) or 'not UTF-8'}") from None
    if text.startswith(_POINTER.decode()):
        raise SGPEError(f"{path}: {_IS_POINTER}")
    return text


def check_no_pointer(path: Path) -> None:
    """Check that a file, or each model file and tokenizer file in a folder, is not a Git LFS pointer. Call this function
    after a failed load, so that the error names the cause.
    """
    files = chain.from_iterable(map(path.glob, _MODEL_FILES)) if path.is_dir() else (path,)
    for file in filter(Path.is_file, files):
        with file.open("rb") as opened:
            if opened.read(len(_POINTER)) == _POINTER:
                raise SGPEError(f"{file}: {_IS_POINTER}")
