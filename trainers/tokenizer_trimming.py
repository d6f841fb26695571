"""Removal of tokens that a model does not need, from an existing tokenizer to the finished folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.text_files import CorpusFile, find_files, read_lines
from hf_sgpe.counts.count_files import is_file_of_counts
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.piece_checks import written_class
from hf_sgpe.evaluation.runtimes import sample_lines, warn_of_class
from hf_sgpe.evaluation.token_use import find_counted, holds_text, use_of_pieces, use_of_tokens
from hf_sgpe.evaluation.trimmed_text import TrimmedText, check_corpus, codec_of, compare_sizes, compare_trimmed
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.formats.folder_of_any_kind import read_folder
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.formats.tokenizer_files import TokenizerFiles
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.vocabulary.trimming import COMPACT, KEEP, Trimming, confined_to, scripts_except
from trainers.counting.parallel_counting import reading_bar

MAP_FILE = "ids.json"
"""The file with the old and the new ids of the tokens, if they have new ids."""
# Number of lines of the corpus that are compared, and that the sizes are measured on.
_COMPARED, _SAMPLE = 100_000, 2_000


@dataclass(frozen=True)
class Trimmed:
    """A trimmed tokenizer with the effect of its trimming.

    Attributes:
        base: The files of the tokenizer before.
        folder: The files of the trimmed tokenizer.
        compared: Number of tokens of the corpus that were compared and are the same.
        kept: A comparison of both tokenizers on the lines of a corpus that need not keep its tokens.
        results: A comparison of both tokenizers on held-out text, keyed by file.
        sizes: A comparison of the base with tokenizers of several sizes, keyed by size, on the held-out text or else the
            beginning of the corpus. It is empty without a number of tokens.
        loaded: A sentence about the class with which ``AutoTokenizer`` loads the tokenizer, if its folder names a class.
    """

    base: TokenizerFolder | PieceFolder
    folder: TokenizerFolder | PieceFolder
    trimming: Trimming[Any]
    ids: str
    compared: int
    kept: TrimmedText | None
    results: Mapping[str, TrimmedText]
    sizes: Mapping[int, TrimmedText]
    loaded: str

    @property
    def rows(self) -> tuple[int, int]:
        """Number of embedding rows that a model needs for the tokenizer before, and for the trimmed tokenizer."""
        before = self.base.rows or 1 + self.trimming.base.highest_id
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
    tokens: int | None = None,
    needed_for: Sequence[str] = (),
    ids: str | None = None,
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
        tokens: Instead of ``unused_in``: the number of tokens that stay.
        needed_for: Files of text or of word counts. With ``tokens``, the tokens that they need most stay.
        ids: ``keep`` or ``compact`` (see `hf_sgpe.vocabulary.trimming.trimmed`). By default, ``keep`` for BPE, and otherwise
            ``compact``.
        evaluate: Held-out text to encode with both tokenizers.
        overwrite: Whether the files of a tokenizer in ``out`` may be replaced.
    """
    by_use = [*unused_in, *needed_for]
    scripts = _scripts(list(drop_script), list(keep_script), by_use=bool(by_use) or tokens is not None)
    if (tokens is None) == bool(needed_for) or (unused_in and needed_for):
        raise SGPEError("give the number of tokens with --tokens and text with --for, or only text with --unused-in")
    files, corpus, folder = find_files(evaluate), find_counted(by_use), read_folder(base)
    data = folder if isinstance(folder, PieceFolder) else folder.data
    ids = ids or (COMPACT if isinstance(folder, PieceFolder) else KEEP)
    if isinstance(folder, PieceFolder):
        folder.check_trim(scripts, ids)
    _check_target(folder, Path(base), Path(out), ids=ids, overwrite=overwrite)
    warn_of_class(base, data)
    use = _use_of_tokens(data, corpus, scripts, text_field) if corpus else None
    if use and isinstance(data, TokenizerData) and not holds_text(one for id, one in data.bytes_by_id().items() if use[id]):
        raise SGPEError(f"{'--for' if needed_for else '--unused-in'} {', '.join(map(str, by_use))}: there is no text")
    smaller: TokenizerFolder | PieceFolder
    trimming: Trimming[Any]
    if isinstance(folder, PieceFolder):
        smaller, trimming = folder.trimmed(use or (), tokens=tokens)
    else:
        smaller, trimming = folder.trimmed(scripts, ids=ids, use=use, tokens=tokens)
    smaller.check_target(out)  # it may have no tokenizer.model
    compared, kept = _compare_corpus(trimming, corpus, tokens, text_field)
    results = {str(file): compare_trimmed(trimming, read_lines(file, text_field=text_field)) for file in files}
    sample = _sample(files or _texts(corpus), text_field)
    sizes = compare_sizes(trimming, sample, tokens) if tokens is not None and sample else {}
    with atomic_directory(Path(out)) as temporary:
        smaller.write(temporary)
        if ids == COMPACT:
            moved = {"runs": trimming.runs_of_ids()}
            (temporary / MAP_FILE).write_text(json.dumps(moved) + "\n", encoding="utf-8", newline="\n")
        loaded = ""
        if smaller.keeps_class:
            encoder = codec_of(trimming.tokenizer)
            loaded = written_class(smaller, encoder.encode_batch, temporary, [*sample_lines(), *sample])
    return Trimmed(folder, smaller, trimming, ids, compared, kept, results, sizes, loaded)


