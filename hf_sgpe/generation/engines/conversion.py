"""Models in the form that an engine wants them in, converted when first needed and kept."""

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
"""Says of what a conversion was made; it is written last."""


Loaded = TypeVar("Loaded")


def cache_folder() -> Path:
    """Return where conversions are kept: ``HF_SGPE_CACHE``, or ``hf_sgpe`` in the user's folder for caches."""
    if folder := os.environ.get("HF_SGPE_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hf_sgpe"


def load_converted(source: Path, kind: str, convert: Callable[[Path, Path], None], load: Callable[[Path], Loaded]) -> Loaded:
    """Return a model's folder in another form, which is made if it is not there, loaded.

    It is known by the place of the source and by names, sizes and times of its files, so a model that was trained further is
    converted again. One that cannot be loaded is removed, and converted once more if it was not new. Removing the cache is
    safe at any time.

    Args:
        kind: Form of the conversion, part of the name.
        convert: Writes the conversion of the first folder into the second.
        load: Loads a conversion; raises SGPEError for what is no fault of the conversion, and anything else for what is.

    Raises:
        SGPEError: nothing can be written there.
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
    except SGPEError:  # what was asked for cannot be
        raise
    except Exception:  # whatever a library says of what is damaged
        shutil.rmtree(target, ignore_errors=True)
        if is_new or (target / DONE_FILE).exists():  # it cannot be removed
            raise
    return load_converted(source, kind, convert, load)


def _make(source: Path, target: Path, kind: str, convert: Callable[[Path, Path], None]) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        check_file(target / DONE_FILE)
    except OSError as error:
        raise SGPEError(f"{one_line(error)}: name another folder for conversions by HF_SGPE_CACHE") from None
    if somebody_watches():
        print(f"Converting {source} for {kind} (once; kept in {target})", file=sys.stderr)
    with atomic_directory(target) as folder:
        convert(source, folder)
    write_json(target / DONE_FILE, {"source": str(source.resolve()), "kind": kind})
