"""Writing files so that a failure leaves nothing half-written: under a temporary name first, then renamed.

A process holds a lock on what it is writing, which goes with the process. So what a killed process left behind is told from
what another is still writing, and is removed by the next one that writes into the same folder. Windows has no such locks,
and some network file systems have none: there it stays.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".hf_sgpe"


@contextmanager
def atomic_directory(directory: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder whose files move into ``directory`` when the block ends well, each by one rename.

    ``directory`` is made if need be; other files in it stay as they are. After a failure nothing is left behind.

    Raises:
        NotADirectoryError: a file stands in the way.
    """
    target = Path(directory)
    _check_folder(target)
    with _named(target), _parents(target):
        # On the file system of the target, so that a rename is one step: inside it if it is there, else beside it.
        place = target if target.is_dir() else target.parent
        _remove_leftovers(target.parent)
        with _temporary(place, target.name, _make_folder) as temporary:
            yield temporary
            target.mkdir(exist_ok=True)
            found = [(file, target / file.relative_to(temporary)) for file in sorted(temporary.rglob("*"))]
            # Obstacles are found before anything is moved.
            for path, destination in found:
                if path.is_dir():
                    destination.mkdir(exist_ok=True)
                elif destination.is_dir():
                    raise IsADirectoryError(f"{destination} is a folder: a file is to be written there")
            for path, destination in found:
                if path.is_file():
                    path.replace(destination)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write; it becomes ``path`` when the block ends well and is removed otherwise.

    A link is followed, so that what it names is replaced and not the link.

    Raises:
        OSError: as `check_file`.
    """
    check_file(path)
    target = Path(path).resolve()
    with _named(target), _parents(target), _temporary(target.parent, target.name, _make_file) as temporary:
        yield temporary
        temporary.replace(target)


@contextmanager
def scratch_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``path``, for data that does not fit into memory; it is removed when the block ends.

    Raises:
        OSError: as `check_file`.
    """
    check_file(path)
    target = Path(path).resolve()
    with _named(target), _parents(target), _temporary(target.parent, target.name, _make_folder) as folder:
        yield folder


def check_directory(directory: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Makes sure, without touching anything, that files called ``names`` can be written into ``directory``.

    Raises:
        OSError: a folder or a device has the name of one, or the directory, or where it is to be made, may not be written.
    """
    _check_folder(Path(directory))
    for name in names:
        path = Path(directory) / name
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder, and a file is to be written there: remove it, or choose another")
        check_file(path)


def _check_folder(target: Path) -> None:
    if not target.is_dir() and (target.exists() or target.is_symlink()):
        what = "a broken link" if target.is_symlink() else "a file"
        raise NotADirectoryError(f"{target} is {what}: give a folder to write to")


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
    above = next(parent for parent in target.absolute().parents if parent.exists())
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
    """Creates the folders above ``target``, and removes those that it created if the block fails."""
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


@contextmanager
def _temporary(place: Path, name: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """A temporary file or folder in ``place`` that is to become ``name``, removed with the block if it still exists."""
    _remove_leftovers(place)
    path, lock = _make_locked(place, name, make)
    try:
        yield path
    finally:
        _remove(path)
        if lock is not None:
            os.close(lock)


def _make_folder(path: Path) -> None:
    path.mkdir(0o700)


def _make_file(path: Path) -> None:
    path.touch(exist_ok=False)


def _make_locked(place: Path, name: str, make: Callable[[Path], None]) -> tuple[Path, int | None]:
    """A new file or folder for ``name``, and the open file that holds its lock; None where there are no locks."""
    while True:
        path = place / f".{name}-{token_hex(4)}{_SUFFIX}"
        make(path)
        try:
            lock = _try_lock(path)
        except (FileNotFoundError, BlockingIOError):
            continue  # before it was locked, another process took it for a leftover
        if lock is None or path.exists():
            return path, lock
        os.close(lock)


def _try_lock(path: Path) -> int | None:
    """An open file with the lock of a file or folder; None where there are no locks.

    Raises:
        FileNotFoundError: it is not there any more.
        BlockingIOError: another process has the lock.
    """
    if fcntl is None:
        return None
    opened = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        raise
    except OSError:
        os.close(opened)
        return None
    return opened


def _remove_leftovers(place: Path) -> None:
    """Removes temporary files in a folder that processes left behind when they were killed."""
    for path in place.glob(f".*-????????{_SUFFIX}"):
        with suppress(OSError):  # another process is at it, or it is not ours to remove
            lock = _try_lock(path)
            if lock is not None:
                _remove(path)
                os.close(lock)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
