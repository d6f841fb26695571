"""Learning the merges of an extended tokenizer. These merges build letters and syllables, rebuild tokens of the base
tokenizer, and make learned tokens.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from math import inf
from typing import NamedTuple

import numpy as np

from hf_sgpe.bpe.merging import MergeTable, Pair, apply_merges, flat, merge_words, spell_tokens
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.bpe.unit_tier import BYTES, ChosenUnits, build_unit_tier, order_units
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.extension.extension_config import AUTO, ExtensionConfig
from hf_sgpe.learning.extension.script_words import Words
from hf_sgpe.learning.observer import Observer
from hf_sgpe.learning.unit_choice import choose_units, cover
from hf_sgpe.splitting.scripts.script import ZWJ, ZWNJ, shared_marks
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.vocabulary.byte_strings import is_text
from hf_sgpe.vocabulary.confinement import Confinement
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

BytesPair = tuple[bytes, bytes]

# A cut letter is visible in the output. A syllable that is cut between letters only costs tokens.
_LETTER_COST = 4
# The number of steps of the binary search for the number of letters and syllables. Before the search, the number of all
# letters and syllables is tried.
_TRIALS = 5
_MOST_AUTO = 200_000
_MOST_PIECES = 16
_STEP = 1000
# Characters that occur in words of every script.
_EVERYWHERE = frozenset({ZWNJ, ZWJ, *shared_marks()})


class Tiers(NamedTuple):
    """The merges of an extended tokenizer, and what learning found out about them.

    Attributes:
        merges: All merges, in the order of their ranks.
        unit_tokens: Number of new tokens for units, which are letters, syllables, digits and punctuation.
        gains: For each learned token, the weighted number of tokens that it saves in the text.
        untaught: Share of the text's words that learning ignored, because merging the bytes of these words could change
            other text.
        characters: Characters that get a new token without a merge. There are none if merges join bytes.
    """

    merges: list[BytesPair]
    unit_tokens: int
    gains: list[int]
    untaught: float
    characters: tuple[bytes, ...] = ()

    def new_tokens(self, old: Collection[bytes]) -> dict[bytes, None]:
        """Return, as the keys of a dict, the tokens that are not among ``old``: characters, then the results of merges."""
        return dict.fromkeys(token for token in chain(self.characters, map(b"".join, self.merges)) if token not in old)


class TierLearner:
    """A learner for the merges of one extended tokenizer. For the arguments, see `extend_from_counts`."""

    def __init__(self, base: TokenizerData, words: Words, config: ExtensionConfig, *, observer: Observer) -> None:
        self.base, self.words, self.config, self.observer = base, words, config, observer
        self.wanted = _MOST_AUTO if config.new_tokens == AUTO else int(config.new_tokens)
        self.confinement = Confinement.to_scripts(config.scripts)
        self.trie = LinguisTrie(config.scripts, whole_clusters=True)
        units = self.trie.count_units(observer.steps(words.words, "Finding units"), words.times, every_word=True)
        self.units = {unit: times for unit, times in units.items() if self.trie.script_of(unit)}
        self.signs = self._signs(units)
        self._shared: dict[str, bool] = {" ": True, "": True}
        self.characters = self._promised()
        self.own_tokens = _tokens_in(config.scripts, base, self.confinement)
        self.with_shared = self._with_shared()

    def tiers(self, *, reach_all: bool) -> Tiers:
        """Return the merges of the extended tokenizer. The last merges rebuild more tokens of the base tokenizer from
        learned tokens.

        Args:
            reach_all: Whether to rebuild all tokens of the base tokenizer that consist of whole characters and belong to the
                scripts. This takes a few new tokens. Then even runtimes that look up a whole word in the vocabulary before
                they apply merges return the same ids.
        """
        best = self._best_tiers()
        merges = best.merges
        wanted = inf if self.config.new_tokens == AUTO else int(self.config.new_tokens)
        while True:
            revived = self._revived(merges, self._numbered(merges), by_new_tokens=reach_all)
            excess = len(self._new_tokens([*merges, *revived])) - wanted
            if excess <= 0:
                return best._replace(merges=[*merges, *revived])
            room = len(self._new_tokens(merges)) - int(excess)
            if room < best.unit_tokens:
                reach_all = False
            else:
                merges = [*_first_new(merges, set(self.base.vocab), room)]

    def _new_tokens(self, merges: Iterable[BytesPair]) -> set[bytes]:
        return set(map(b"".join, merges)) - self.base.vocab.keys()

    def _numbered(self, merges: Iterable[BytesPair]) -> dict[bytes, int]:
        """Return a dict that numbers all bytes, all tokens of the base tokenizer, and all results of merges."""
        numbers: dict[bytes, int] = {byte: number for number, byte in enumerate(BYTES)}
        for token in chain(self.base.vocab, (left + right for left, right in merges)):
            numbers.setdefault(token, len(numbers))
        return numbers

    def _best_tiers(self) -> Tiers:
        """Return the merges with the best number of units, where the last unit saves about as many tokens as the last
        learned token. With fewer units, there is room for more learned tokens, so the last of them saves less. This is why a
        binary search finds the number.
        """
        chosen = choose_units(
            self.units,
            self.trie,
            letter_coverage=self.config.letter_coverage,
            syllable_coverage=self.config.syllable_coverage,
        )
        chosen.letters.update(self.signs)  # a sign must be worth its token, as a letter must
        worth = self._worth(chosen)
        ranked = sorted(worth, key=lambda unit: (-worth[unit], unit))

        def with_first(number: int) -> Tiers | None:
            """Return the merges that include the ``number`` units with the greatest value, or None without room for them."""
            kept = set(ranked[:number])
            return self._with_units(ChosenUnits(kept - chosen.letters, chosen.letters & kept))

        def is_too_great(number: int, tiers: Tiers) -> bool:
            """Return whether the last of ``number`` units saves less than the last learned token."""
            return bool(number and tiers.gains) and worth[ranked[number - 1]] < tiers.gains[-1]

        best = with_first(len(ranked))
        if best is not None and not is_too_great(len(ranked), best):
            return best
        low, high = 0, len(ranked)
        for _ in range(_TRIALS):
            middle = (low + high) // 2
            tiers = with_first(middle)
            best = tiers or best
            if tiers is None or is_too_great(middle, tiers):
                high = middle
            else:
                low = middle
        best = best or with_first(low)
        if best is None:
            needed = self._new_tokens(self._unit_pairs(ChosenUnits(set(), set())))
            raise SGPEError(
                f"new_tokens {self.config.new_tokens} is too small: the {len(self.characters)} characters of these scripts "
                f"alone need about {len(needed):,} tokens"
            )
        return best

    def _signs(self, units: Mapping[str, int]) -> Counter[str]:
        """Return how often each of the scripts' own digits and punctuation marks occurs, without those too rare to merge."""
        own = frozenset().union(*(script.characters() - script.letters_and_marks() for script in self.trie.scripts))
        signs: Counter[str] = Counter()
        for unit, times in units.items():
            if (sign := unit.removeprefix(" ")) in own:
                signs[sign] += times
        least = self.config.min_frequency * self.words.parts
        return Counter({sign: times for sign, times in signs.items() if times >= least})

    def _promised(self) -> set[str]:
        """Return the characters that always get a token.

        In most scripts, every character gets a token. In some scripts, a character gets a token only if the token saves
        enough, with one exception: a character always gets a token if its first byte is also the first byte of a joiner or
        mark that occurs in all scripts. Such a joiner or mark is merged byte by byte with the character before it. If the
        other character had no token, the merge with this first byte would also apply to that character, and so cut it.
        """
        promised = {character for unit in self.units if not self.trie.must_earn(unit) for character in unit}
        characters = self.signs.keys() | set().union(*self.units)
        if not self.base.by_characters:
            leads = {mark.encode()[:1] for mark in filter(self._is_shared, characters & _EVERYWHERE)}
            promised |= {character for character in characters if character.encode()[:1] in leads}
        return promised - _EVERYWHERE - {" "}

    def _worth(self, chosen: ChosenUnits) -> dict[str, float]:
        """Return the number of tokens that the text saves if a unit gets its own token, with the cost of avoided cuts."""
        letters = self.signs.copy()
        plain: Counter[str] = Counter()
        for unit, times in self.units.items():
            plain[unit.removeprefix(" ")] += times
            for letter in self.trie.letters(unit):
                letters[letter] += times
        cost = self.config.cut_cost
        worth = {letter: letters[letter] * (len(letter) - 1 + _LETTER_COST * cost) for letter in chosen.letters}
        for unit in chosen.syllables:
            syllable = unit.removeprefix(" ")
            worth[syllable] = max(plain[syllable] * (len(self.trie.letters(syllable)) - 1 + cost), worth.get(syllable, 0))
            if unit != syllable:
                worth[unit] = min(self.units[unit], worth[syllable])
        return {unit: inf if unit.encode() in self.base.vocab else value for unit, value in worth.items()}

    def _with_units(self, chosen: ChosenUnits) -> Tiers | None:
        """Return the merges with which exactly these units get tokens, or None if that needs too many new tokens."""
        units = self._unit_pairs(chosen)
        moved = set(units)
        rest = [pair for pair in self.base.merges if pair not in moved]
        numbers = self._numbered(units)
        # If a byte sequence of a sign also occurs in other text, the sign cannot be built from bytes, but perhaps from
        # existing tokens.
        signs = [sign.encode() for sign in sorted(chosen.letters & self.signs.keys()) if self._is_shared(sign)]
        revived = self._revived([*units, *rest], numbers, built=signs)
        unit_tokens = len(self._new_tokens([*units, *revived]))
        room = self.wanted - unit_tokens
        if room < 0:
            return None
        merges = [*units, *rest, *revived]
        pairs = [(numbers[left], numbers[right]) for left, right in merges]
        sequences = merge_words(self.words.words, pairs, [numbers[left + right] for left, right in merges])
        times, untaught = self._times(sequences, list(numbers))
        learned, gains = self._learn(sequences, times, list(numbers), set(merges), room)
        return Tiers([*merges, *learned], unit_tokens, gains, untaught)

    def _revived(
        self,
        merges: Sequence[BytesPair],
        numbers: dict[bytes, int],
        *,
        by_new_tokens: bool = False,
        built: Collection[bytes] = (),
    ) -> list[BytesPair]:
        """Return merges that rebuild those tokens of the base tokenizer that belong to the scripts. Without these merges,
        the merges of letters and syllables, which come first, would prevent such tokens. A rebuilt token keeps its id, but
        new intermediate tokens need new ids. The new tokens are added to ``numbers``.

        Args:
            by_new_tokens: Whether to rebuild all tokens that consist of whole characters, even if this needs new
                intermediate tokens.
            built: Further tokens to build, even if this needs new intermediate tokens.
        """
        tokens = list(numbers)
        table = MergeTable(((numbers[left], numbers[right]), numbers[left + right]) for left, right in merges)
        revived: list[BytesPair] = []
        for token in (*built, *self.own_tokens):
            bytes_of = [numbers[bytes([byte])] for byte in token]
            pieces = [tokens[piece] for piece in apply_merges(bytes_of, table)]
            ways = _joined(pieces, numbers, self.confinement)
            may_be_new = token in built or (by_new_tokens and is_text(token))
            if not ways and may_be_new and len(pieces) > 1:
                ways = [(b"".join(pieces[:place]), pieces[place]) for place in range(1, len(pieces))]
                if not all(self.confinement.holds(left + right) for left, right in ways):
                    continue
            for left, right in ways:
                if left + right not in numbers:
                    numbers[left + right] = len(tokens)
                    tokens.append(left + right)
                pair = numbers[left], numbers[right]
                if pair not in table.ranks:
                    table.add(pair, numbers[left + right])
                    revived.append((left, right))
        return revived

    def _unit_pairs(self, chosen: ChosenUnits) -> list[BytesPair]:
        """Return the merges that build the units. These merges never apply to text of other scripts.

        Some characters (joiners and, in Devanagari, the danda) share their first bytes with characters of other scripts.
        Such a character is never built alone. It is merged byte by byte with the character before it, because the two
        together occur only in the scripts. There is one exception: a joiner or mark that occurs in all scripts stays split
        if a letter that cannot be built has the same first byte. Otherwise, the merge would cut this letter.
        """
        plain = [character for character in sorted(self.characters) if not self._is_shared(character)]
        ordered = order_units(chosen, self.trie, characters=plain)
        units = dict.fromkeys([*plain, *self.with_shared, *ordered])
        shared = set(filter(self._is_shared, {character for unit in units for character in unit}))
        leads = {letter.encode()[:1] for letter in self.characters if self._is_shared(letter)}
        parting = {mark for mark in shared & _EVERYWHERE if mark.encode()[:1] in leads}
        whole = [unit.encode() for unit in units if unit.removeprefix(" ")[:1] not in shared and parting.isdisjoint(unit)]
        tier = build_unit_tier(whole)
        spelled = spell_tokens(BYTES, tier)
        return [(spelled[left], spelled[right]) for left, right in tier]

    def _is_shared(self, character: str) -> bool:
        """Return whether merges that build a character from its bytes would also apply to other text."""
        if character not in self._shared:
            bytes_of = character.encode()
            beginnings = (bytes_of[:length] for length in range(2, len(bytes_of) + 1))
            self._shared[character] = not all(map(self.confinement.holds, beginnings))
        return self._shared[character]

    def _with_shared(self) -> list[str]:
        """Return the most frequent pairs of a character and a shared character (see `_is_shared`) that follows it."""
        pairs: Counter[str] = Counter()
        for unit, times in self.units.items():
            for first, second in itertools.pairwise(unit.removeprefix(" ")):
                if second in self.characters and self._is_shared(second) and not self._is_shared(first):
                    pairs[first + second] += times
        return sorted(cover(pairs, self.config.letter_coverage))

    def _times(self, sequences: Sequence[Sequence[int]], tokens: Sequence[bytes]) -> tuple[list[int], float]:
        """Return the weight of each word in learning, and the share of the text's words that learning ignores.

        A word is ignored, and gets the weight 0, if two of its adjacent tokens could also merge in text of other scripts. A
        word that is a token also gets the weight 0 if `ignore_merges` is set, but it is not counted in the share.
        """
        ids, ends = flat(sequences)
        used = np.unique(ids)
        loose = np.zeros(len(tokens), dtype=bool)
        loose[[id for id in used.tolist() if not self.confinement.holds(tokens[id])]] = True
        adjacent = np.flatnonzero(loose[ids[:-1]] & loose[ids[1:]])
        word_of = np.searchsorted(ends, adjacent, side="right")
        adjacent, word_of = (places[ends[word_of] > adjacent + 1] for places in (adjacent, word_of))
        times = list(self.words.times)
        for place, word in zip(adjacent.tolist(), word_of.tolist(), strict=True):
            if not self.confinement.holds(tokens[ids[place]] + tokens[ids[place + 1]]):
                times[word] = 0
        untaught = 1 - sum(times) / sum(self.words.times)
        if self.base.ignore_merges:
            times = [0 if word in self.base.vocab else n for word, n in zip(self.words.words, times, strict=True)]
        return times, untaught

    def _learn(
        self,
        sequences: Sequence[Sequence[int]],
        times: Sequence[int],
        tokens: Sequence[bytes],
        present: Collection[BytesPair],
        room: int,
    ) -> tuple[list[BytesPair], list[int]]:
        """Return merges that make at most ``room`` new tokens, and the count of each merge that makes a new token."""
        tried = room + room // 8
        while True:
            counts: list[int] = []

            def note(id: int, pair: Pair, count: int, counts: list[int] = counts) -> None:
                counts.append(count)
                if self.observer.merged:
                    self.observer.merged(id, pair, count)

            merged = learn_merges(
                sequences,
                times,
                vocabulary=tokens,
                num_merges=tried,
                tie_break=self.config.tie_break,
                min_frequency=self.config.min_frequency * self.words.parts,
                on_merge=note,
            )
            spelled = spell_tokens(tokens, merged)
            known = set(tokens)
            learned: dict[BytesPair, None] = {}
            gains: list[int] = []
            for (left, right), gain in zip(merged, counts, strict=True):
                pair = spelled[left], spelled[right]
                if pair in present or pair in learned:
                    continue
                if pair[0] + pair[1] not in known:
                    if len(gains) == room:
                        break
                    known.add(pair[0] + pair[1])
                    gains.append(gain)
                learned[pair] = None
            if len(gains) == room or len(merged) < tried:
                break
            tried += room - len(gains) + tried // 8
        if self.config.new_tokens == AUTO:
            lengths = np.diff(flat(sequences)[1], prepend=0)
            enough = _enough(gains, float(np.dot(lengths, times)), self.config.least_saving)
            return [*_first_new(learned, set(tokens), enough)], gains[:enough]
        return list(learned), gains


