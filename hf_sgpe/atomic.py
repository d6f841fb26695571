"""Writing files so that a failure leaves nothing half-written: under a temporary name first, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_directory(directory: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder whose files move into ``directory`` when the block ends well, each by one rename.

    ``directory`` is made if need be; other files in it stay as they are.

    Raises:
        NotADirectoryError: a file stands in the way.
    """
    target = Path(directory)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{target} is a file: give a folder to write to")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that a rename does not cross file systems.
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield temporary
        target.mkdir(exist_ok=True)
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                place = target / file.relative_to(temporary)
                place.parent.mkdir(parents=True, exist_ok=True)
                file.replace(place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write; it becomes ``path`` when the block ends well and is removed otherwise."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
