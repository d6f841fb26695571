"""A cache of models that were converted to the format of an engine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import atomic_directory, check_file
from hf_sgpe.files.json_files import write_json
from hf_sgpe.terminal.command import one_line
from hf_sgpe.terminal.progress import somebody_watches

DONE_FILE = "converted.json"
"""File that marks a conversion as complete and names its source. It is written last."""


Loaded = TypeVar("Loaded")


def cache_folder() -> Path:
    """Return the folder for converted models: ``HF_SGPE_CACHE`` or, if this is not set, ``hf_sgpe`` in the user's cache
    folder.
    """
    if folder := os.environ.get("HF_SGPE_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hf_sgpe"


def load_converted(source: Path, kind: str, convert: Callable[[Path, Path], None], load: Callable[[Path], Loaded]) -> Loaded:
    """Load a converted model from the cache. If the cache does not contain the model, convert it first.

    The cache key consists of the source folder's path and the names, sizes and modification times of the files in this
    folder. If a model is trained further, the key changes and the model is converted again. A conversion that cannot be
    loaded is removed. If it came from the cache, the model is converted once more. The cache can be deleted at any time.

    Args:
        kind: Format of the conversion, as part of the folder's name.
        convert: Function that reads the model from the first folder, and writes the conversion into the second.
        load: Function that loads a conversion. It raises SGPEError if the caller's arguments are wrong, and any other
            exception if the conversion is damaged.
    """
    files = sorted(file for file in source.iterdir() if file.is_file())
    state = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    digest = hashlib.sha256(json.dumps([str(source.resolve()), state]).encode()).hexdigest()[:16]
    target = cache_folder() / f"{source.resolve().name}-{kind}-{digest}"
    is_new = not (target / DONE_FILE).exists()
    if is_new:
        _make(source, target, kind, convert)
    try:
        return load(target)
    except SGPEError:  # the conversion is not at fault
        raise
    except Exception:  # libraries raise exceptions of any class for a damaged file
        shutil.rmtree(target, ignore_errors=True)
        if is_new or (target / DONE_FILE).exists():  # the folder cannot be removed
            raise
    return load_converted(source, kind, convert, load)


def _make(source: Path, target: Path, kind: str, convert: Callable[[Path, Path], None]) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        check_file(target / DONE_FILE)
    except OSError as error:
        raise SGPEError(f"{one_line(error)}: set HF_SGPE_CACHE to another folder for conversions") from None
    if somebody_watches():
        print(f"Converting {source} for {kind} (only once; cached in {target})", file=sys.stderr)
    with atomic_directory(target) as folder:
        convert(source, folder)
    write_json(target / DONE_FILE, {"source": str(source.resolve()), "kind": kind})
