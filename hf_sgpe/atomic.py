"""Writing files so that a failure leaves nothing half-written: under a temporary name first, then renamed."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import randbelow


@contextmanager
def atomic_directory(directory: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder whose files move into ``directory`` when the block ends well, each by one rename.

    ``directory`` is made if need be; other files in it stay as they are. After a failure nothing is left behind.

    Raises:
        NotADirectoryError: a file stands in the way.
    """
    target = Path(directory)
    if not target.is_dir() and (target.exists() or target.is_symlink()):
        what = "a broken link" if target.is_symlink() else "a file"
        raise NotADirectoryError(f"{target} is {what}: give a folder to write to")
    with _named(target), _parents(target):
        # On the file system of the target, so that a rename is one step: inside it if it is there, else beside it.
        place = target if target.is_dir() else target.parent
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=place))
        try:
            yield temporary
            target.mkdir(exist_ok=True)
            found = [(file, target / file.relative_to(temporary)) for file in sorted(temporary.rglob("*"))]
            # What stands in the way shows before anything is moved.
            for path, destination in found:
                if path.is_dir():
                    destination.mkdir(exist_ok=True)
                elif destination.is_dir():
                    raise IsADirectoryError(f"{destination} is a folder: a file is to be written there")
            for path, destination in found:
                if path.is_file():
                    path.replace(destination)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write; it becomes ``path`` when the block ends well and is removed otherwise.

    A link is followed, so that what it names is replaced and not the link.

    Raises:
        OSError: as `check_file`.
    """
    check_file(path)
    target = Path(path).resolve()
    with _named(target), _parents(target):
        temporary = target.with_name(f".{target.name}.{randbelow(10**12)}.tmp")
        try:
            yield temporary
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def scratch_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``path``, for what is too large for memory until that is written; it goes with the block.

    Raises:
        OSError: as `check_file`.
    """
    check_file(path)
    target = Path(path).resolve()
    with (
        _named(target),
        _parents(target),
        tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder,
    ):
        yield Path(folder)


def remove_leftovers(directory: str | os.PathLike[str]) -> None:
    """Removes what a killed process left behind of writing into ``directory``; nobody else may be writing there."""
    folder = Path(directory)
    _remove_leftovers(folder, ".*.tmp", folder.name)


def remove_leftovers_of(path: str | os.PathLike[str]) -> None:
    """The same of one file and of its scratch directories, which nobody else may be writing."""
    target = Path(path)
    _remove_leftovers(target.parent, f".{glob.escape(target.name)}.*.tmp", target.name)


def _remove_leftovers(folder: Path, files: str, name: str) -> None:
    """Of temporary files those that ``files`` finds, and of temporary folders those made for ``name``."""
    for file in folder.glob(files):
        if file.stem.rpartition(".")[2].isdecimal():
            file.unlink(missing_ok=True)
    for below in folder.glob(f".{glob.escape(name)}-????????"):
        shutil.rmtree(below, ignore_errors=True)


def check_file(path: str | os.PathLike[str]) -> None:
    """Makes sure, without touching anything, that ``path`` can be written as a file.

    Raises:
        OSError: it is a folder or a device, lies below a file, or in a folder that may not be written.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        raise OSError(f"{target} is {'a folder' if target.is_dir() else 'no ordinary file'}: give a file to write to")
    above = _folder_above(target.resolve())
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(f"{target}: the folder {above} may not be written")


def _folder_above(target: Path) -> Path:
    """The nearest folder above ``target`` that is there already."""
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir():
        raise NotADirectoryError(f"{above} is a file: nothing can be written below it")
    return above


@contextmanager
def _named(target: Path) -> Iterator[None]:
    """Lets errors of the file system name ``target`` and not the temporary files it is made from."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        if error.filename and not any(part.startswith(f".{target.name}") for part in Path(error.filename).parts):
            raise
        raise type(error)(error.errno, error.strerror, str(target)) from None


@contextmanager
def _parents(target: Path) -> Iterator[None]:
    """Makes the folders above ``target``, and takes away those it made if the block fails."""
    _folder_above(target)
    made = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for parent in made:
            with suppress(OSError):  # something else is in it by now
                parent.rmdir()
        raise
