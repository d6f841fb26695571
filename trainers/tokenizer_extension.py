"""Extension of an existing tokenizer with tokens for a language, from the corpus to the finished folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.corpus import Corpus, Files
from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.piece_checks import check_same_pieces, hard_texts, written_class
from hf_sgpe.evaluation.runtimes import sample_lines, warn_of_class
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.formats.folder_of_any_kind import read_folder
from hf_sgpe.formats.language_codes import FIRST_TIMESTAMP, with_language_codes
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.formats.tokenizer_files import TokenizerFiles
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.extending import Extension
from hf_sgpe.learning.extension.extension_config import AUTO, ExtensionConfig, cut_scripts
from hf_sgpe.learning.extension.piece_extending import PieceExtension, extend_pieces, word_splitting
from hf_sgpe.splitting.scripts.script_registry import names_of
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.tokenizer import BPETokenizer
from trainers.counting.parallel_counting import count_corpus
from trainers.tokenizers.learning_progress import learning_bars
from trainers.tokenizers.recipes import choose_split, find_scripts, where_it_runs
from trainers.tokenizers.tokenizer_extender import Cost, TokenizerExtender, cost_of, extended_folder

# Number of texts of the corpus for which AutoTokenizer is compared with the written file.
_COMPARED = 200
_WITHOUT_CLASS = ", but without the class of Whisper, so transformers decodes no times and sets no languages"


@dataclass(frozen=True)
class Extended:
    """An extended tokenizer with the settings and the effect of its extension.

    Attributes:
        folder: The files of the extended tokenizer.
        config: The settings of the extension, with the scripts and the split that were chosen.
        removed_scripts: The scripts whose tokens were removed first.
        removed_tokens: Number of these tokens.
        cost: The average number of tokens for a unit of text, before and after.
        runs: Sentences about the runtimes that return the same ids, or the class with which ``AutoTokenizer`` does.
        split: A sentence about the split of the extended tokenizer, or an empty string if it looks up pieces.
        own_split: Whether a new split was put before the split of the base.
        freed_names: Number of reserved tokens whose ids belong to new tokens.
        moved_by: The number that was added to the ids of special tokens, so that new tokens come before them.
    """

    folder: TokenizerFiles
    extension: Extension | PieceExtension
    config: ExtensionConfig
    removed_scripts: tuple[str, ...]
    removed_tokens: int
    cost: Cost
    runs: str
    split: str = ""
    own_split: bool = False
    freed_names: int = 0
    moved_by: int = 0


def extend(
    base: str | os.PathLike[str] | TokenizerFolder | PieceFolder,
    corpus: Files,
    out: str | os.PathLike[str],
    *,
    script: Iterable[str] = (),
    replace_script: Iterable[str] = (),
    runs_in: Iterable[str] = (),
    languages: Mapping[str, str] | None = None,
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
        languages: Language codes to add (see `hf_sgpe.formats.language_codes.with_language_codes`).
        overwrite: Whether the files of a tokenizer in ``out`` may be replaced.
        workers: As in `TokenizerExtender`.
        **settings: Further arguments of `ExtensionConfig`, such as ``new_tokens``.
    """
    out, folder = Path(out), _folder_for(base, Path(out), languages or {}, overwrite=overwrite)
    corpus = Corpus.of(corpus)
    warn_of_zawgyi(corpus)
    scripts = find_scripts(corpus, script, "hybrid", for_extension=True)
    warn_of_class(folder.name, folder if isinstance(folder, PieceFolder) else folder.data)
    settings |= {**scripts, "weights": corpus.weights}
    replaced, runtimes = list(replace_script), list(runs_in)
    if isinstance(folder, PieceFolder):
        return _with_pieces(folder, corpus, out, settings, {"replace_script": replaced, "runs_in": runtimes}, workers)
    return _with_merges(folder, corpus, out, settings, replaced, runtimes, workers)


def add_languages(
    base: str | os.PathLike[str], languages: Mapping[str, str], out: str | os.PathLike[str], *, overwrite: bool = False
) -> str:
    """Write a tokenizer with additional language codes, and return a sentence about its class. See `extend`."""
    folder = _folder_for(base, Path(out), languages, overwrite=overwrite)
    with atomic_directory(Path(out)) as temporary:
        folder.write(temporary)
        return _class_sentence(folder, temporary, sample_lines())


def _folder_for(
    base: str | os.PathLike[str] | TokenizerFolder | PieceFolder,
    out: Path,
    languages: Mapping[str, str],
    *,
    overwrite: bool,
) -> TokenizerFolder | PieceFolder:
    """Read a tokenizer, add language codes, and check that an extension of the tokenizer can be written to ``out``."""
    folder = base if isinstance(base, TokenizerFiles) else read_folder(base)
    source = Path(folder.name).resolve()
    if (out / "tokenizer.json").exists() and out.resolve() in (source, source.parent):
        raise SGPEError(f"{out} is the tokenizer to extend: name another folder")
    check_new_folder(out, overwrite=overwrite)
    folder.check_target(out)
    return with_language_codes(folder, languages) if languages else folder


