"""Files on the Hub as corpora, ``hf://datasets/user/name/path``: read by ranges as they are needed, without a copy here."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

from hf_sgpe import hub
from hf_sgpe.errors import SGPEError

PREFIX = "hf://"
_RANGE_BYTES = 4 << 20

Result = TypeVar("Result")


@dataclass(frozen=True)
class HubFile:
    """A file on the Hub, with the methods of a `Path` that readers of corpora use.

    Attributes:
        address: ``hf://`` and so on, with the commit that it is of where it lies in a repository.
        size: In bytes.
    """

    address: str
    size: int

    @property
    def name(self) -> str:
        """The last part of its address."""
        return PurePosixPath(self.address).name

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot."""
        return PurePosixPath(self.address).suffix

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """Opens it for reading. If the connection fails, reading is retried from the same place for some minutes.

        Raises:
            SGPEError: it is not there (any more), or the Hub cannot be reached; also while reading.
        """
        file = _steadily(self.address, lambda: _file_system().open(self.address, "rb", block_size=_RANGE_BYTES))
        return io.BufferedReader(_Steady(self.address, file), 1 << 20)

    def __str__(self) -> str:
        return self.address


def find_hub_files(address: str) -> list[HubFile]:
    """The files that an address names: a file, a folder or a repository with all below, or a glob. Sorted.

    Raises:
        SGPEError: there are none, or the Hub cannot be reached.
    """

    def find() -> list[dict[str, Any]]:
        files = _file_system()
        pinned = _pinned(files, address)
        if any(character in address for character in "*?["):
            found = files.glob(pinned, detail=True).values()
        else:
            named = files.info(pinned)
            found = [named] if named["type"] == "file" else files.find(pinned, detail=True).values()
        return [one for one in found if one["type"] == "file"]

    found = _steadily(address, find)
    return sorted((HubFile(PREFIX + one["name"], one["size"]) for one in found), key=lambda file: file.address)


def _pinned(files: Any, address: str) -> str:
    """The address with the commit of its revision now, since reading may take hours."""
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


def _steadily(address: str, work: Callable[[], Result]) -> Result:
    patience = hub.Patience()
    with hub.hub_errors(f"{address}:"):
        while True:
            try:
                return work()
            except NotImplementedError:
                raise SGPEError(f"{address}: name a repository: hf://datasets/user/name") from None
            except FileNotFoundError:
                raise SGPEError(f"{address}: no such file, folder or repository on the Hub, or you may not see it") from None
            except Exception as error:
                patience.wait_after(error)


class _Steady(io.RawIOBase):
    """The bytes of a file; a failed read is retried."""

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
        # A failed read leaves the place where it was.
        found = _steadily(self._address, lambda: self._file.read(len(buffer)))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
