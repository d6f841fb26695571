"""Tokenizing of a corpus in parts, each with its own shards: the work of one worker, and the records in a folder of tokens.

A part is one large file or a few small files, whatever the number of workers. A shard ends at the end of a document. When a
shard is complete, it gets its final name, and is recorded in the progress of its part. Therefore, a continued run skips the
documents of the existing shards, and its next shard is the same as in an uninterrupted run.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hf_sgpe.corpora.corpus import Corpus, Files
from hf_sgpe.corpora.text_files import CorpusFile, Progress, read_documents, size_of, source_of
from hf_sgpe.corpora.validation_part import is_for_validation
from hf_sgpe.counts.counters import in_batches, in_turn
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.json_files import read_json, write_json
from hf_sgpe.files.resuming import differing
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.learning.tokenizing_config import TokenizingConfig
from hf_sgpe.tokenizer import BPETokenizer
from trainers.token_files.layouts import token_format

if TYPE_CHECKING:
    from numpy.typing import NDArray

MANIFEST = "manifest.json"
"""Name of the file that records the settings of a folder of tokens and, when all shards are complete, the totals."""

TRAIN, VALIDATION = "train", "validation"
"""Names of the two subfolders in a folder of tokens that has a validation part."""

_PROGRESS = ".progress"
# Size of a part on disk, in bytes. Each process works on parts of its own, and the threads of a process share a part.
_PART_BYTES = 128 << 20
# Number of characters of text that are encoded at a time.
_BATCH_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class Shard:
    """A complete shard.

    Attributes:
        name: Common stem of the names of the shard's files: the number of the part, and that of the shard within the part.
        tokens: Number of tokens, including tokens that end documents.
        text_bytes: Number of bytes of the text in UTF-8.
        files: Sizes of the files in bytes, keyed by file name.
    """

    name: str
    documents: int
    tokens: int
    text_bytes: int
    files: Mapping[str, int]


@dataclass(frozen=True)
class PartProgress:
    """The complete shards of a part. If ``complete`` is true, the part has no more shards."""

    shards: tuple[Shard, ...] = ()
    complete: bool = False

    @property
    def documents(self) -> int:
        return sum(shard.documents for shard in self.shards)


class _Text(NamedTuple):
    """A document or a part of it, and whether a document begins and ends with this part."""

    text: str
    begins: bool
    ends: bool


@dataclass(frozen=True)
class _Piece:
    """Consecutive tokens of a corpus, the positions at which documents end, the number of bytes of text before each of these
    positions, and the number of bytes of the whole text.
    """

    tokens: NDArray[Any]
    ends: NDArray[np.int64]
    bytes_at_ends: NDArray[np.int64]
    text_bytes: int

    def cut_after(self, document: int) -> tuple[_Piece, _Piece]:
        """Split the piece after the document with the index ``document``."""
        tokens, size, following = self.ends[document], int(self.bytes_at_ends[document]), document + 1
        return (
            _Piece(self.tokens[:tokens], self.ends[:following], self.bytes_at_ends[:following], size),
            _Piece(
                self.tokens[tokens:],
                self.ends[following:] - tokens,
                self.bytes_at_ends[following:] - size,
                self.text_bytes - size,
            ),
        )


class TokenizingJob:
    """The job of tokenizing one corpus. The arguments and errors are those of `trainers.tokenize_corpus`."""

    def __init__(
        self,
        files: Files,
        tokenizer: BPETokenizer | str | os.PathLike[str],
        out: str | os.PathLike[str],
        *,
        validation: bool = False,
        **settings: Any,
    ) -> None:
        self.config = TokenizingConfig(**settings)
        self.form = token_format(self.config.format)
        if not os.fspath(out):
            raise SGPEError("the name of the output folder is empty: give a new or an empty folder")
        folder = Path(out)
        if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
            raise NotADirectoryError(f"{folder} is a file: give a folder to write to")
        self.out = folder
        self.share = self.config.validation_share
        self.is_validation = validation
        if self.share is not None:
            self.out = folder / (VALIDATION if validation else TRAIN)
            if (folder / MANIFEST).exists():
                raise SGPEError(f"{folder} has tokens without a validation part: give another folder")
        self.corpus = _corpus_apart_from(folder, Corpus.of(files, text_field=self.config.text_field))
        self.tokenizer = tokenizer if isinstance(tokenizer, BPETokenizer) else BPETokenizer.from_pretrained(tokenizer)
        self.end_id = self._end_id(self.config.end_token)
        self.begin_id = self._begin_id()
        self.dtype = self.form.dtype(max(self.tokenizer.get_vocab().values()) + 1)
        self.parts = _parts_of(self.corpus.files)
        self.settings: dict[str, Any] = {
            "tokenizer": tokenizer_json.digest(tokenizer_json.to_dict(self.tokenizer.data)),
            "format": self.form.name,
            "dtype": self.dtype,
            "begin_token_id": self.begin_id,
            "end_token_id": self.end_id,
            "lines": self.config.lines,
            "text_field": self.corpus.text_field,
            "shard_tokens": self.config.shard_tokens,
            "part_bytes": _PART_BYTES,  # other versions may divide the corpus differently
            "sources": list(map(_source, self.corpus.files)),
        }
        if self.share is not None:
            self.settings |= {"validation_share": self.share, "validation": validation}

    def for_validation(self) -> TokenizingJob:
        """Return the job that tokenizes the validation part of the same corpus."""
        job = copy.copy(self)
        job.is_validation = True
        job.out = self.out.with_name(VALIDATION)
        job.settings = {**self.settings, "validation": True}
        return job

    def _end_id(self, end_token: str | bool) -> int | None:
        known = self.tokenizer.data.added_ids
        if end_token is False:
            if not self.form.keeps_ends:
                raise SGPEError(f"the format {self.form.name} does not record the ends of documents: give an end token")
            return None
        if end_token is True:
            if self.tokenizer.eos_token_id is None:
                has = ", ".join(known) or "it has no special tokens"
                none = ", or use no end token with --no-end-token" if self.form.keeps_ends else ""
                raise SGPEError(
                    f"the tokenizer has no eos token to end documents: give a special token with --end-token ({has}){none}"
                )
            return int(self.tokenizer.eos_token_id)
        if end_token not in known:
            raise SGPEError(
                f"no special token {end_token!r} to end documents: the tokenizer has {', '.join(known) or 'none'}"
            )
        return int(known[end_token])

    def _begin_id(self) -> int | None:
        """Return the id of the token that the tokenizer puts before each text, unless this token also ends documents."""
        template, bos = self.tokenizer.template, self.tokenizer.bos_token_id
        is_put = template is not None and template.begins_with(self.tokenizer.bos_token)
        return bos if is_put and bos != self.end_id else None

    # ---------------------------------------------------------------- the folder

    def begin(self) -> list[PartProgress]:
        """Create the folder, or check that its contents belong to this job. Return the progress of each part."""
        has_files = self.out.is_dir() and any(not file.name.startswith(".") for file in self.out.iterdir())
        manifest = self.out / MANIFEST
        if not manifest.exists():
            if has_files:
                raise SGPEError(f"{self.out} has other files: give an empty or a new folder")
            write_json(manifest, {"settings": self.settings, "complete": False})
        recorded = read_json(manifest)
        try:
            self._check_settings(recorded["settings"])
            if not recorded["complete"]:
                return [self._load_progress(part) for part in range(len(self.parts))]
            shards: list[list[Any]] = [[] for _ in self.parts]
            for shard in recorded["shards"]:
                shards[int(shard["name"].partition("-")[0])].append(shard)
            parts = [self._intact(of_part, complete=True) for of_part in shards]
        except (KeyError, IndexError, TypeError, AttributeError):
            raise SGPEError(f"{manifest} is damaged: remove the folder, or give another folder") from None
        if not all(part.complete for part in parts):  # a file is missing
            for number, part in enumerate(parts):
                self._save_progress(number, part)
            write_json(manifest, {"settings": self.settings, "complete": False})
        return parts

    def finish(self, parts: Sequence[PartProgress]) -> dict[str, int]:
        """Write the totals of all shards of complete parts to the manifest, and return these totals."""
        shards = [shard for part in parts for shard in part.shards]
        totals = {name: sum(getattr(shard, name) for shard in shards) for name in ("documents", "tokens", "text_bytes")}
        content = {"settings": self.settings, "complete": True, **totals, "shards": list(map(asdict, shards))}
        write_json(self.out / MANIFEST, content)
        shutil.rmtree(self.out / _PROGRESS, ignore_errors=True)
        return totals

    def give_up(self) -> None:
        """Remove the records of progress after an error, if no shard is complete."""
        if all(file.name == MANIFEST or file.name.startswith(".") for file in self.out.iterdir()):
            shutil.rmtree(self.out / _PROGRESS, ignore_errors=True)
            (self.out / MANIFEST).unlink(missing_ok=True)

    def _check_settings(self, recorded: Any) -> None:
        for name, found in differing(self.settings, recorded).items():
            wanted = self.settings[name]
            if name == "sources":
                difference = f"of another corpus ({_changed_source(wanted, found)})"
            elif name == "tokenizer":
                difference = "with another tokenizer"
            else:
                difference = f"with {name} {json.dumps(found)}, but {json.dumps(wanted)} is requested"
            raise SGPEError(f"{self.out} has tokens made {difference}: give another --out, or remove this folder")

    def _load_progress(self, part: int) -> PartProgress:
        file = self._progress_file(part)
        if not file.exists():
            return PartProgress()
        recorded = read_json(file)
        return self._intact(recorded["shards"], recorded["complete"])

    def _save_progress(self, part: int, progress: PartProgress) -> None:
        write_json(self._progress_file(part), asdict(progress))

    def _intact(self, recorded: Iterable[Mapping[str, Any]], complete: bool) -> PartProgress:
        """Return the recorded shards up to the first with a missing or incomplete file."""
        shards: list[Shard] = []
        for entry in recorded:
            shard = Shard(**entry)
            for name, size in shard.files.items():
                file = self.out / name
                if not file.is_file() or file.stat().st_size != size:
                    return PartProgress(tuple(shards))
            shards.append(shard)
        return PartProgress(tuple(shards), complete)

    def _progress_file(self, part: int) -> Path:
        return self.out / _PROGRESS / f"{part:05d}.json"

    # ---------------------------------------------------------------- a part

    def run_part(
        self, part: int, progress: PartProgress, *, threads: int = 1, on_progress: Progress | None = None
    ) -> PartProgress:
        """Write the missing shards of a part, and return the new progress of the part.

        Args:
            threads: Number of threads that encode. If 1, this thread also reads and writes. Otherwise, one additional thread
                reads and writes.
            on_progress: Function that is called with the number of bytes read from disk. If it raises an error, the work
                ends.
        """
        shards = list(progress.shards)
        texts = self._texts(part, progress.documents, on_progress)
        batches = in_batches(texts, _BATCH_CHARACTERS, lambda text: len(text.text))
        with closing(self._encoded(batches, threads)) as encoded:
            pieces = self._in_shards(encoded)
            for first in pieces:
                shards.append(self._shard(f"{part:05d}-{len(shards):05d}", chain([first], pieces)))
                self._save_progress(part, PartProgress(tuple(shards)))
        done = PartProgress(tuple(shards), complete=True)
        self._save_progress(part, done)
        return done

    def _texts(self, part: int, skip: int, on_progress: Progress | None) -> Iterator[_Text]:
        """Yield the texts of a part, without its first ``skip`` documents."""
        begins = True
        for file in self.parts[part]:
            for text, ends in read_documents(
                file,
                text_field=self.corpus.text_field,
                lines=self.config.lines,
                special_tokens=self.tokenizer.added_tokens,
                whole=not self.tokenizer.splitting.allows_cuts or self.share is not None,  # the hash is of the whole text
                on_progress=on_progress,
            ):
                if self.share is not None and is_for_validation(text, self.share) != self.is_validation:
                    continue
                if skip:
                    skip -= ends
                    continue
                yield _Text(text, begins, ends)
                begins = ends

    def _encoded(self, batches: Iterator[list[_Text]], threads: int) -> Generator[_Piece, None, None]:
        if threads == 1:
            yield from map(self._encode, batches)
            return
        self.tokenizer.encode("")  # initializes the encoder once, before the threads use it
        with ThreadPoolExecutor(threads) as pool:
            yield from in_turn(pool, self._encode, batches, 2 * threads)

    def _encode(self, batch: list[_Text]) -> _Piece:
        texts, begins, ends_document = zip(*batch, strict=True)
        ids, text_ends = self.tokenizer.encode_batch_to_numpy(list(texts), threads=1)
        sizes = np.cumsum([_utf8_length(text) for text in texts])
        first, last = np.flatnonzero(begins), np.flatnonzero(ends_document)
        tokens, ends = ids.astype(self.dtype), text_ends[last]
        if self.begin_id is not None:
            tokens = np.insert(tokens, np.append(0, text_ends)[first], self.begin_id)
            # Also count the begin token of the document itself.
            ends = ends + np.searchsorted(first, last, side="right")
        if self.end_id is not None:
            tokens = np.insert(tokens, ends, self.end_id)
            ends = ends + np.arange(1, len(ends) + 1)
        return _Piece(tokens, ends, sizes[last], int(sizes[-1]))

    def _in_shards(self, pieces: Iterable[_Piece]) -> Iterator[tuple[_Piece, bool]]:
        """Cut the pieces where a shard is to end. With each piece, yield whether a shard ends after it."""
        tokens = 0
        for piece in pieces:
            while (last := int(np.searchsorted(piece.ends, self.config.shard_tokens - tokens))) < len(piece.ends):
                first, piece = piece.cut_after(last)
                yield first, True
                tokens = 0
            if len(piece.tokens) or len(piece.ends):
                yield piece, False
                tokens += len(piece.tokens)

    def _shard(self, name: str, pieces: Iterable[tuple[_Piece, bool]]) -> Shard:
        """Write pieces to the files of one shard until the shard ends, and return the shard."""
        documents = tokens = text_bytes = 0
        with atomic_directory(self.out) as folder:
            with closing(self.form.writer(folder / name, self.dtype)) as writer:
                for piece, is_full in pieces:
                    writer.write(piece.tokens, piece.ends)
                    documents += len(piece.ends)
                    tokens += len(piece.tokens)
                    text_bytes += piece.text_bytes
                    if is_full:
                        break
                writer.finish()
            sizes = {f"{name}{ending}": (folder / f"{name}{ending}").stat().st_size for ending in self.form.endings}
        return Shard(name, documents, tokens, text_bytes, sizes)


def _corpus_apart_from(folder: Path, corpus: Corpus) -> Corpus:
    """Return the files of a corpus, without those in the folder to write to."""
    if corpus.streams or corpus.counts:
        raise SGPEError("only files can be tokenized, because a run may have to read them again: save the texts to files")
    if not corpus.files:
        raise SGPEError("nothing to tokenize: give at least one file, folder or glob")
    here = folder.resolve()
    others = [file for file in corpus.files if not (isinstance(file, Path) and here in file.resolve().parents)]
    if not others:
        raise SGPEError(f"{folder} is the corpus, or contains all of it: give another folder to write to")
    return Corpus(tuple(others), text_field=corpus.text_field)


def _parts_of(files: Iterable[CorpusFile]) -> list[list[CorpusFile]]:
    """Group the files into parts, in order."""
    parts: list[list[CorpusFile]] = []
    size = 0
    for file in files:
        if not parts or size + size_of(file) > _PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(file)
        size += size_of(file)
    return parts


def _source(file: CorpusFile) -> dict[str, Any]:
    # A file can change and keep its size. For a file on the Hub, the address has the commit.
    return source_of(file) | ({"changed": file.stat().st_mtime_ns} if isinstance(file, Path) else {})


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _changed_source(wanted: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> str:
    """Return a clause about the first file of a corpus that is not the file of the earlier run.

    >>> _changed_source([{"name": "a.txt"}], [{"name": "a.txt"}, {"name": "b.txt"}])
    'b.txt is no longer in the corpus'
    """
    names, names_before = ([source["name"] for source in sources] for sources in (wanted, found))
    gone, new = set(names_before) - set(names), set(names) - set(names_before)
    if gone and not new:
        return f"{min(gone)} is no longer in the corpus"
    if new and not gone:
        return f"{min(new)} was not in the corpus before"
    changed = next(one or other for one, other in zip_longest(wanted, found) if one != other)
    return f"{changed['name']} is another file, or has changed"
