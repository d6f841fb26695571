"""Atomic writes: a file is written under a temporary name and then renamed, so a failure leaves no incomplete file.

A process locks a lock file before it makes a temporary file next to it. The lock ends with the process. So if the lock of a
temporary file is free, a killed process left the file, and the next process that writes into the folder removes it. No name
is used twice, and a process that does not get the lock of a name chooses another name. So nobody removes the temporary file
of a running process.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from hf_sgpe.errors import SGPEError

if TYPE_CHECKING:
    from filelock import BaseFileLock

_SUFFIX = ".hf_sgpe"

INCOMPLETE = f".incomplete{_SUFFIX}"
"""Name of the file that marks a folder in which only some files are replaced yet. Such a folder cannot be loaded."""

# No program loads a model or a tokenizer without these files. They are removed first and moved last.
_KEYS = ("config.json", "tokenizer.json")


@contextmanager
def atomic_directory(directory: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder. If the block succeeds, move all files in this folder into ``directory``.

    ``directory`` is created if it does not exist. Other files in it stay. If the process is killed while it replaces several
    files, no program loads the folder until the files are written again.
    """
    target = Path(directory)
    _check_folder(target)
    with _errors_name(target), parents_of(target):
        # A rename is atomic only within a file system, so the temporary folder is inside the target, or next to a new
        # target.
        place = target if target.is_dir() else target.parent
        _remove_leftovers(target.parent)
        with _temporary(place, target.name, _make_folder) as temporary:
            yield temporary
            if not temporary.is_dir():
                raise FileNotFoundError(f"{target}: its temporary folder was removed: run the command again")
            target.mkdir(exist_ok=True)
            moves = [(file, target / file.relative_to(temporary)) for file in sorted(temporary.rglob("*"))]
            # Check all destinations before moving any file.
            for path, destination in moves:
                if path.is_dir():
                    destination.mkdir(exist_ok=True)
                elif destination.is_dir():
                    raise IsADirectoryError(f"{destination} is a folder, but must be a file")
            _move([(path, destination) for path, destination in moves if path.is_file()], target)


def _move(moves: list[tuple[Path, Path]], target: Path) -> None:
    """Move files into a folder. While existing files are replaced, mark the folder as incomplete."""
    mark = target / INCOMPLETE
    was_incomplete = mark.exists()
    if len(moves) > 1 and any(destination.exists() for _, destination in moves):
        mark.touch()
        for path, destination in moves:
            if path.name in _KEYS:
                destination.unlink(missing_ok=True)
    for path, destination in sorted(moves, key=lambda move: move[0].name in _KEYS):
        path.replace(destination)
    if not was_incomplete or any(path.name in _KEYS for path, _ in moves):
        mark.unlink(missing_ok=True)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a temporary file. If the block succeeds, rename this file to ``path``. If ``path`` is
    a link, its target is replaced and the link stays.
    """
    with _next_to(path, Path.touch) as temporary:
        yield temporary
        temporary.replace(Path(path).resolve())


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file in UTF-8, with ``\\n`` as the line end on every system."""
    with atomic_file(path) as temporary:
        write_utf8(temporary, text, name=os.fspath(path))


def write_utf8(path: Path, text: str, *, name: str = "") -> None:
    """Write a file as `write_text`, without a temporary file. Errors contain ``name`` instead of the file's own name.

    Raises:
        SGPEError: the text has a surrogate.
    """
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except UnicodeEncodeError as error:
        before = text[max(error.start - 20, 0) : error.start].encode(errors="replace").decode()
        raise SGPEError(
            f"{name or path.name}: after {before!r}, the text has half of a surrogate pair, which UTF-8 cannot represent: "
            "remove it from the input"
        ) from None


@contextmanager
def scratch_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder next to ``path``, for data too large for memory. Remove the folder after the block."""
    with _next_to(path, _make_folder) as folder:
        yield folder


@contextmanager
def parents_of(target: Path) -> Iterator[None]:
    """Create the folders above ``target``. If the block fails, remove the new folders unless they contain files."""
    _folder_above(target)
    created = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for parent in created:
            with suppress(OSError):  # the folder is not empty
                parent.rmdir()
        raise


def release(lock: BaseFileLock) -> None:
    """Release a lock and remove its file."""
    with suppress(OSError):  # Windows removes the file after the release
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


def check_directory(directory: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Check that files called ``names`` can be written into ``directory``, without changing anything on the disk.

    Raises:
        OSError: one of the names is a folder or a device, or there is no permission to write.
    """
    _check_folder(Path(directory))
    for name in names:
        path = Path(directory) / name
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder, but must be a file: remove the folder, or choose another place")
        check_file(path)


def _check_folder(target: Path) -> None:
    if not target.is_dir() and (target.exists() or target.is_symlink()):
        kind = "a broken link" if target.is_symlink() else "a file"
        raise NotADirectoryError(f"{target} is {kind}: give a folder to write to")


def check_file(path: str | os.PathLike[str]) -> None:
    """Check that ``path`` can be written as a file, without changing anything on the disk.

    Raises:
        OSError: ``path`` is a folder or a device, one of its parents is a file, or there is no permission to write.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        raise OSError(f"{target} is {'a folder' if target.is_dir() else 'not an ordinary file'}: give a file to write to")
    above = _folder_above(target.resolve())
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(f"{target}: no permission to write in the folder {above}")


def _folder_above(target: Path) -> Path:
    """Return the nearest parent of ``target`` that exists, after checking that it is a folder."""
    above = next(parent for parent in target.absolute().parents if parent.exists())
    if not above.is_dir():
        raise NotADirectoryError(f"{above} is a file: nothing can be written below it")
    return above


@contextmanager
def _errors_name(target: Path) -> Iterator[None]:
    """Make file-system errors of the ``with`` block name ``target`` instead of a temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        if error.filename and not any(part.startswith(f".{target.name}") for part in Path(error.filename).parts):
            raise
        raise type(error)(error.errno, error.strerror, str(target)) from None


@contextmanager
def _next_to(path: str | os.PathLike[str], make: Callable[[Path], None]) -> Iterator[Path]:
    check_file(path)
    target = Path(path).resolve()
    with _errors_name(target), parents_of(target), _temporary(target.parent, target.name, make) as temporary:
        yield temporary


@contextmanager
def _temporary(place: Path, name: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """Yield a locked temporary file or folder in ``place``, named after ``name``. Remove it after the block."""
    _remove_leftovers(place)
    path, lock = _locked_name(place, name)
    try:
        make(path)
        yield path
    finally:
        _remove(path)
        release(lock)


def _locked_name(place: Path, name: str) -> tuple[Path, BaseFileLock]:
    """Return a new name for a temporary file, and its lock."""
    from filelock import FileLock, Timeout

    while True:
        path = place / f".{name}-{token_hex(4)}{_SUFFIX}"
        lock = FileLock(f"{path}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:  # a process that looks for leftover files holds the lock
            continue
        except (OSError, NotImplementedError):  # the file system has no locks, so leftover files stay
            pass
        return path, lock


def _make_folder(path: Path) -> None:
    # On Windows, files that move out of this folder would keep its owner-only permission.
    path.mkdir() if os.name == "nt" else path.mkdir(0o700)


def _remove_leftovers(place: Path) -> None:
    """Remove the temporary files of killed processes from a folder."""
    from filelock import FileLock

    for file in place.glob(f".*-????????{_SUFFIX}.lock"):
        lock = FileLock(file)
        with suppress(OSError, NotImplementedError):  # another process is writing the file, or there is no permission
            lock.acquire(timeout=0)
            _remove(file.with_suffix(""))
            release(lock)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
