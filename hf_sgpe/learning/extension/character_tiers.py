"""Extending a tokenizer whose merges join characters, as in SentencePiece.

Merges join whole characters, so a merge with a character of the new scripts never changes other text. The merges are closed:
if joining two tokens gives a new token, their pair is a merge. SentencePiece and llama.cpp join any two adjacent tokens
whose joined text is a token, so they produce the same ids if the merges are closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from hf_sgpe.bpe.closed_pairs import closed
from hf_sgpe.bpe.merging import flat, merge_words, spell_tokens
from hf_sgpe.bpe.unit_tier import BYTES, ChosenUnits, build_unit_tier, order_units
from hf_sgpe.learning.extension.extension_tiers import BytesPair, TierLearner, Tiers
from hf_sgpe.vocabulary.byte_strings import is_text
from hf_sgpe.vocabulary.neighbours import is_character
from hf_sgpe.vocabulary.special_tokens import any_of


class CharacterTierLearner(TierLearner):
    """A learner for the merges of an extended tokenizer, if its merges join characters and not bytes."""

    @cached_property
    def _alphabet(self) -> frozenset[str]:
        """The characters of the words to learn from."""
        return frozenset().union(*(word.decode() for word in self.words.words))

    @cached_property
    def _tokens_inside(self) -> set[bytes]:
        """The tokenizer's tokens that can occur in the words."""
        return {token for token in self.base.vocab if self._alphabet.issuperset(token.decode())}

    @cached_property
    def _merges_inside(self) -> list[BytesPair]:
        """The tokenizer's merges that can apply to the words."""
        return [pair for pair in self.base.merges if pair[0] + pair[1] in self._tokens_inside]

    @cached_property
    def _with_added_tokens(self) -> list[int]:
        """The indices of the words that contain an added token. Encoding finds added tokens before it merges."""
        added = any_of(frozenset(self.base.added_tokens))
        firsts = frozenset(text[:1] for text in self.base.added_tokens)
        texts = enumerate(word.decode() for word in self.words.words)
        return [place for place, text in texts if not firsts.isdisjoint(text) and added.search(text)]

    def tiers(self, *, reach_all: bool) -> Tiers:
        """Return the merges of the extended tokenizer. They include every pair of tokens that joins to a new token."""
        best = self._best_tiers()
        known = {*self.base.vocab, *best.new_tokens(self.base.vocab)}
        return best._replace(merges=closed(best.merges, known, only=self.confinement.holds))

    def _with_units(self, chosen: ChosenUnits) -> Tiers | None:
        characters, units = self._characters_and_unit_pairs(chosen)
        known = {*self._tokens_inside, *characters, *map(b"".join, units)}
        unit_tokens = len(known) - len(self._tokens_inside)
        room = self.wanted - unit_tokens
        if room < 0:
            return None
        # If a pair occurs more than once, the last occurrence counts. So the tokenizer's own merges of units would move
        # these pairs from the front to a later place.
        moved = set(units)
        inside = [pair for pair in self._merges_inside if pair not in moved]
        merges = closed([*units, *inside], known, only=self.confinement.holds)
        numbers = {token: number for number, token in enumerate(dict.fromkeys([*BYTES, *sorted(known)]))}
        pairs = [(numbers[left], numbers[right]) for left, right in merges]
        results = [numbers[left + right] for left, right in merges]
        alphabet = {token: number for token, number in numbers.items() if token in known and is_character(token)}
        sequences = merge_words(self.words.words, pairs, results, alphabet)
        times, untaught = self._times(sequences, list(numbers))
        learned, gains = self._learn(sequences, times, list(numbers), set(merges), room)
        rest = [pair for pair in self.base.merges if pair not in moved]
        return Tiers([*units, *rest, *learned], unit_tokens, gains, untaught, tuple(characters))

    def _characters_and_unit_pairs(self, chosen: ChosenUnits) -> tuple[list[bytes], list[BytesPair]]:
        """Return the characters that get a new token, and the merges that build units from characters."""
        plain = [character for character in sorted(self.characters) if not self._is_shared(character)]
        units = dict.fromkeys([*plain, *order_units(chosen, self.trie, characters=plain)])
        shared = set(filter(self._is_shared, set("".join(units)) - {" "}))
        whole = [unit for unit in units if shared.isdisjoint(unit)]
        new = [character.encode() for character in dict.fromkeys("".join(whole))]
        tier = build_unit_tier([unit.encode() for unit in whole])
        spelled = spell_tokens(BYTES, tier)
        # The first merges build characters from bytes. All other merges join whole characters.
        pairs = [(spelled[left], spelled[right]) for left, right in tier]
        return [c for c in new if c not in self.base.vocab], [pair for pair in pairs if all(map(is_text, pair))]

    def _is_shared(self, character: str) -> bool:
        """Return whether a character must stay without a token, because the character also occurs in other text."""
        encoded = character.encode()
        return encoded not in self.base.vocab and not self.confinement.holds(encoded)

    def _with_shared(self) -> list[str]:
        return []  # a character that may not have a token cannot be part of one

    def _times(self, sequences: Sequence[Sequence[int]], tokens: Sequence[bytes]) -> tuple[list[int], float]:
        times, _ = super()._times(sequences, tokens)
        for word in self._with_added_tokens:
            times[word] = 0
        # Words are left out of learning if one of their characters has no token, because no merge joins the tokens of the
        # character's bytes.
        ids, ends = flat(sequences)
        untaught = np.flatnonzero(np.isin(ids, [n for n, byte in enumerate(BYTES) if byte not in self._tokens_inside]))
        for word in np.unique(np.searchsorted(ends, untaught, side="right")).tolist():
            times[word] = 0
        return times, 1 - sum(times) / sum(self.words.times)
