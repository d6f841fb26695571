"""Parity-aware BPE: merges for several languages. The language with the most tokens so far chooses the next merge.

Plain BPE counts the pairs of all text together, so languages with much text get long tokens, and languages with little text
get short tokens. Here each merge is the most frequent pair of one language: the language whose held-out text has the most
tokens so far. The held-out texts are translations of each other, so their numbers of tokens can be compared. The merge is
then applied in all languages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hf_sgpe import kernels
from hf_sgpe.bpe.merging import Pair
from hf_sgpe.bpe.trainer import OnMerge, checked, learn_readably
from hf_sgpe.errors import SGPEError


class CountedWords(NamedTuple):
    """Words as token ids, and the number of occurrences of each word."""

    words: Sequence[Sequence[int]]
    times: Sequence[int]


def learn_in_parity(
    languages: Sequence[CountedWords],
    held_out: Sequence[CountedWords],
    *,
    vocabulary: Sequence[bytes],
    num_merges: int,
    tie_break: str = "smallest-pair-id",
    min_frequency: int = 1,
    on_merge: OnMerge | None = None,
) -> list[Pair]:
    """Learn up to ``num_merges`` merges, so that all languages need similar numbers of tokens. Merge k creates the token
    with id ``len(vocabulary) + k``.

    At each step, the language with the most tokens in its held-out text chooses. (If several languages have equally many
    tokens, the first of them chooses.) The most frequent pair of the choosing language is merged in all languages. A
    language drops out when none of its pairs is frequent enough, and learning ends when all languages have dropped out. Time
    grows as in `learn_merges`. In addition, each merge takes time for each language.

    Args:
        held_out: The words of each language's held-out text. The texts are translations of each other.
        vocabulary: The bytes of every token that the words may use, ordered by id.
        tie_break: The rule that decides between pairs with the same count in the choosing language: one of `TIE_BREAKS`.
        min_frequency: A pair with a lower count in the choosing language is never merged.

    Source: Foroutan et al. 2025, "Parity-Aware Byte-Pair Encoding" (the base variant).

    >>> one, other = CountedWords([list(b"aab")], [9]), CountedWords([list(b"cd")], [1])
    >>> learn_in_parity([one, other], [one, other], vocabulary=[bytes([i]) for i in range(256)], num_merges=2)
    [(97, 97), (256, 98)]
    """
    num_merges, min_frequency = checked(tie_break, num_merges=num_merges, min_frequency=min_frequency)
    if len(languages) != len(held_out):
        raise SGPEError(f"give one held-out text for each language (got {len(held_out)} for {len(languages)} languages)")
    if kernels.is_native():
        import hf_sgpe._native as _native

        try:
            return _native.learn_in_parity(
                [tuple(one) for one in languages],
                [tuple(one) for one in held_out],
                list(vocabulary),
                num_merges,
                tie_break,
                min_frequency,
                on_merge,
            )
        except ValueError as error:
            raise SGPEError(str(error)) from None
    if any(not 0 <= id < len(vocabulary) for one in (*languages, *held_out) for word in one.words for id in word):
        raise SGPEError("a word has an id that is not in the vocabulary")
    return learn_readably(languages, held_out, vocabulary, num_merges, tie_break, min_frequency, on_merge)
