"""Folders in which a job that was broken off is continued: by one process at a time, with the settings it began with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import release
from hf_sgpe.files.json_files import read_json, write_json

SETTINGS_FILE = "settings.json"
"""The file with the settings of the results in a folder, so that no run with other settings continues them."""

LOCK_FILE = ".lock"
"""The file in a folder that the process which writes to the folder has locked."""


@contextmanager
def alone_in(directory: str | os.PathLike[str], *, patience: float = 3) -> Iterator[None]:
    """Run a block that only one process at a time runs for a folder, which exists.

    Args:
        patience: Seconds to wait for another: the workers of a process that was killed are gone in a moment.

    Raises:
        BlockingIOError: another process is in such a block.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(Path(directory) / LOCK_FILE)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        message = f"{directory}: another process writes to this folder: wait for it, or give another one"
        raise BlockingIOError(message) from None
    try:
        yield
    finally:
        release(lock)


def keep_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of the results in a folder."""
    write_json(folder / SETTINGS_FILE, settings)


def check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Make sure that results which are in a folder were made with the same settings.

    Raises:
        SGPEError: they were made with others, which the message names.
    """
    file = folder / SETTINGS_FILE
    if not file.exists():
        return
    try:
        kept = read_json(file)
    except SGPEError:
        raise SGPEError(f"{file}: damaged: remove it, and the results beside it") from None
    if different := differing(settings, kept):
        raise SGPEError(f"{folder} was begun with other settings ({', '.join(different)}): give the same, or another folder")


def differing(settings: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a file keeps with other values: name → the value in the file, None without one.

    >>> differing({"steps": 5, "files": ("a",)}, {"steps": 6, "files": ["a"]})
    {'steps': 6}
    """
    now = json.loads(json.dumps(dict(settings)))  # where lists and tuples are the same
    return {name: kept.get(name) for name, value in now.items() if kept.get(name) != value}