def _tokens_in(scripts: Iterable[str], base: TokenizerData, confinement: Confinement) -> list[bytes]:
    """Return the tokens that can occur only in text of the scripts, in the order of their ids."""
    leads = {letter.encode()[:1] for name in scripts for letter in resolve_script(name).letters_and_marks()}
    tokens = (token for token, _ in base.get_mergeable_ranks() if len(token) > 1 and any(lead in token for lead in leads))
    return list(filter(confinement.holds, tokens))


def _joined(pieces: Sequence[bytes], known: Collection[bytes], confinement: Confinement) -> list[BytesPair]:
    """Return merges that join a sequence of tokens into one token. Every intermediate result is an existing token. Merges
    are ordered so that each merge follows those that make its parts. If there are no such merges, return an empty list.

    >>> _joined([b"a", b"b", b"c"], {b"bc", b"abc"}, Confinement(map(ord, "abc")))
    [(b'b', b'c'), (b'a', b'bc')]
    """
    if not 1 < len(pieces) <= _MOST_PIECES:
        return []
    ways: dict[tuple[int, int], list[BytesPair]] = {(place, place + 1): [] for place in range(len(pieces))}
    for length in range(2, len(pieces) + 1):
        for start in range(len(pieces) - length + 1):
            whole = b"".join(pieces[start : start + length])
            if whole not in known or not confinement.holds(whole):
                continue
            for middle in range(start + 1, start + length):
                first, second = ways.get((start, middle)), ways.get((middle, start + length))
                if first is not None and second is not None:
                    pair = b"".join(pieces[start:middle]), b"".join(pieces[middle : start + length])
                    ways[start, start + length] = [*first, *second, pair]
                    break
    return ways.get((0, len(pieces)), [])


def _enough(gains: Sequence[int], tokens: float, least_saving: float) -> int:
    """Return the number of new tokens after which a thousand more tokens would save less than ``least_saving``. This saving
    is a share of the tokens that the text still takes.
    """
    saved = [0, *accumulate(gains)]
    for number in range(0, len(gains), _STEP // 10):
        if saved[min(number + _STEP, len(gains))] - saved[number] < least_saving * (tokens - saved[number]):
            return number
    return len(gains)


def _first_new(merges: Iterable[BytesPair], known: set[bytes], number: int) -> Iterator[BytesPair]:
    """Yield merges in order, and stop before the merge that would produce more than ``number`` new tokens."""
    for left, right in merges:
        if left + right not in known:
            if not number:
                return
            known.add(left + right)
            number -= 1
        yield left, right
