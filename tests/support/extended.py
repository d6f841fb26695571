"""Saves extended tokenizers."""

from pathlib import Path

from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.extending import Extension
from trainers.tokenizers.tokenizer_extender import extended_folder


def save_extended(base: TokenizerFolder, extension: Extension, out: Path) -> None:
    extended = extended_folder(base, extension)
    extended.check_target(out)
    with atomic_directory(out) as temporary:
        extended.write(temporary)
