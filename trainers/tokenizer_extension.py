"""Extension of an existing tokenizer with tokens for a language, from the corpus to the finished folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.corpus import Corpus, Files
from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.runtimes import warn_of_class
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.extending import Extension
from hf_sgpe.learning.extension.extension_config import ExtensionConfig
from trainers.tokenizers.recipes import choose_split, find_scripts, where_it_runs
from trainers.tokenizers.tokenizer_extender import Cost, TokenizerExtender, cost_of, extended_folder


@dataclass(frozen=True)
class Extended:
    """An extended tokenizer with the settings and the effect of its extension.

    Attributes:
        base: The base, without the tokens that were removed first.
        folder: The files of the extended tokenizer.
        config: The settings of the extension, with the scripts and the split that were chosen.
        removed_scripts: The scripts whose tokens were removed first.
        removed_tokens: Number of these tokens.
        cost: The average number of tokens for a unit of text, before and after.
        runs: Sentences about the runtimes that return the same ids.
    """

    base: TokenizerFolder
    folder: TokenizerFolder
    extension: Extension
    config: ExtensionConfig
    removed_scripts: tuple[str, ...]
    removed_tokens: int
    cost: Cost
    runs: str


def extend(
    base: str | os.PathLike[str] | TokenizerFolder,
    corpus: Files,
    out: str | os.PathLike[str],
    *,
    script: Iterable[str] = (),
    replace_script: Iterable[str] = (),
    runs_in: Iterable[str] = (),
    overwrite: bool = False,
    workers: int | None = None,
    **settings: Any,
) -> Extended:
    """Add tokens for the words of a corpus to a tokenizer, as ``hf-sgpe extend`` does, and write the extended tokenizer.
    After an error, no file has been written.

    Args:
        out: Folder to write to. The other files of the base are copied into it.
        script: Scripts or languages to add; by default, the scripts of the corpus.
        replace_script: Scripts or languages whose tokens are removed first. New tokens get the ids of the removed tokens.
        runs_in: Runtimes that must return the same ids as this package.
        overwrite: Whether the files of a tokenizer in ``out`` may be replaced.
        workers: As in `TokenizerExtender`.
        **settings: Further arguments of `ExtensionConfig`, such as ``new_tokens``.
    """
    folder = base if isinstance(base, TokenizerFolder) else TokenizerFolder.read(base)
    out, source = Path(out), Path(folder.name).resolve()
    if (out / "tokenizer.json").exists() and out.resolve() in (source, source.parent):
        raise SGPEError(f"{out} is the tokenizer to extend: name another folder")
    check_new_folder(out, overwrite=overwrite)
    folder.check_target(out)
    warn_of_class(folder.name, folder.data)
    corpus = Corpus.of(corpus)
    warn_of_zawgyi(corpus)
    scripts = find_scripts(corpus, script, "hybrid", for_extension=True)
    whole = folder.data
    removed: tuple[str, ...] = ()
    if replaced := list(replace_script):
        folder, trimming = folder.trimmed(replaced)
        removed, settings["reuse_ids"] = tuple(trimming.scripts), True
        if both := set(removed).intersection(scripts["scripts"]):
            raise SGPEError(f"--replace-script and --script both name {min(both)}: name this script in only one of them")
    config = choose_split(folder.data, ExtensionConfig(**settings, **scripts, weights=corpus.weights), runs_in)
    extender = TokenizerExtender(config, workers=workers)
    with atomic_directory(out) as temporary:
        extension = extender.learn(folder, extender.count(folder, files=corpus))
        runs = where_it_runs(extension, config, runs_in, corpus.beginning())
        extended = extended_folder(folder, extension)
        extended.check_target(out)  # it may have no tokenizer.model
        extended.write(temporary)
    cost = cost_of(extension, config.scripts, corpus.beginning())
    return Extended(folder, extended, extension, config, removed, whole.vocab_size - folder.data.vocab_size, cost, runs)
