"""Comparison of a trimmed tokenizer with its base: which text do they encode with the same tokens?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, takewhile
from typing import Any

import numpy as np

from hf_sgpe.corpora.measured_text import normalized, words_of
from hf_sgpe.corpora.text_files import CorpusFile, Progress
from hf_sgpe.counts.counters import in_batches
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.metrics import count_unspaced
from hf_sgpe.evaluation.token_use import PartEncoder, batches_of, document_parts, parts_without, with_lines, word_counts_in
from hf_sgpe.formats.piece_folder import WORDPIECE, PieceFolder
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.vocabulary.codec import Codec, make_codec
from hf_sgpe.vocabulary.token_parts import without_tokens
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.vocabulary.trimming import Trimming, confined_to, surplus

_LINES = 4096


@dataclass
class TrimmedText:
    """The result of `compare_trimmed`: numbers of lines, and of tokens before and after trimming.

    Attributes:
        kept_lines: Number of lines without characters of the dropped scripts.
        same_lines: Number of the ``kept_lines`` that have the same tokens before and after trimming.
        decoded_lines: Number of all lines whose tokens decode to the same text before and after trimming.
        other_tokens_before: Number of tokens of the base tokenizer in ``other_lines``.
        unspaced: Number of the ``characters`` that are letters and marks of scripts without spaces between words.
    """

    kept_lines: int = 0
    same_lines: int = 0
    other_lines: int = 0
    decoded_lines: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    other_tokens_before: int = 0
    other_tokens_after: int = 0
    words: int = 0
    characters: int = 0
    unspaced: int = 0

    @property
    def cost(self) -> tuple[str, float, float]:
        """The unit of text, ``word`` or ``character``, and its average number of tokens before and after trimming."""
        spaced = 2 * self.unspaced <= self.characters
        units = self.words if spaced else self.characters
        return "word" if spaced else "character", self.tokens_before / units, self.tokens_after / units

    @property
    def changed(self) -> float:
        """Share of the lines that have other tokens after trimming, among lines without characters of dropped scripts."""
        return 1 - self.same_lines / max(self.kept_lines, 1)

    def to_dict(self) -> dict[str, Any]:
        unit, before, after = self.cost
        measures = {f"tokens_per_{unit}_before": before, f"tokens_per_{unit}": after, "changed": self.changed}
        return {**asdict(self), **measures}


def compare_trimmed(trimming: Trimming[Any], lines: Iterable[str]) -> TrimmedText:
    """Encode the lines that are not blank before and after trimming, and count the lines with the same tokens. Check that
    these are all lines whose tokens were kept.

    A line with an unknown word can change, because WordPiece can find other pieces for the word.
    """
    base = trimming.base
    points = confined_to(trimming.scripts, base.normalization).points if trimming.scripts else ()
    old, new = codec_of(base), codec_of(trimming.tokenizer)
    unsure = base.unknown if isinstance(base, PieceFolder) and base.kind == WORDPIECE else None
    result = TrimmedText()
    for batch in in_batches((line for line in lines if line.strip()), _LINES, lambda line: 1):
        for line, before, after in zip(batch, old.encode_batch(batch), new.encode_batch(batch), strict=True):
            result.decoded_lines += old.decode(before) == new.decode(after)
            result.tokens_before += len(before)
            result.tokens_after += len(after)
            text = normalized(line)
            result.words += len(words_of(text))
            result.characters += len(text)
            result.unspaced += count_unspaced(text)
            moved = [trimming.ids.get(id) for id in before]
            if moved != after and None not in moved and unsure not in before:
                raise SGPEError(f"the trimmed tokenizer has different tokens for {line[:60]!r}: please report this")
            if not points or points.isdisjoint(map(ord, prepare(line, base.normalization))):
                result.kept_lines += 1
                result.same_lines += moved == after
            else:
                result.other_lines += 1
                result.other_tokens_before += len(before)
                result.other_tokens_after += len(after)
    if not result.tokens_before:
        raise SGPEError("there is no text to compare")
    return result


def compare_sizes(trimming: Trimming[Any], lines: Sequence[str], tokens: int) -> dict[int, TrimmedText]:
    """Compare the base with itself and with tokenizers trimmed by use, from larger ones than the given number of tokens to
    half of it. Return the comparisons, keyed by size.
    """
    base = trimming.base
    by_script = base.vocab.keys() - trimming.tokenizer.vocab.keys() - trimming.need.keys()
    whole = len(base.ids)
    left = whole - len(by_script)
    larger = takewhile(lambda size: size < left, (tokens << times for times in count()))
    sizes = [size for size in (tokens // 2, *larger) if size >= left - len(trimming.need)]
    gone = {size: by_script | surplus(trimming.need, left, size) for size in sizes}
    gone[whole] = set()
    return {size: compare_trimmed(_without(trimming, gone[size]), lines) for size in sorted(gone, reverse=True)}


def _without(trimming: Trimming[Any], gone: set[Any]) -> Trimming[Any]:
    if isinstance(trimming.base, PieceFolder):
        smaller, ids = trimming.base.without(gone)
        return replace(trimming, tokenizer=smaller, ids=ids)
    data = without_tokens(trimming.base, gone)
    return replace(trimming, tokenizer=data, ids={id: id for id in data.ids})


def codec_of(tokenizer: TokenizerData | PieceFolder) -> Codec | PieceFolder:
    """Return an object that encodes and decodes texts with the tokenizer."""
    return tokenizer if isinstance(tokenizer, PieceFolder) else make_codec(tokenizer)


def check_corpus(
    trimming: Trimming[TokenizerData],
    files: Iterable[CorpusFile],
    *,
    text_field: str = "text",
    lines: bool = False,
    on_progress: Progress | None = None,
) -> int:
    """Check that the documents of files have the same tokens before and after trimming, except parts and lines with
    characters of dropped scripts. Return the number of compared tokens.

    Args:
        lines: Whether to check each line as well, as a text of its own.
    """
    points = confined_to(trimming.scripts, trimming.base.normalization).points
    old, new = PartEncoder(trimming.base), PartEncoder(trimming.tokenizer)
    moved = np.full(1 + trimming.base.highest_id, -1, np.int32)
    moved[list(trimming.ids)] = list(trimming.ids.values())
    compared = 0
    for file in files:
        counts = word_counts_in(file, trimming.base)
        if counts is None:
            parts = document_parts(trimming.base, file, text_field=text_field, on_progress=on_progress)
            parts = with_lines(parts) if lines else parts
        else:
            parts = ((word.decode(), False) for word in counts)
        for batch in batches_of(parts_without(parts, points, trimming.base.normalization)):
            after = new.encode(batch)
            if not np.array_equal(moved[old.encode(batch)], after):
                wrong = next(part for part in batch if not np.array_equal(moved[old.encode([part])], new.encode([part])))
                raise SGPEError(f"{file}: the trimmed tokenizer has different tokens for {wrong[0][:60]!r}")
            compared += len(after)
    return compared
