"""The promise of an extended tokenizer: old tokens keep their ids, and text without a character of the new scripts is
encoded to the same ids as before.
"""

from __future__ import annotations

from collections.abc import Iterable

from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.scripts.script import Ranges
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.confinement import Confinement
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


def check_promise(base: TokenizerData, extended: TokenizerData, scripts: Iterable[str]) -> None:
    """Check that ``extended`` keeps all ids of ``base``, and that both encode every text without a character of the scripts
    to the same ids.

    Both tokenizers split such text into the same words in two cases: their splits are equal, or the new split first matches
    only words of the scripts, and leaves all other text to the old split. The words have the same tokens if the same merges
    can apply to them, in the same order.
    """
    confinement = Confinement.to_scripts(scripts)
    tokens = "special_tokens added_tokens normalized_tokens matching byte_tokens unmade_tokens unknown"
    for part in f"{tokens} stripping ignore_merges normalization template".split():
        if getattr(base, part) != getattr(extended, part):
            raise SGPEError(f"the extended tokenizer and its base differ in {part.replace('_', ' ')}")
    before, after = base.splitting, extended.splitting
    if after.regexes != before.regexes:
        ours, theirs = words_of_scripts(before), words_of_scripts(after)
        new = [letters for name, letters, _ in theirs - ours]
        letters = {point for ranges in new for first, last in ranges for point in range(first, last + 1)}
        same = after.recipe == "hybrid" and after.patterns == before.patterns and ours <= theirs
        if not same or not letters <= confinement.points:
            raise SGPEError("the extended tokenizer splits text of other scripts differently from its base")
    for token, id in base.vocab.items():
        if extended.vocab.get(token) != id:
            raise SGPEError(
                f"the token {token!r} has the id {extended.vocab.get(token)} in the extended tokenizer, not {id}"
            )
    for token in extended.vocab.keys() - base.vocab.keys():
        if not confinement.holds(token):
            raise SGPEError(f"the new token {token!r} can occur in text of other scripts")
    old, new_merges = (confinement.merges_outside(one.merges) for one in (base, extended))
    if old != new_merges:
        pair = next((new for new, was in zip(new_merges, old, strict=False) if new != was), "the end")
        raise SGPEError(
            "merges that can apply to text of other scripts differ from those of the base tokenizer: the first difference "
            f"is at {pair}"
        )


def words_of_scripts(splitting: Splitting) -> set[tuple[str, Ranges, Ranges]]:
    """Return the name, the letters and the joiners of each script of a splitting."""
    return set(zip(splitting.scripts, splitting.script_letters, splitting.script_joiners, strict=True))
