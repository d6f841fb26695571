"""Removal of tokens that a model does not need, from an existing tokenizer to the finished folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_sgpe.corpora.text_files import CorpusFile, find_files, read_lines
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.runtimes import warn_of_class
from hf_sgpe.evaluation.token_use import find_counted, holds_text, use_of_tokens
from hf_sgpe.evaluation.trimmed_text import TrimmedText, check_corpus, compare_trimmed
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.vocabulary.trimming import COMPACT, KEEP, Trimming, confined_to, scripts_except
from trainers.counting.parallel_counting import reading_bar

MAP_FILE = "ids.json"
"""The file with the old and the new ids of the tokens, if they have new ids."""


@dataclass(frozen=True)
class Trimmed:
    """A trimmed tokenizer with the effect of its trimming.

    Attributes:
        base: The files of the tokenizer before.
        folder: The files of the trimmed tokenizer.
        compared: Number of tokens of the corpus for which both tokenizers were compared.
        results: A comparison of both tokenizers on held-out text, keyed by file.
    """

    base: TokenizerFolder
    folder: TokenizerFolder
    trimming: Trimming
    ids: str
    compared: int
    results: Mapping[str, TrimmedText]

    @property
    def rows(self) -> tuple[int, int]:
        """Number of embedding rows that a model needs for the tokenizer before, and for the trimmed tokenizer."""
        before = self.base.rows or 1 + self.base.data.highest_id
        return before, len(self.trimming.ids) if self.ids == COMPACT else before

    @property
    def parameters_saved(self) -> int | None:
        """Number of parameters that the model loses, or None if the length of a row is unknown."""
        before, after = self.rows
        return (before - after) * self.base.row_size if self.base.row_size else None


def trim(
    base: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    drop_script: Iterable[str] = (),
    keep_script: Iterable[str] = (),
    unused_in: Sequence[str] = (),
    ids: str = KEEP,
    evaluate: Sequence[str | os.PathLike[str]] = (),
    text_field: str = "text",
    overwrite: bool = False,
) -> Trimmed:
    """Remove tokens from a tokenizer, as ``hf-sgpe trim`` does, and write the trimmed tokenizer. After an error, no file has
    been written.

    Args:
        out: Folder to write to. The other files of the base are copied into it.
        drop_script: Scripts or languages whose tokens are removed.
        keep_script: Instead of ``drop_script``: the only scripts or languages whose tokens stay.
        unused_in: Files of text or of word counts. Tokens that they do not need are removed.
        ids: ``keep`` or ``compact`` (see `hf_sgpe.vocabulary.trimming.trimmed`).
        evaluate: Held-out text to encode with both tokenizers.
        overwrite: Whether the files of a tokenizer in ``out`` may be replaced.
    """
    drop, keep = list(drop_script), list(keep_script)
    if drop and keep:
        raise SGPEError("give the scripts to drop with --drop-script, or the scripts to keep with --keep-script, not both")
    if not (drop or keep or unused_in):
        raise SGPEError(
            "give the scripts to drop with --drop-script, the scripts to keep with --keep-script, or text with --unused-in"
        )
    scripts = drop or (scripts_except(keep) if keep else ())
    files = find_files(evaluate)
    corpus = find_counted(unused_in)
    folder = TokenizerFolder.read(base)
    out, source = Path(out), Path(base).resolve()
    if (out / "tokenizer.json").exists() and out.resolve() in (source, source.parent):
        raise SGPEError(f"--out {out} is the tokenizer to trim: name another folder")
    check_new_folder(out, overwrite=overwrite, names=[MAP_FILE] if ids == COMPACT else [])
    folder.check_target(out)
    if ids == KEEP and (out / MAP_FILE).exists():
        raise SGPEError(
            f"{out / MAP_FILE}: this file has the ids of another tokenizer: remove this file, or choose another folder"
        )
    warn_of_class(base, folder.data)
    use = _use_of_tokens(folder.data, corpus, scripts, text_field) if corpus else None
    if use is not None and not holds_text(token for id, token in folder.data.bytes_by_id().items() if use[id]):
        raise SGPEError(f"--unused-in {', '.join(map(str, unused_in))}: there is no text")
    smaller, trimming = folder.trimmed(scripts, ids=ids, use=use)
    smaller.check_target(out)  # it may have no tokenizer.model
    with reading_bar(corpus) as bar:
        compared = check_corpus(trimming, corpus, text_field=text_field, lines=True, on_progress=bar.update)
    results = {str(file): compare_trimmed(trimming, read_lines(file, text_field=text_field)) for file in files}
    with atomic_directory(out) as temporary:
        smaller.write(temporary)
        if ids == COMPACT:
            moved = {"runs": trimming.runs_of_ids()}
            (temporary / MAP_FILE).write_text(json.dumps(moved) + "\n", encoding="utf-8", newline="\n")
    return Trimmed(folder, smaller, trimming, ids, compared, results)


def _use_of_tokens(data: TokenizerData, corpus: Sequence[CorpusFile], scripts: Iterable[str], text_field: str) -> list[int]:
    """Return how often the text without the scripts uses each id."""
    without = confined_to(scripts, data.normalization).points
    with reading_bar(corpus) as bar:
        [counts] = use_of_tokens([data], corpus, without=without, text_field=text_field, lines=True, on_progress=bar.update)
    used: list[int] = counts.tolist()
    return used
