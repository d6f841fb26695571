"""The unit-level encoder that the two tiers must equal: merges over syllables, as in the SGPE document."""

from collections.abc import Sequence
from itertools import pairwise

from hf_sgpe import BPETokenizer


class UnitLevelEncoder:
    """Apply statistical merges to syllable strings, lowest rank first, without bytes or the unit tier."""

    def __init__(self, tokenizer: BPETokenizer, units: set[str]) -> None:
        whole_clusters = tokenizer.splitting.recipe != "sgpe"
        self.ranks = {
            (left.decode(errors="replace"), right.decode(errors="replace")): rank
            for rank, (left, right) in enumerate(tokenizer.merges)
            if _spells_units(left, units, whole_clusters) and _spells_units(right, units, whole_clusters)
        }

    def tokens(self, units: Sequence[str]) -> list[str]:
        tokens = list(units)
        while True:
            ranked = [(self.ranks[pair], place) for place, pair in enumerate(pairwise(tokens)) if pair in self.ranks]
            if not ranked:
                return tokens
            _, place = min(ranked)
            tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]


def _spells_units(token: bytes, units: set[str], whole_clusters: bool) -> bool:
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return False
    from hf_sgpe import LinguisTrie

    return all(unit in units for unit in LinguisTrie(whole_clusters=whole_clusters).tokenize(text, leading_space=True))
