"""Models in the form that an engine wants them in, converted when first needed and kept."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from hf_sgpe.atomic import atomic_directory, atomic_file, check_file
from hf_sgpe.errors import SGPEError

DONE_FILE = "converted.json"
"""Says of what a conversion was made; it is written last."""


def cache_folder() -> Path:
    """Where conversions are kept: ``HF_SGPE_CACHE``, or ``hf_sgpe`` in the user's folder for caches."""
    if folder := os.environ.get("HF_SGPE_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hf_sgpe"


def converted(source: Path, kind: str, convert: Callable[[Path, Path], None]) -> Path:
    """The folder with the conversion of a model's folder, which is made if it is not there.

    It is known by the place of the source and by names, sizes and times of its files, so a model that was trained further is
    converted anew. Removing the cache is safe at any time.

    Args:
        kind: Form of the conversion, part of the name.
        convert: Writes the conversion of the first folder into the second.

    Raises:
        SGPEError: nothing can be written there.
    """
    files = sorted(file for file in source.iterdir() if file.is_file())
    state = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    digest = hashlib.sha256(json.dumps([str(source.resolve()), state]).encode()).hexdigest()[:16]
    target = cache_folder() / f"{source.resolve().name}-{kind}-{digest}"
    if not (target / DONE_FILE).exists():
        try:
            check_file(target / DONE_FILE)
        except OSError as error:
            raise SGPEError(f"{error}: name another folder for conversions by HF_SGPE_CACHE") from None
        if sys.stderr.isatty():
            print(f"Converting {source} for {kind} (once; kept in {target})", file=sys.stderr)
        with atomic_directory(target) as folder:
            convert(source, folder)
        with atomic_file(target / DONE_FILE) as file:
            file.write_text(json.dumps({"source": str(source.resolve()), "kind": kind}), "utf-8")
    return target
