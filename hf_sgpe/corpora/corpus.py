"""Corpus: a collection of text files, datasets and files of word counts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.corpora.corpus_weights import checked_weights
from hf_sgpe.corpora.hub_datasets import DatasetTexts
from hf_sgpe.corpora.hub_files import HubFile
from hf_sgpe.corpora.text_files import (
    CorpusFile,
    Progress,
    beginning_of,
    find_files,
    read_lines,
    read_texts,
    size_of,
    source_of,
)
from hf_sgpe.errors import SGPEError

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST_BEGINNINGS = 64


@dataclass(frozen=True)
class Corpus:
    """A corpus: files, datasets and iterators with text, and files with word counts.

    Attributes:
        files: Files of text, from `find_files`.
        streams: Iterators, and datasets opened by `read_dataset`. Streams have no weights. A stream that can be read only
            once can be counted only once.
        counts: Files of word counts.
        weights: Dict from file names, paths or globs to weights. In a matching file of text or word counts, each word counts
            as this number of words. The default weight is 1.
        text_field: Name of the field or column that holds the text in JSON Lines and Parquet files.

    Raises:
        SGPEError: a weight is not a positive number with at most six decimals, or the key of a weight matches no file.
    """

    files: tuple[CorpusFile, ...] = ()
    streams: tuple[Iterable[str], ...] = ()
    counts: tuple[Path, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    text_field: str = "text"

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", checked_weights(self.weights))
        for name in self.weights:
            if not any(_matches(file, name) for file in (*self.files, *self.counts)):
                raise SGPEError(f"weights: {name!r} matches none of the files: give a file name or a glob")

    @classmethod
    def of(
        cls,
        files: Files | None = None,
        *,
        iterator: Iterable[str] | None = None,
        text: str | None = None,
        counts: Iterable[str | os.PathLike[str]] = (),
        weights: Mapping[str, float] | None = None,
        text_field: str = "text",
    ) -> Self:
        """Make a corpus from exactly one source of text: files of text or word counts, an iterator of strings, or a single
        string.

        Args:
            files: Files, or a corpus. The text field and the weights of a corpus take precedence over ``text_field`` and
                ``weights``.
        """
        kept = tuple(map(Path, counts))
        if sum((iterator is not None, text is not None, files is not None or bool(kept))) != 1:
            raise SGPEError("give exactly one source of text: files, an iterator or a string")
        if text is not None:
            return cls(streams=([text],))
        if iterator is not None:
            return cls(streams=(iterator,))
        if isinstance(files, Corpus):
            corpus = files
        else:
            paths = find_files([files] if isinstance(files, (str, os.PathLike)) else files or ())
            corpus = Corpus(tuple(paths), text_field=text_field)
        kept = (*corpus.counts, *kept)
        weights = (corpus.weights or weights or {}) if corpus.files or kept else {}
        return cls(corpus.files, corpus.streams, kept, weights, corpus.text_field)

    @property
    def size(self) -> int:
        """Size of the text files on disk, in bytes."""
        return sum(map(size_of, self.files))

    @property
    def sources(self) -> list[dict[str, Any]]:
        """The sources of the text, as recorded in files of counts: the name and size of each file, and the name and split of
        each dataset.
        """
        datasets = [texts for texts in self.streams if isinstance(texts, DatasetTexts)]
        return [*map(source_of, self.files), *({"name": texts.name, "split": texts.split} for texts in datasets)]

    def weight_of(self, file: CorpusFile) -> float:
        """Return the weight of the words in a file. If several keys of `weights` match, the file's path takes precedence
        over names and globs.
        """
        if str(file) in self.weights:
            return self.weights[str(file)]
        return next((weight for name, weight in self.weights.items() if _matches(file, name)), 1)

    def parts(self) -> dict[str, Corpus]:
        """Return a corpus for each file of text or word counts, keyed by file name. If two files have the same name, all
        keys are paths. Streams are left out.
        """
        parts = [(file, Corpus((file,), text_field=self.text_field)) for file in self.files]
        parts += [(file, Corpus(counts=(file,))) for file in self.counts]
        is_short = len({file.name for file, _ in parts}) == len(parts)
        return {file.name if is_short else str(file): part for file, part in parts}

    def read_texts(self, *, special_tokens: Iterable[str] = (), on_progress: Progress | None = None) -> Iterator[str]:
        """Yield the texts of all files, file by file. The arguments are those of `text_files.read_texts`."""
        for file in self.files:
            yield from read_texts(file, text_field=self.text_field, special_tokens=special_tokens, on_progress=on_progress)

    def read_lines(self) -> Iterator[str]:
        """Yield the lines of all files, without their line ends."""
        for file in self.files:
            yield from read_lines(file, text_field=self.text_field)

    def beginnings(self) -> Iterator[tuple[str, Iterator[str]]]:
        """Yield the name and the first texts (about a million characters) of each file, and of each stream that can be read
        again.

        At most 64 files are read. If the corpus has more, they are sorted by path, and files at even intervals are read.
        """
        for file in sorted(self.files, key=str)[:: -(-len(self.files) // _MOST_BEGINNINGS) or 1]:
            yield str(file), beginning_of(read_texts(file, text_field=self.text_field))
        for texts in self.streams:
            if iter(texts) is not texts:
                yield str(texts), beginning_of(texts)

    def beginning(self) -> Iterator[str]:
        """Yield the texts of `beginnings`: a sample that shows which scripts the corpus uses."""
        return chain.from_iterable(texts for _, texts in self.beginnings())

    def check_apart_from(self, out: Path) -> None:
        """Check that the output file ``out`` is not part of the corpus."""
        if out.resolve() in [file.resolve() for file in (*self.files, *self.counts) if isinstance(file, Path)]:
            raise SGPEError(f"--out {out} is part of the corpus: give another name")

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.files, *self.counts, *self.streams))) or "the corpus"


Files = Iterable[str | os.PathLike[str] | HubFile] | str | os.PathLike[str] | Corpus
"""A `Corpus`; or files, folders and globs, local or on the Hub. The files are .txt, .jsonl or .parquet, plain or compressed
(.gz .xz .zst .bz2).
"""


def _matches(file: CorpusFile, name: str) -> bool:
    # Compare the plain name first, because it may contain characters that are special in a glob.
    return any(spelling == name or fnmatch(spelling, name) for spelling in (file.name, str(file)))
