"""The rule for what a command may replace: nothing of the user's, unless ``--overwrite`` says so.

The methods of the Python interface, such as ``save_pretrained``, replace what is there, as those of transformers do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import model_file, tokenizer_file, tokens_in


def check_new_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Make sure that a command which writes a file replaces none.

    Raises:
        SGPEError: the file is there, and ``overwrite`` is not set.
    """
    if not overwrite and Path(path).is_file():
        raise SGPEError(f"{path}: is there already: give another name, or --overwrite to replace it")


def check_new_folder(
    folder: str | os.PathLike[str], *, overwrite: bool = False, names: Iterable[str] = (), whole: bool = False
) -> None:
    """Make sure that a command which writes a tokenizer or a model into a folder replaces none, and no file of its names.

    Other files may be in the folder; they stay.

    Args:
        names: Names of further files that the command writes.
        whole: The folder must be empty.

    Raises:
        SGPEError: the folder holds a model, a tokenizer or one of the files, and ``overwrite`` is not set.
    """
    path = Path(folder)
    if overwrite or not os.fspath(folder) or not path.is_dir():
        return
    held = _held(path)
    if held or (whole and any(path.iterdir())):
        raise SGPEError(f"{folder}: holds {held or 'files'}: give another folder, or --overwrite to replace what is there")
    for name in names:
        check_new_file(path / name)


def _held(folder: Path) -> str:
    """Return what a folder holds that another tokenizer or model would spoil, or an empty text."""
    if model := model_file(folder):
        return f"a model ({model}), whose rows are those of its own tokenizer"
    if tokenizer := tokenizer_file(folder):
        tokens = tokens_in(folder / tokenizer) if tokenizer == "tokenizer.json" else None
        return f"a tokenizer ({tokenizer})" if tokens is None else f"a tokenizer of {tokens:,} tokens"
    return ""
