"""Steps of BPE training, for teaching with small texts. A step consists of a merge, its count, and the words before and
after the merge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hf_sgpe.bpe.merging import Pair
from hf_sgpe.bpe.trainer import Word, learn_merges
from hf_sgpe.bpe.unit_tier import BYTES
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer

Pieces = tuple[bytes, ...]


@dataclass(frozen=True)
class MergeStep:
    """One merge.

    Attributes:
        id: Id of the token that the merge adds.
        count: Number of occurrences of the pair before the merge.
        before: The counts of the words, as sequences of tokens, before the merge.
        after: The same after the merge. Words that the merge changed come last.
    """

    id: int
    pair: tuple[bytes, bytes]
    count: int
    before: Mapping[Pieces, int]
    after: Mapping[Pieces, int]

    def __str__(self) -> str:
        left, right = self.pair
        words = [f"{list(pieces)} : {count}" for pieces, count in self.before.items()]
        return "\n".join([*words, f"top pair {left!r} , {right!r} -> {self.count}"])


def merge_steps(
    words: WordCounts | Mapping[bytes, int] | str,
    num_merges: int,
    *,
    pattern: str = "gpt2",
    tie_break: str = "smallest-pair-id",
    min_frequency: int = 1,
) -> Iterator[MergeStep]:
    """Yield the first ``num_merges`` merges that BPE learns from words. If no more pairs are left, there are fewer merges.

    Every step contains all words, so time and memory grow with the product of the number of words and the number of merges.

    Args:
        words: Words with their counts, or a string that ``pattern`` splits into words.
        tie_break: One of `hf_sgpe.bpe.trainer.TIE_BREAKS`. The notebook uses ``greatest-pair-id``.

    Source: the table in the notebook on the motivation of BPE.

    >>> for step in merge_steps("low low lower", 2):
    ...     print(step)
    [b'l', b'o', b'w'] : 1
    [b' ', b'l', b'o', b'w'] : 1
    [b' ', b'l', b'o', b'w', b'e', b'r'] : 1
    top pair b'l' , b'o' -> 3
    [b'lo', b'w'] : 1
    [b' ', b'lo', b'w'] : 1
    [b' ', b'lo', b'w', b'e', b'r'] : 1
    top pair b'lo' , b'w' -> 3
    """
    if isinstance(words, str):
        words = Counter(word.encode() for word in RegexPreTokenizer(pattern).split(words))
    learned: list[tuple[Pair, int]] = []
    learn_merges(
        list(words),
        [count for _, count in words.items()],
        vocabulary=BYTES,
        num_merges=num_merges,
        tie_break=tie_break,
        min_frequency=min_frequency,
        on_merge=lambda id, pair, count: learned.append((pair, count)),
    )
    tokens = list(BYTES)

    def pieces(state: list[tuple[Word, int]]) -> dict[Pieces, int]:
        return {tuple(tokens[id] for id in word.ids): count for word, count in state}

    state = [(Word(list(word)), count) for word, count in words.items()]
    after = pieces(state)
    for pair, count in learned:
        id, before = len(tokens), after
        tokens.append(tokens[pair[0]] + tokens[pair[1]])
        changed = [(entry, bool(entry[0].merge_pair(pair, id))) for entry in state]
        state = [entry for entry, change in changed if not change] + [entry for entry, change in changed if change]
        after = pieces(state)
        yield MergeStep(id, (tokens[pair[0]], tokens[pair[1]]), count, before, after)
