"""The words from which an extension is learned. Each word contains a character of the new scripts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.learning.assembling import warn_of_absent
from hf_sgpe.learning.extension.extension_config import ExtensionConfig
from hf_sgpe.splitting.scripts.script import runs
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.vocabulary.codec import make_codec
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

# Weighted counts are whole numbers. Each occurrence of a word counts at most this many parts.
_WEIGHT_PARTS = 64


def number_of_tokens(tokenizer: TokenizerData | PieceFolder, texts: Sequence[str], times: Sequence[int]) -> float:
    """Return the number of tokens of parts of text, each of which occurs a number of times."""
    if isinstance(tokenizer, PieceFolder):
        return float(np.dot([len(ids) for ids in tokenizer.encode_batch(texts)], times))
    ends = make_codec(tokenizer.inside_text()).encode_batch_to_numpy(texts)[1]
    return float(np.dot(np.diff(ends, prepend=0), times))


class Words(NamedTuple):
    """The words to learn from, and the weighted count of each word."""

    words: list[bytes]
    times: list[int]
    parts: int  # the greatest weight of one occurrence of a word

    @classmethod
    def from_counts(cls, counts: WordCounts, config: ExtensionConfig) -> Words:
        """Return the words with a character of the scripts, such as a letter, or a digit of their own.

        The words of scripts with more text get less weight. A script is ignored without any of its letters in the text.
        """
        scripts = {name: resolve_script(name) for name in config.scripts}
        script_of = {c: name for name, script in scripts.items() for c in script.characters()}
        script_of_letter = {c: name for name, script in scripts.items() for c in script.letters_and_marks()}
        any_character, any_letter = _any_of(script_of.keys() | script_of_letter), _any_of(script_of_letter)
        words: list[tuple[bytes, int, str]] = []
        running: Counter[str] = Counter()
        for word, times in counts.items():
            text = word.decode()
            first = any_character.search(text)
            if first is None:
                continue
            letter = any_letter.search(text, first.start())
            if letter is None:
                script = script_of[first[0]]
            else:
                script = script_of_letter[letter[0]]
                running[script] += times
            words.append((word, times, script))
        words = [word for word in words if word[2] in running]
        if running:
            warn_of_absent(config.scripts, running)
        least = min(running.values(), default=1)
        parts = _WEIGHT_PARTS if len(running) > 1 and config.balance else 1
        weight = {script: parts * (least / total) ** config.balance for script, total in running.items()}
        weighted = [max(round(times * weight[script]), 1) for _, times, script in words]
        return cls([word for word, _, _ in words], weighted, parts * counts.scale)


def _any_of(characters: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches any of ``characters``."""
    ranges = [f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in runs(map(ord, characters))]
    return re.compile(f"[{''.join(ranges)}]")
