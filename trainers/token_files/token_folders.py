"""Reading of folders of token ids that `trainers.tokenize_corpus` wrote."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import read_json
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.tokenizer import BPETokenizer
from trainers.token_files.layouts import TOKEN_FORMATS, Block, token_format
from trainers.token_files.token_shards import MANIFEST, TRAIN, VALIDATION, Shard

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class TokenFolder:
    """A folder of token ids that `trainers.tokenize_corpus` wrote, or some shards of such a folder.

    Attributes:
        settings: The settings with which the corpus was tokenized.
        validation: The folder of the validation part, if there is one.
    """

    path: Path
    settings: dict[str, Any]
    shards: tuple[Shard, ...]
    validation: TokenFolder | None = None

    @property
    def documents(self) -> int:
        return sum(shard.documents for shard in self.shards)

    def check_tokenizer(self, tokenizer: BPETokenizer) -> None:
        """Check that the tokens were made with the given tokenizer."""
        if tokenizer_json.digest(tokenizer_json.to_dict(tokenizer.data)) != self.settings["tokenizer"]:
            raise SGPEError(
                f"{self.path} has the ids of another tokenizer: give the tokenizer that hf-sgpe tokenize used, or tokenize "
                "the corpus again"
            )

    def _blocks(self) -> Iterator[Block]:
        """Yield the tokens of all shards and the positions at which documents end, block by block."""
        reader = token_format(self.settings["format"]).reader
        if reader is None:
            raise SGPEError(f"{self.path}: tokens in the format {self.settings['format']} cannot be read for training")
        for shard in self.shards:
            yield from reader(self.path / shard.name, self.settings["dtype"])

    def pieces(self, separator: int) -> Iterator[NDArray[Any]]:
        """Yield arrays of ids that, joined together, contain all documents, each after a separator token: the one that ends
        documents in this folder or, if there is none, ``separator``.
        """
        end = self.settings["end_token_id"]
        yield np.array([separator if end is None else end], np.int64)
        for tokens, ends in self._blocks():
            if end is None:
                assert ends is not None  # a layout without them needs an end token
                yield np.insert(tokens.astype(np.int64), ends, separator)
            else:
                yield tokens

    def texts(self, tokenizer: BPETokenizer) -> Iterator[str]:
        """Yield the text of each document."""
        begin, end = self.settings["begin_token_id"], self.settings["end_token_id"]
        for tokens, ends in self._blocks():
            if ends is None:
                ends = np.flatnonzero(tokens == end) + 1
            first = 0
            for last in ends.tolist():
                ids = tokens[first:last].tolist()
                first = last
                if begin is not None:
                    ids = ids[1:]
                yield tokenizer.decode(ids if end is None else ids[:-1])


class TokenRows:
    """Rows of ids, all of the same length, cut one after another from arrays of ids. An incomplete last row is left out. If
    the arrays are memory-mapped files, a row is only read when it is used.

    >>> rows = TokenRows([np.array([1, 2, 3]), np.array([4, 5, 6, 7])], 2)
    >>> [row.tolist() for row in rows]
    [[1, 2], [3, 4], [5, 6]]
    """

    def __init__(self, pieces: Iterable[NDArray[Any]], length: int) -> None:
        self._pieces = [piece for piece in pieces if len(piece)]
        self._ends = np.cumsum([len(piece) for piece in self._pieces], dtype=np.int64)
        self._length = length

    def __len__(self) -> int:
        return int(self._ends[-1]) // self._length if len(self._ends) else 0

    def __getitem__(self, number: int) -> NDArray[np.int64]:
        if not 0 <= number < len(self):
            raise IndexError(f"there is no row {number} in {len(self)} rows")
        first, last = number * self._length, (number + 1) * self._length
        found = []
        for piece in range(int(np.searchsorted(self._ends, first, side="right")), len(self._pieces)):
            start = int(self._ends[piece]) - len(self._pieces[piece])
            if start >= last:
                break
            found.append(self._pieces[piece][max(first - start, 0) : last - start])
        return np.concatenate(found).astype(np.int64)


def split_corpus(names: Sequence[str]) -> tuple[list[TokenFolder], list[str]]:
    """Divide the names that make up a corpus into folders of tokens and all other names. A name may be a folder that
    ``hf-sgpe tokenize`` wrote, one of its shards, or a glob of its shards.
    """
    folders, others = [], []
    for name in names:
        found = _folder(Path(name)) if Path(name).is_dir() else _some_shards(name)
        if found is None:
            others.append(name)
        else:
            folders.append(found)
    return folders, others


def _folder(path: Path) -> TokenFolder | None:
    if (path / MANIFEST).is_file():
        return _read(path)
    if (path / TRAIN / MANIFEST).is_file():
        train, validation = _read(path / TRAIN), _read(path / VALIDATION)
        return train and TokenFolder(train.path, train.settings, train.shards, validation)
    return None


def _some_shards(name: str) -> TokenFolder | None:
    files = [Path(name)] if Path(name).is_file() else list(map(Path, sorted(glob.glob(name))))  # noqa: PTH207
    folders = list({file.parent for file in files})
    whole = _read(folders[0]) if len(folders) == 1 and (folders[0] / MANIFEST).is_file() else None
    if whole is None:
        return None
    names = {file.name for file in files} - {MANIFEST}
    shards = tuple(shard for shard in whole.shards if names & set(shard.files))
    if not shards or names - {file for shard in shards for file in shard.files}:
        raise SGPEError(f"{name} is not a shard of {whole.path}: give the folder, or some of its shard files")
    return TokenFolder(whole.path, whole.settings, shards)


def _read(path: Path) -> TokenFolder | None:
    """Return a folder of tokens, after checking its shards. If another program wrote its manifest, return None."""
    if not (path / MANIFEST).is_file():
        raise SGPEError(f"{path} has no {MANIFEST}: repeat the hf-sgpe tokenize command to complete it")
    manifest = read_json(path / MANIFEST)
    settings = manifest.get("settings")
    if not isinstance(settings, dict) or settings.get("format") not in TOKEN_FORMATS:
        return None
    if not manifest.get("complete"):
        raise SGPEError(f"{path} is incomplete: repeat the hf-sgpe tokenize command to complete it")
    try:
        shards = tuple(Shard(**shard) for shard in manifest["shards"])
    except (KeyError, TypeError):
        raise SGPEError(f"{path / MANIFEST} is damaged: tokenize the corpus again") from None
    for shard in shards:
        for name, size in shard.files.items():
            file = path / name
            if not file.is_file() or file.stat().st_size != size:
                raise SGPEError(f"{file} is missing or damaged: repeat the hf-sgpe tokenize command to make it again")
    return TokenFolder(path, settings, shards)
