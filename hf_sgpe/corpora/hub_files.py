"""Corpus files on the Hub: ``hf://datasets/user/name/path``. Files are read over the network in ranges of 4 MiB, and are not
stored on the disk.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

from hf_sgpe.errors import SGPEError
from hf_sgpe.files import hub

PREFIX = "hf://"
_RANGE_BYTES = 4 << 20

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class HubFile:
    """A file on the Hub, with the methods of `Path` that `hf_sgpe.corpora.text_files` uses.

    Attributes:
        address: ``hf://…``, with the commit if the file is in a repository.
        size: Size in bytes.
    """

    address: str
    size: int

    @property
    def name(self) -> str:
        return PurePosixPath(self.address).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.address).suffix

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """Open the file for reading. If the connection fails, reads are retried for several minutes."""
        file = _retried(self.address, lambda: _file_system().open(self.address, "rb", block_size=_RANGE_BYTES))
        return io.BufferedReader(_RetriedFile(self.address, file), 1 << 20)

    def __str__(self) -> str:
        return self.address


def find_hub_files(address: str) -> list[HubFile]:
    """Return the files at an address, sorted. The address names a file, a folder or a repository, or is a glob. For a folder
    or a repository, return all files below it.
    """

    def find() -> list[dict[str, Any]]:
        files = _file_system()
        pinned = _pinned(files, address)
        if any(character in address for character in "*?["):
            entries = files.glob(pinned, detail=True).values()
        else:
            entry = files.info(pinned)
            entries = [entry] if entry["type"] == "file" else files.find(pinned, detail=True).values()
        return [entry for entry in entries if entry["type"] == "file"]

    entries = _retried(address, find)
    return sorted((HubFile(PREFIX + entry["name"], entry["size"]) for entry in entries), key=lambda file: file.address)


def _pinned(files: Any, address: str) -> str:
    """Return an address with the latest commit of its revision, so that a later push cannot change the files that are being
    read.
    """
    from huggingface_hub import HfApi

    resolved = files.resolve_path(address)
    if not hasattr(resolved, "repo_id"):
        return address  # a bucket has no commits
    commit = HfApi().repo_info(resolved.repo_id, repo_type=resolved.repo_type, revision=resolved.revision).sha
    kind = "" if resolved.repo_type == "model" else f"{resolved.repo_type}s/"
    return f"{PREFIX}{kind}{resolved.repo_id}@{commit}/{resolved.path_in_repo}".rstrip("/")


def _file_system() -> Any:
    from huggingface_hub import HfFileSystem

    return HfFileSystem()


def _retried(address: str, work: Callable[[], _Result]) -> _Result:
    patience = hub.Patience()
    with hub.hub_errors(f"{address}:"):
        while True:
            try:
                return work()
            except NotImplementedError:
                raise SGPEError(f"{address}: not the address of a repository: write hf://datasets/user/name") from None
            except FileNotFoundError:
                raise SGPEError(
                    f"{address}: no such file, folder or repository on the Hub, or your account has no access to it"
                ) from None
            except Exception as error:
                patience.wait_after(error)


class _RetriedFile(io.RawIOBase):
    def __init__(self, address: str, file: Any) -> None:
        self._address = address
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        # A failed read does not move the position.
        block = _retried(self._address, lambda: self._file.read(len(buffer)))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
