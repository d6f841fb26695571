"""Folders of resumable jobs. Only one process at a time works in a folder, and all runs in a folder must have the same
settings.
"""

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
"""Name of the file that records the settings of the run in a folder of results."""

BASE_FILE = "before.json"
"""Name of the file with the measurements of the base model, in the folder of an adaptation."""

PROGRESS_FILE = "language_progress.jsonl"
"""Name of the file with the measurements of a model during its training."""

LOCK_FILE = ".lock"
"""Name of the file that the process that writes to a folder locks."""


@contextmanager
def alone_in(directory: str | os.PathLike[str], *, patience: float = 3) -> Iterator[None]:
    """Lock an existing folder for the block, so that only one process at a time works in the folder.

    Args:
        patience: Seconds to wait for the lock, because the workers of a killed process need a moment to end.

    Raises:
        BlockingIOError: another process has locked the folder.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(Path(directory) / LOCK_FILE)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        message = f"{directory}: another process writes to this folder: wait for it, or give another folder"
        raise BlockingIOError(message) from None
    try:
        yield
    finally:
        release(lock)


def keep_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of a run into its folder of results."""
    write_json(folder / SETTINGS_FILE, settings)


def check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Check that the results in a folder were made with ``settings``, if the folder has a file of settings."""
    file = folder / SETTINGS_FILE
    if not file.exists():
        return
    try:
        kept = read_json(file)
    except SGPEError:
        raise SGPEError(f"{file} is damaged: remove it and the results in its folder") from None
    different = differing(settings, kept)
    if different:
        names = ", ".join(f"{name} was {value}" if _is_short(value) else name for name, value in different.items())
        raise SGPEError(
            f"{folder} was started with different settings ({names}): give the old values of these settings, "
            "or another folder"
        )


def _is_short(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and 0 < len(value) <= 30)


def differing(settings: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from those of an earlier run, ``kept``, with their earlier values. The value of a
    setting that is missing in ``kept`` is None.

    >>> differing({"steps": 5, "files": ("a",)}, {"steps": 6, "files": ["a"]})
    {'steps': 6}
    """
    now = json.loads(json.dumps(dict(settings)))  # tuples become lists, as they do in a file
    return {name: kept.get(name) for name, value in now.items() if kept.get(name) != value}
