"""Held-out text: the text on which tokenizers and models are measured, and the units in which it is counted.

All commands compute tokens per word and bits per byte by these definitions, so a measure has the same value everywhere.
`hf_sgpe.corpora.measured_text` defines characters and words, in NFC. This module defines texts and lines:

- A text is a whole text file, or one row of a JSON Lines or Parquet file. A model reads texts, line ends included: bits per
  byte are the model's bits divided by the bytes of the texts.
- A line is a line of a text without its line end; blank lines do not count. Tokenizers are measured line by line: tokens per
  word are the tokens of the lines divided by the words of the lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.measured_text import normalized
from hf_sgpe.corpora.text_files import CorpusFile, find_files, read_model_texts
from hf_sgpe.errors import SGPEError

# A name has no dot and no slash, so that a path that contains = is not split.
_NAME_AND_FILE = re.compile(r"(?P<name>[^=/\\.]+)=(?P<file>.+)", re.DOTALL)


class HeldOut(Corpus):
    """Files that are measured together as one text. Iterating yields their lines and reads the files again each time."""

    def __iter__(self) -> Iterator[str]:
        return (normalized(line) for line in self.read_lines() if line.strip())

    def texts(self) -> list[str]:
        """Return the texts that a model reads, including line ends.

        Raises:
            SGPEError: the texts are empty or white space; or as for `trainers.read_texts`.
        """
        documents = read_model_texts(self.files, text_field=self.text_field)
        texts = [normalized(text if isinstance(text, str) else "".join(text)) for text in documents]
        if not any(map(str.strip, texts)):
            raise SGPEError(f"{self} has no text to measure")
        return texts


def named_files(values: Iterable[str]) -> list[tuple[str | None, CorpusFile]]:
    """Return the files that the values of ``--eval`` name. Each is a pair: the ``NAME`` or None, and the file.

    Args:
        values: ``FILE`` or ``NAME=FILE``; FILE may also be a folder or a glob. If the whole value is the name of a file,
            that file is used.

    Raises:
        SGPEError: there is no such file, or none of a known kind.
    """
    files: list[tuple[str | None, CorpusFile]] = []
    for value in values:
        parts = None if Path(value).exists() else _NAME_AND_FILE.fullmatch(value)
        files += ((parts and parts["name"], file) for file in find_files([parts["file"] if parts else value]))
    return list(dict.fromkeys(files))


def read_held_out(values: Iterable[str], *, text_field: str = "text") -> dict[str, HeldOut]:
    """Return a dict from names to held-out texts: files with the same ``NAME`` form one text, and every other file is a
    text.

    The name of a file without ``NAME`` is its file name, or its path if two files have the same name.

    Args:
        values: As for `named_files`, which also describes the errors.
    """
    files = named_files(values)
    names = Counter(file.name for name, file in files if name is None)
    grouped: dict[str, list[CorpusFile]] = {}
    for name, file in files:
        own = file.name if names[file.name] == 1 else str(file)
        grouped.setdefault(own if name is None else name, []).append(file)
    return {name: HeldOut(tuple(files), text_field=text_field) for name, files in grouped.items()}
