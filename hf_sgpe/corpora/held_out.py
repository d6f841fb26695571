"""Held-out text on which tokenizers and models are measured. All commands use these definitions, so their results can be
compared. `hf_sgpe.corpora.measured_text` defines characters and words, in NFC.

- A text is a whole text file, or one row of a JSON Lines or Parquet file. Models are measured on whole texts, including line
  ends. Bits per byte: the bits that a model needs for the texts, divided by the bytes of the texts.
- A line of a text does not include its line end. Blank lines are skipped. Tokenizers are measured line by line. Tokens per
  word: the tokens of the lines, divided by the words of the lines.
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

# A name has no dots and no slashes, so a path that contains = is not split.
_NAME_AND_FILE = re.compile(r"(?P<name>[^=/\\.]+)=(?P<file>.+)", re.DOTALL)


class HeldOut(Corpus):
    """Files that are measured together, as if they were one text. Each iteration reads the files again, and yields their
    lines in NFC, without blank lines.
    """

    def __iter__(self) -> Iterator[str]:
        return (normalized(line) for line in self.read_lines() if line.strip())

    def texts(self) -> list[str]:
        """Return the texts of the files as a model reads them: in NFC and including line ends."""
        documents = read_model_texts(self.files, text_field=self.text_field)
        texts = [normalized(text if isinstance(text, str) else "".join(text)) for text in documents]
        if not any(map(str.strip, texts)):
            raise SGPEError(f"{self} has no text to measure")
        return texts


def named_files(values: Iterable[str]) -> list[tuple[str | None, CorpusFile]]:
    """Find the files that the values of ``--eval`` name. Return pairs: the ``NAME`` of a file, or None, and the file.

    Args:
        values: ``FILE`` or ``NAME=FILE``. FILE may also be a folder or a glob. If the whole value is an existing path, it is
            a ``FILE``, even if it contains ``=``.
    """
    files: list[tuple[str | None, CorpusFile]] = []
    for value in values:
        parts = None
        if not Path(value).exists():
            parts = _NAME_AND_FILE.fullmatch(value)
            name, equals, file = value.partition("=")
            if equals and not parts and (not name or not file or Path(file).exists()):
                example = f"si={file or 'FILE'}"
                raise SGPEError(f"{value}: write FILE, or NAME=FILE with a NAME that contains no . or /, such as {example}")
        files += ((parts and parts["name"], file) for file in find_files([parts["file"] if parts else value]))
    return list(dict.fromkeys(files))


def read_held_out(values: Iterable[str], *, text_field: str = "text") -> dict[str, HeldOut]:
    """Return the held-out texts in the files that the values of ``--eval`` name (see `named_files`), keyed by name. Files
    with the same ``NAME`` form one text. The name of another file is its file name, or its path if two files have the same
    file name.
    """
    files = named_files(values)
    names = Counter(file.name for name, file in files if name is None)
    grouped: dict[str, list[CorpusFile]] = {}
    for name, file in files:
        own = file.name if names[file.name] == 1 else str(file)
        grouped.setdefault(own if name is None else name, []).append(file)
    return {name: HeldOut(tuple(files), text_field=text_field) for name, files in grouped.items()}
