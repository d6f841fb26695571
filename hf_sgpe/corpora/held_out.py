"""Held-out text: what a tokenizer or a model is measured on, and what of it is counted.

Every number of tokens per word and of bits per byte is counted on what this module gives, so a measure has one value
everywhere. Characters and words are as `hf_sgpe.corpora.measured_text` defines them, in NFC; here are texts and lines:

- A text is a whole text file, or one row of a JSON Lines or Parquet file. A model reads texts, line ends included: bits per
  byte are its bits by the bytes of the texts.
- A line is a line of a text without its line end; blank lines do not count. Tokenizers are measured line by line: tokens per
  word are the tokens of the lines by the words of the lines.
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

# A name has no dot and no slash, so that a path with = in it is none.
_NAME_AND_FILE = re.compile(r"(?P<name>[^=/\\.]+)=(?P<file>.+)", re.DOTALL)


class HeldOut(Corpus):
    """Files that are measured together, as one text; iterating gives their lines, and reads the files again each time."""

    def __iter__(self) -> Iterator[str]:
        return (normalized(line) for line in self.read_lines() if line.strip())

    def texts(self) -> list[str]:
        """Return the texts that a model reads, line ends included.

        Raises:
            SGPEError: there is nothing in them but white space; or as for `trainers.read_texts`.
        """
        documents = read_model_texts(self.files, text_field=self.text_field)
        texts = [normalized(text if isinstance(text, str) else "".join(text)) for text in documents]
        if not any(map(str.strip, texts)):
            raise SGPEError(f"{self}: holds no text to measure")
        return texts


def named_files(values: Iterable[str]) -> list[tuple[str | None, CorpusFile]]:
    """Find the files that values of ``--eval`` name, each with the name that it was given, or None.

    Args:
        values: ``FILE`` or ``NAME=FILE``; a file may also be a folder or a glob. A file of just this name goes before.

    Raises:
        SGPEError: there is no such file, or none of a known kind.
    """
    files: list[tuple[str | None, CorpusFile]] = []
    for value in values:
        parts = None if Path(value).exists() else _NAME_AND_FILE.fullmatch(value)
        files += ((parts and parts["name"], file) for file in find_files([parts["file"] if parts else value]))
    return list(dict.fromkeys(files))


def read_held_out(values: Iterable[str], *, text_field: str = "text") -> dict[str, HeldOut]:
    """Return held-out text by name: the files of one ``NAME`` together, and each other file by itself.

    A file without a name is called by its own, and by its path where two have the same.

    Args:
        values: As for `named_files`; so are errors.
    """
    files = named_files(values)
    names = Counter(file.name for name, file in files if name is None)
    grouped: dict[str, list[CorpusFile]] = {}
    for name, file in files:
        own = file.name if names[file.name] == 1 else str(file)
        grouped.setdefault(own if name is None else name, []).append(file)
    return {name: HeldOut(tuple(files), text_field=text_field) for name, files in grouped.items()}
