"""Reading the files of an existing tokenizer of any kind."""

from __future__ import annotations

import os

from hf_sgpe.formats.piece_folder import PieceFolder, is_piece_model
from hf_sgpe.formats.tokenizer_files import read_files
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder


def read_folder(path_or_repo: str | os.PathLike[str], *, revision: str | None = None) -> TokenizerFolder | PieceFolder:
    """Read a tokenizer from a folder, from the vocabulary file in a folder, or from a repository on the Hub."""
    files, path, own_settings = read_files(path_or_repo, revision=revision)
    kind = PieceFolder if is_piece_model(files.content) else TokenizerFolder
    return kind.of_files(files, path, own_settings)
