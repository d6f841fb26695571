"""The rule for existing files: commands replace existing files only with ``--overwrite``.

Python methods such as ``save_pretrained`` replace existing files, as the methods of transformers do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import model_file, tokenizer_file, tokens_in


def check_new_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Check that a command does not replace an existing file.

    Raises:
        SGPEError: the file exists, and ``overwrite`` is not set.
    """
    if not overwrite and Path(path).is_file():
        raise SGPEError(f"{path} already exists: give another name, or add --overwrite to replace it")


def check_new_folder(
    folder: str | os.PathLike[str], *, overwrite: bool = False, names: Iterable[str] = (), whole: bool = False
) -> None:
    """Check that a folder has nothing that a command would replace: no model, no tokenizer and none of the files ``names``.

    Other files are allowed in the folder and stay there.

    Args:
        names: Names of other files that the command writes.
        whole: Whether the folder must be empty.

    Raises:
        SGPEError: ``overwrite`` is not set, and the folder has a model, a tokenizer or one of the files (with ``whole``: any
            file).
    """
    path = Path(folder)
    if overwrite or not os.fspath(folder) or not path.is_dir():
        return
    held = _held(path)
    if held or (whole and any(path.iterdir())):
        raise SGPEError(
            f"{folder} already has {held or 'files'}: give another folder, or add --overwrite to replace its files"
        )
    for name in names:
        check_new_file(path / name)


def _held(folder: Path) -> str:
    """Return a phrase that names the model or tokenizer in a folder. If the folder has neither, return an empty string."""
    if model := model_file(folder):
        return f"a model ({model}), which needs its own tokenizer"
    if tokenizer := tokenizer_file(folder):
        tokens = tokens_in(folder / tokenizer) if tokenizer == "tokenizer.json" else None
        return f"a tokenizer ({tokenizer})" if tokens is None else f"a tokenizer of {tokens:,} tokens"
    return ""
