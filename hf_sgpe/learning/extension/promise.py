"""The promise of an extended tokenizer: all its old ids, and those of every text without a character of the new scripts."""

from __future__ import annotations

from collections.abc import Iterable

from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.scripts.script import Ranges
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.confinement import Confinement
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


def check_promise(base: TokenizerData, extended: TokenizerData, scripts: Iterable[str]) -> None:
    """Make sure that one tokenizer is the other, extended: all its ids are the same, and so are those of every text without
    a character of the scripts.

    Text is cut alike if the splits are the old ones, with or without words of the scripts in front. Words without a
    character of the scripts merge alike if the old merges are all there in the old order, but for those that such words
    never come to.

    Raises:
        SGPEError: one of this does not hold; the message says what.
    """
    confinement = Confinement.to_scripts(scripts)
    for what in ("special_tokens", "added_tokens", "normalized_tokens", "ignore_merges", "normalization", "template"):
        if getattr(base, what) != getattr(extended, what):
            raise SGPEError(f"the extended tokenizer has other {what.replace('_', ' ')}")
    before, after = base.splitting, extended.splitting
    if after.regexes != before.regexes:
        ours, theirs = words_of_scripts(before), words_of_scripts(after)
        new = [letters for name, letters, _ in theirs - ours]
        letters = {point for ranges in new for first, last in ranges for point in range(first, last + 1)}
        same = after.recipe == "hybrid" and after.patterns == before.patterns and ours <= theirs
        if not same or not letters <= confinement.points:
            raise SGPEError("the extended tokenizer cuts other text in another way")
    for token, id in base.vocab.items():
        if extended.vocab.get(token) != id:
            raise SGPEError(f"the token {token!r} has the id {extended.vocab.get(token)} in place of {id}")
    for token in extended.vocab.keys() - base.vocab.keys():
        if not confinement.holds(token):
            raise SGPEError(f"the new token {token!r} stands in text of other scripts, too")
    # What is left of both lists without the pairs that no other text has must be the same: of equal pairs the last counts.
    old, new_merges = (
        [pair for pair in dict.fromkeys(reversed(one.merges)) if not confinement.holds(pair[0] + pair[1])]
        for one in (base, extended)
    )
    if old != new_merges:
        pair = next((new for new, was in zip(new_merges, old, strict=False) if new != was), "that was there before")
        raise SGPEError(f"the merge {pair} has another place, and text of other scripts comes to it, too")


def words_of_scripts(splitting: Splitting) -> set[tuple[str, Ranges, Ranges]]:
    """Return the name, the letters and the joiners of each script."""
    return set(zip(splitting.scripts, splitting.script_letters, splitting.script_joiners, strict=True))
