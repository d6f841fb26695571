"""The rule for existing files: commands replace existing files only with ``--overwrite``.

Python methods such as ``save_pretrained`` replace existing files, as the methods of transformers do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import model_file, tokenizer_file
from hf_sgpe.files.json_files import read_json


def check_new_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Check that a command does not replace an existing file."""
    if not overwrite and Path(path).is_file():
        raise SGPEError(f"{path} already exists: give another name, or add --overwrite to replace it")


def check_new_folder(
    folder: str | os.PathLike[str], *, overwrite: bool = False, names: Iterable[str] = (), whole: bool = False
) -> None:
    """Check that a folder has nothing that a command would replace: no model, no tokenizer and none of the files ``names``.
    Other files are allowed and stay there.

    Args:
        names: Names of other files that the command writes.
        whole: Whether the folder must be empty.
    """
    path = Path(folder)
    if overwrite or not os.fspath(folder) or not path.is_dir():
        return
    content = _model_or_tokenizer(path)
    if content or (whole and any(path.iterdir())):
        raise SGPEError(
            f"{folder} already has {content or 'files'}: give another folder, or add --overwrite to replace its files"
        )
    for name in names:
        check_new_file(path / name)


def _model_or_tokenizer(folder: Path) -> str:
    """Return a phrase that names the model or tokenizer in a folder, or an empty string."""
    model, tokenizer = model_file(folder), tokenizer_file(folder)
    if model:
        return f"a model ({model}), which needs its own tokenizer"
    if not tokenizer:
        return ""
    tokens = _number_of_tokens(folder / tokenizer) if tokenizer == "tokenizer.json" else None
    return f"a tokenizer ({tokenizer})" if tokens is None else f"a tokenizer of {tokens:,} tokens"


def _number_of_tokens(file: Path) -> int | None:
    """Return the number of tokens in a ``tokenizer.json`` with any type of model, or None if it cannot be read."""
    try:
        content = read_json(file)
        added = {token["content"] for token in content.get("added_tokens") or ()}
        vocab = content["model"]["vocab"]
        return len({*(vocab if isinstance(vocab, dict) else (entry[0] for entry in vocab)), *added})
    except (SGPEError, OSError, KeyError, TypeError, IndexError):
        return None
