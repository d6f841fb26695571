"""Comparison of a trimmed tokenizer with its base on text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice

from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.vocabulary.codec import make_codec
from hf_sgpe.vocabulary.trimming import Trimming, confined_to

_LINES = 4096


@dataclass
class TrimmedText:
    """The result of `compare_trimmed`.

    Attributes:
        kept_lines: Number of lines without a character of the dropped scripts.
        same_lines: Number of these lines that have the same tokens.
        other_lines: Number of all other lines.
        decoded_lines: Number of lines of both kinds that decode to the text that they decoded to before.
        tokens_before: Number of tokens of the base.
        tokens_after: Number of tokens of the trimmed tokenizer.
        other_tokens_before: Number of tokens of the base in ``other_lines``.
        other_tokens_after: Number of tokens of the trimmed tokenizer in ``other_lines``.
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
        """Return the comparison as JSON values."""
        return asdict(self)


def compare_trimmed(trimming: Trimming, lines: Iterable[str]) -> TrimmedText:
    """Encode lines of text with a tokenizer before and after trimming. Empty lines are left out."""
    points = confined_to(trimming.scripts, trimming.base.normalization).points
    old, new = make_codec(trimming.base), make_codec(trimming.tokenizer)
    result = TrimmedText()
    remaining = (line for line in lines if line.strip())
    while batch := list(islice(remaining, _LINES)):
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
    return result
