"""Measuring tokenizers on text: how many tokens a word takes, and how many syllables and letters are cut.

Text is measured line by line, in NFC. A word is what stands between white space. A syllable or letter is cut if a token
ends strictly inside it, between two of its characters or between two bytes of one.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.model import BPETokenizer
from hf_sgpe.normalization import normalize
from hf_sgpe.pretokenizers.abugidas import SCRIPTS
from hf_sgpe.pretokenizers.linguis_trie import LinguisTrie

TokenEnds = Callable[[str], list[int]]
"""Text → where each of its tokens ends, in bytes of its UTF-8; a token may end inside a character."""


@dataclass
class Evaluation:
    """Sums over a text, and the measures made of them; a measure without anything to measure is None."""

    lines: int = 0
    words: int = 0
    characters: int = 0
    bytes: int = 0
    tokens: int = 0
    syllables: int = 0
    cut_syllables: int = 0
    letters: int = 0
    cut_letters: int = 0

    @property
    def tokens_per_word(self) -> float | None:
        """Fertility: tokens by words between white space."""
        return self.tokens / self.words if self.words else None

    @property
    def bytes_per_token(self) -> float | None:
        """UTF-8 bytes by tokens: compression."""
        return self.bytes / self.tokens if self.tokens else None

    @property
    def cut_syllable_share(self) -> float | None:
        """Share of the syllables of the supported scripts with a token end inside, 0 to 1."""
        return self.cut_syllables / self.syllables if self.syllables else None

    @property
    def cut_letter_share(self) -> float | None:
        """Share of the visible letters of the supported scripts with a token end inside, 0 to 1."""
        return self.cut_letters / self.letters if self.letters else None

    def to_dict(self) -> dict[str, Any]:
        """Sums and measures as plain JSON values."""
        measures = ("tokens_per_word", "bytes_per_token", "cut_syllable_share", "cut_letter_share")
        return {**vars(self), **{name: getattr(self, name) for name in measures}}


def evaluate(tokenizer: TokenEnds | BPETokenizer, lines: Iterable[str]) -> Evaluation:
    """Measures one tokenizer (a `BPETokenizer`, or any as `load_measurable` gives it) on some lines.

    >>> result = evaluate(lambda text: [3, len(text.encode())], ["කා"])
    >>> result.cut_syllable_share
    1.0
    """
    trie = LinguisTrie(SCRIPTS)
    token_ends = measurable(tokenizer) if isinstance(tokenizer, BPETokenizer) else tokenizer
    result = Evaluation()
    for line in lines:
        text = normalize(line, "nfc")
        ends = token_ends(text)
        result.lines += 1
        result.words += len(text.split())
        result.characters += len(text)
        result.bytes += len(text.encode())
        result.tokens += len(ends)
        for syllable, start, stop in syllable_spans(trie, text):
            result.syllables += 1
            letters = trie.letters(syllable)
            result.letters += len(letters)
            if ends_inside(ends, start, stop):
                result.cut_syllables += 1
                stops = list(accumulate((len(letter.encode()) for letter in letters), initial=start))
                result.cut_letters += sum(map(ends_inside, [ends] * len(letters), stops, stops[1:]))
    return result


def syllable_spans(trie: LinguisTrie, text: str) -> Iterator[tuple[str, int, int]]:
    """Each syllable of the trie's scripts in ``text``, with where it starts and stops in bytes.

    >>> list(syllable_spans(LinguisTrie(), "a කා"))
    [('කා', 2, 8)]
    """
    start = 0
    for unit in trie.tokenize(text):
        stop = start + len(unit.encode())
        if trie.script_of(unit):
            yield unit, start, stop
        start = stop


def ends_inside(ends: list[int], start: int, stop: int) -> bool:
    """Whether one of ``ends``, which ascend, lies strictly between ``start`` and ``stop``."""
    place = bisect_right(ends, start)
    return place < len(ends) and ends[place] < stop


def load_measurable(path_or_repo: str | os.PathLike[str]) -> TokenEnds:
    """Any tokenizer with a ``tokenizer.json`` (file, folder or Hub repository) in the form that `evaluate` takes.

    Special tokens are neither added nor recognised. Byte-level BPE runs in this package, anything else in ``tokenizers``.

    Raises:
        SGPEError: there is no such tokenizer, or it is damaged.
    """
    try:
        tokenizer = BPETokenizer.from_pretrained(path_or_repo)
    except NotByteLevelError:
        return _foreign(tokenizer_json.find(path_or_repo))
    return measurable(tokenizer)


def measurable(tokenizer: BPETokenizer) -> TokenEnds:
    """A tokenizer in the form that `evaluate` takes.

    >>> measurable(BPETokenizer.train_from_iterator(["ab"], 257))("abc")
    [2, 3]
    """
    lengths = {id: len(token) for token, id in tokenizer.vocab.items()}
    return lambda text: list(accumulate(map(lengths.__getitem__, tokenizer.encode(text))))


def _foreign(path: Path) -> TokenEnds:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises the bare class
        raise SGPEError(f"{path}: damaged or not a tokenizer.json ({error})") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def token_ends(text: str) -> list[int]:
        byte_offsets = list(accumulate((len(character.encode()) for character in text), initial=0))
        spans = tokenizer.encode(text, add_special_tokens=False).offsets
        ends: list[int] = []
        for (_, end), (next_start, _) in zip(spans, [*spans[1:], (len(text), len(text))], strict=False):
            # Two tokens that share a character: the first ends somewhere inside it.
            ends.append(byte_offsets[end - 1] + 1 if next_start < end else byte_offsets[end])
        return ends

    return token_ends