def _class_sentence(folder: TokenizerFolder | PieceFolder, written: Path, texts: Sequence[str]) -> str:
    if not folder.keeps_class:
        return ""
    encode = folder.encode_batch if isinstance(folder, PieceFolder) else BPETokenizer.of(folder.data).encode_batch
    return f"\n{written_class(folder, encode, written, texts)}"


def _with_merges(
    whole: TokenizerFolder,
    corpus: Corpus,
    out: Path,
    settings: dict[str, Any],
    replaced: Sequence[str],
    runs_in: Sequence[str],
    workers: int | None,
) -> Extended:
    """Extend a BPE tokenizer. See `extend`."""
    folder = whole
    removed: tuple[str, ...] = ()
    if replaced:
        folder, trimming = whole.trimmed(replaced)
        removed, settings["reuse_ids"] = tuple(trimming.scripts), True
        if both := set(removed).intersection(settings["scripts"]):
            raise SGPEError(f"--replace-script and --script both name {min(both)}: name this script in only one of them")
    if whole.is_of_whisper and settings.get("own_split") is None:
        settings["own_split"] = False
    config = choose_split(folder.data, ExtensionConfig(**settings), runs_in)
    extender = TokenizerExtender(config, workers=workers)
    with atomic_directory(out) as temporary:
        extension = extender.learn(folder, extender.count(folder, files=corpus))
        runs = where_it_runs(extension, config, runs_in, corpus.beginning())
        extended, moved_by = _before_times(extended_folder(folder, extension), extension)
        extended.check_target(out)  # it may have no tokenizer.model
        extended.write(temporary)
        runs += _class_sentence(extended, temporary, [*sample_lines(), *hard_texts(config.scripts)])
    before, after = folder.data.splitting, extended.data.splitting
    remedy = "" if runs_in else f": --own-split keeps them whole{_WITHOUT_CLASS * whole.is_of_whisper}"
    return Extended(
        extended,
        replace(extension, tokenizer=extended.data),
        config,
        removed,
        whole.data.vocab_size - folder.data.vocab_size,
        cost_of(extension, config.scripts, corpus.beginning()),
        runs,
        _split_sentence(after, config.scripts, own=after.regexes != before.regexes, remedy=remedy),
        after.regexes != before.regexes,
        len(folder.data.added_ids) - len(extended.data.added_ids),
        moved_by,
    )


def _before_times(extended: TokenizerFolder, extension: Extension) -> tuple[TokenizerFolder, int]:
    """Move new tokens before the special tokens, if Whisper would read their ids as times: it does so with each id from
    its first timestamp on. Also return the number that was added to the ids of the special tokens.
    """
    first = extension.base.added_ids.get(FIRST_TIMESTAMP, extension.highest_id)
    new = sorted(id for id in extension.tokenizer.ids - extension.base.ids if id > first)
    if not new:
        return extended, 0
    while first - 1 in extension.base.added_ids.values():
        first -= 1
    ids = {id: id if id < first else id + len(new) for id in extension.tokenizer.ids}
    ids |= {id: first + place for place, id in enumerate(new)}
    *notes, note = extended.data.metadata["extensions"]
    metadata = {**extended.data.metadata, "extensions": [*notes, {**note, "moved_by": len(new)}]}
    return replace(extended, data=replace(extended.data, metadata=metadata)).with_new_ids(ids), len(new)


def _split_sentence(splitting: Splitting, scripts: Sequence[str], *, own: bool, remedy: str) -> str:
    if own:
        return "A new split, put before the old one, keeps these words whole"
    if cut := cut_scripts(splitting, scripts):
        return f"The split is unchanged and cuts words of {names_of(cut)}{remedy}"
    return "The split is unchanged and keeps these words whole"


def _with_pieces(
    folder: PieceFolder,
    corpus: Corpus,
    out: Path,
    settings: dict[str, Any],
    given: dict[str, list[str]],
    workers: int | None,
) -> Extended:
    """Extend a Unigram or WordPiece tokenizer. See `extend`."""
    config = ExtensionConfig(**settings)
    split = "--base-split" if config.own_split is False else ""
    unfit = {**vars(config), **given, "own_split": config.own_split is not None}
    for option in ("own_split", "reuse_ids", "reuse_reserved", "replace_script", "runs_in"):
        if unfit[option]:
            what = f"{folder.name} is a {folder.kind} tokenizer"
            raise SGPEError(f"{what}, which cannot be extended with {split or option}: leave this option out")
    counts = count_corpus(corpus, word_splitting(config), workers=workers)
    total = None if config.new_tokens == AUTO else int(config.new_tokens)
    with learning_bars(None, "Learning", total) as observer:
        extension = extend_pieces(folder, counts, config, observer=observer)
    texts = [*sample_lines(), *hard_texts(config.scripts), *islice(corpus.beginning(), _COMPARED)]
    check_same_pieces(extension, config.scripts, texts)
    with atomic_directory(out) as temporary:
        extension.tokenizer.write(temporary)
        runs = written_class(extension.tokenizer, extension.tokenizer.encode_batch, temporary, texts)
    cost = cost_of(extension, config.scripts, corpus.beginning())
    return Extended(extension.tokenizer, extension, config, (), 0, cost, runs)
