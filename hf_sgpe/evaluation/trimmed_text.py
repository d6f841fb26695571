"""Comparison of a trimmed tokenizer with its base: which text do they encode with the same tokens?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from hf_sgpe.corpora.text_files import CorpusFile, Progress
from hf_sgpe.counts.counters import in_batches
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.token_use import PartEncoder, batches_of, document_parts, parts_without, with_lines, word_counts_in
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.vocabulary.codec import make_codec
from hf_sgpe.vocabulary.trimming import Trimming, confined_to

_LINES = 4096


@dataclass
class TrimmedText:
    """The result of `compare_trimmed`: numbers of lines, and of tokens before and after trimming.

    Attributes:
        kept_lines: Number of lines without characters of the dropped scripts.
        same_lines: Number of the ``kept_lines`` that have the same tokens before and after trimming.
        decoded_lines: Number of all lines whose tokens decode to the same text before and after trimming.
        other_tokens_before: Number of tokens of the base tokenizer in ``other_lines``.
    """

    kept_lines: int = 0
    same_lines: int = 0
    other_lines: int = 0
    decoded_lines: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    other_tokens_before: int = 0
    other_tokens_after: int = 0

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def compare_trimmed(trimming: Trimming, lines: Iterable[str]) -> TrimmedText:
    """Encode the lines that are not blank before and after trimming, and count the lines with the same tokens."""
    points = confined_to(trimming.scripts, trimming.base.normalization).points
    old, new = make_codec(trimming.base), make_codec(trimming.tokenizer)
    result = TrimmedText()
    for batch in in_batches((line for line in lines if line.strip()), _LINES, lambda line: 1):
        for line, before, after in zip(batch, old.encode_batch(batch), new.encode_batch(batch), strict=True):
            result.decoded_lines += old.decode(before) == new.decode(after)
            result.tokens_before += len(before)
            result.tokens_after += len(after)
            if points.isdisjoint(map(ord, prepare(line, trimming.base.normalization))):
                result.kept_lines += 1
                result.same_lines += [trimming.ids.get(id) for id in before] == after
            else:
                result.other_lines += 1
                result.other_tokens_before += len(before)
                result.other_tokens_after += len(after)
    if not result.tokens_before:
        raise SGPEError("there is no text to compare")
    return result


def check_corpus(
    trimming: Trimming,
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