def _scripts(drop: list[str], keep: list[str], *, by_use: bool) -> Iterable[str]:
    if drop and keep:
        raise SGPEError("give the scripts to drop with --drop-script, or the scripts to keep with --keep-script, not both")
    if not (drop or keep or by_use):
        raise SGPEError(
            "give the scripts to drop with --drop-script, the scripts to keep with --keep-script, text with --unused-in, or "
            "a number of tokens with --tokens and text with --for"
        )
    return drop or (scripts_except(keep) if keep else ())


def _check_target(folder: TokenizerFiles, base: Path, out: Path, *, ids: str, overwrite: bool) -> None:
    source = base.resolve()
    if (out / "tokenizer.json").exists() and out.resolve() in (source, source.parent):
        raise SGPEError(f"--out {out} is the tokenizer to trim: name another folder")
    check_new_folder(out, overwrite=overwrite, names=[MAP_FILE] if ids == COMPACT else [])
    folder.check_target(out)
    if ids == KEEP and (out / MAP_FILE).exists():
        raise SGPEError(
            f"{out / MAP_FILE}: this file has the ids of another tokenizer: remove this file, or choose another folder"
        )


def _texts(corpus: Iterable[CorpusFile]) -> list[CorpusFile]:
    return [file for file in corpus if not (isinstance(file, Path) and is_file_of_counts(file))]


def _sample(files: Sequence[CorpusFile], text_field: str) -> list[str]:
    """Return the first lines of each file that are not blank."""
    every = (filter(str.strip, read_lines(file, text_field=text_field)) for file in files)
    return [line for lines in every for line in islice(lines, 1 + _SAMPLE // len(files))]


def _use_of_tokens(
    data: TokenizerData | PieceFolder, corpus: Sequence[CorpusFile], scripts: Iterable[str], text_field: str
) -> list[int]:
    """Return how often the text without the scripts uses each id."""
    with reading_bar(corpus) as bar:
        options: dict[str, Any] = {"text_field": text_field, "on_progress": bar.update}
        if isinstance(data, PieceFolder):
            if len(_texts(corpus)) < len(corpus):
                raise SGPEError(f"a {data.kind} tokenizer cannot be trimmed by word counts: give the text itself")
            return use_of_pieces(data, chain.from_iterable(read_lines(file, **options) for file in corpus))
        without = confined_to(scripts, data.normalization).points
        [counts] = use_of_tokens([data], corpus, without=without, lines=True, **options)
    used: list[int] = counts.tolist()
    return used


def _compare_corpus(
    trimming: Trimming[Any], corpus: Sequence[CorpusFile], tokens: int | None, text_field: str
) -> tuple[int, TrimmedText | None]:
    """Check that the corpus keeps its tokens, and return their number; or, with a number of tokens, compare its lines."""
    with reading_bar(corpus) as bar:
        options: dict[str, Any] = {"text_field": text_field, "on_progress": bar.update}
        if tokens is None and isinstance(trimming.base, TokenizerData):
            return check_corpus(trimming, corpus, lines=True, **options), None
        lines = chain.from_iterable(read_lines(file, **options) for file in _texts(corpus))
        if tokens is None:
            return compare_trimmed(trimming, lines).tokens_before, None
        return 0, compare_trimmed(trimming, islice(lines, _COMPARED)) if _texts(corpus) else None
