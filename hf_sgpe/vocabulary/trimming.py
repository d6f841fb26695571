"""Trimming: removal of the tokens of some scripts, or of the tokens that a corpus does not need or needs least. Text without
these scripts, or text that needs no removed token, is encoded as before.

A dropped character is a character of a script whose tokens are removed. BPE applies a merge only where the bytes of both of
its tokens are adjacent. So a merge whose result has a dropped character never applies to text without dropped characters. A
token without dropped characters is built only from tokens without dropped characters, so all its merges are kept. Therefore,
the merges that can apply to text without dropped characters are the same, in the same order, and they start from the same
bytes or characters. `check_trimmed` checks this for any two tokenizers.

A corpus needs the tokens of its text and the tokens from which these are built (`hf_sgpe.vocabulary.token_parts`). If only
other tokens are removed, all merges of this text are kept, in the same order. So BPE takes the same steps.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

from hf_sgpe import package
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.normalization import NFC, NONE, Normalization
from hf_sgpe.splitting.scripts.script import runs
from hf_sgpe.splitting.scripts.script_registry import every_script, resolve_script, resolve_scripts
from hf_sgpe.vocabulary.confinement import Confinement
from hf_sgpe.vocabulary.token_parts import TokenParts, without_tokens
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

KEEP, COMPACT = "keep", "compact"
IDS = (KEEP, COMPACT)
"""The ids of a trimmed tokenizer: the old ids, which leaves gaps, or new ids in the same order."""
PARTS = "parts of characters"
"""The name used instead of a script for tokens that begin or end inside a character."""
_EMOJI = "emoji"
# Number of scripts that a message names.
_NAMED = 3
_Base = TypeVar("_Base")
_Token = TypeVar("_Token")


@dataclass(frozen=True)
class Trimming(Generic[_Base]):
    """The result of trimming: the tokenizer before (``base``) and after, and what was dropped.

    Attributes:
        scripts: Names of the dropped scripts.
        ids: The new id of each kept token, keyed by old id.
        dropped: Number of dropped tokens, keyed by script or `PARTS`, in descending order.
        unused: Number of tokens that were dropped because a corpus does not need them, or needs them least.
        need: How often the corpus needs each token that can be dropped for this reason, the most needed first.
    """

    base: _Base
    tokenizer: _Base
    scripts: tuple[str, ...]
    ids: Mapping[int, int]
    dropped: Mapping[str, int]
    unused: int = 0
    need: Mapping[Any, int] = field(default_factory=dict)

    def runs_of_ids(self) -> list[list[int]]:
        """Return the runs of consecutive old ids, each as its first id, its last id, and the new id of the first."""
        return [[first, last, self.ids[first]] for first, last in runs(self.ids)]


def trimmed(
    base: TokenizerData,
    scripts: Iterable[str],
    *,
    ids: str = KEEP,
    rows: int | None = None,
    model_ids: Iterable[int] = (),
    use: Sequence[int] | None = None,
    tokens: int | None = None,
) -> Trimming[TokenizerData]:
    """Remove the tokens that occur only in text with characters of some scripts, and the merges that make or use these
    tokens. With ``use``, also remove the tokens that a corpus does not need or, with ``tokens``, needs least.

    Tokens of single bytes, special tokens and added tokens stay, and if there are no tokens for bytes, so do those of single
    characters. Text with characters of the scripts is encoded with the remaining tokens, down to bytes.

    Args:
        scripts: Names of the scripts to drop, such as the result of `scripts_except`.
        ids: ``keep`` for the old ids, or ``compact`` for new ids without gaps.
        rows: Number of rows of the tokenizer's model; None for the number that the tokenizer needs. With ``ids="keep"``, the
            number is saved, so that an extension can use the free ids.
        model_ids: Ids that the model uses, such as the ids in its configuration. With ``ids="keep"``, they are saved, so
            that an extension does not reuse them.
        use: Number of occurrences of each id in a corpus (`hf_sgpe.evaluation.token_use`); None without a corpus.
        tokens: Number of tokens that stay.
    """
    if ids not in IDS:
        raise SGPEError(f"unknown value of ids {ids!r}: choose from {', '.join(IDS)}")
    names = resolve_scripts(scripts)
    confinement = confined_to(names, base.normalization)
    removable = _removable(base)
    gone = {token for token in removable if confinement.holds(token)}
    need: dict[bytes, int] = {}
    if use is not None:
        used = {token: use[id] for token, id in base.vocab.items() if id < len(use) and token not in gone}
        others = removable - gone
        need = {token: times for token, times in TokenParts(base).need(used).items() if token in others}
    unused = surplus(need, len(base.ids) - len(gone), tokens)
    if not gone and not unused:
        if use is not None:
            raise SGPEError("the corpus needs all tokens of the tokenizer: name a smaller corpus, or scripts to drop")
        few = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more scripts" if len(names) > _NAMED else "")
        raise SGPEError(f"the tokenizer has no tokens of {few or 'these scripts'}: name other scripts")
    smaller = without_tokens(base, gone | unused)
    left = sorted(smaller.ids)
    moved = dict(zip(left, range(len(left)) if ids == COMPACT else left, strict=True))
    model = {"rows": rows or base.rows_needed, "model_ids": sorted(model_ids)} if ids == KEEP else {}
    by_use = {"unused": len(unused), "tokens": tokens} if use is not None else {}
    tokenizer = with_ids(smaller, moved)
    note = {"scripts": list(names), "ids": ids, **model, **by_use}
    tokenizer = replace(tokenizer, metadata=with_note(base.metadata, note, moved))
    check_trimmed(base, tokenizer, names, moved, unused)
    return Trimming(base, tokenizer, names, moved, _by_script(gone, names), len(unused), need)


def _removable(base: TokenizerData) -> set[bytes]:
    """Return the tokens without which all text can be encoded."""
    fixed = {*base.added_ids.values(), base.unknown_id}
    lengths = {token: len(token.decode() if base.by_characters else token) for token in base.vocab}
    least = 0 if base.byte_tokens else 1
    return {token for token, id in base.vocab.items() if id not in fixed and lengths[token] > least}


def surplus(need: Mapping[_Token, int], size: int, tokens: int | None) -> set[_Token]:
    """Return the tokens to remove from a tokenizer with ``size`` tokens: those that a corpus does not need or, if the number
    of ``tokens`` that stay is given, those that it needs least. The most needed token is the first in ``need``.
    """
    if tokens is None:
        return {token for token, times in need.items() if not times}
    fixed = size - len(need)
    if tokens < fixed:
        raise SGPEError(
            f"{fixed:,} tokens always stay (special tokens, bytes or single characters): give --tokens {fixed} or more"
        )
    if tokens >= size:
        raise SGPEError(f"all {size:,} tokens would stay: give a smaller number with --tokens")
    return set([*need][tokens - fixed :])


def with_ids(data: TokenizerData, ids: Mapping[int, int]) -> TokenizerData:
    """Return a tokenizer with new ids, keyed by old id in ``ids``, also in the records of earlier changes."""
    metadata = dict(data.metadata)
    if extensions := metadata.get("extensions"):
        metadata["extensions"] = [{**one, "new_ids": _moved_runs(one.get("new_ids", ()), ids)} for one in extensions]
    if keeps_old_ids(metadata):
        *notes, last = metadata["trimmed"]
        rows, model_ids = max(last["rows"], 1 + max(ids.values())), [ids.get(id, id) for id in last["model_ids"]]
        metadata["trimmed"] = [*notes, {**last, "rows": rows, "model_ids": model_ids}]
    return replace(
        data,
        vocab={token: ids[id] for token, id in data.vocab.items()},
        byte_tokens=[ids[id] for id in data.byte_tokens],
        unmade_tokens={text: ids[id] for text, id in data.unmade_tokens.items()},
        special_tokens={text: ids[id] for text, id in data.special_tokens.items()},
        added_tokens={text: ids[id] for text, id in data.added_tokens.items()},
        metadata=metadata,
    )


def scripts_except(kept: Iterable[str]) -> tuple[str, ...]:
    """Return the names of all scripts except ``kept``. Emoji and characters of no script, such as punctuation, always stay.

    >>> "thai" in scripts_except(["latin", "si"]), "sinhala" in scripts_except(["latin", "si"])
    (True, False)
    """
    names = {*resolve_scripts(kept), _EMOJI}
    return tuple(name for name in every_script() if name not in names)


def confined_to(scripts: Iterable[str], normalization: Normalization = NONE) -> Confinement:
    """Return the confinement to the characters of some scripts.

    An unassigned character that several scripts share is included only if all of them are given. With the normalization
    ``nfc``, a character is left out if NFC composes it from characters outside these scripts (U+1FC1).
    """
    return _confined_to(frozenset(resolve_scripts(scripts)), normalization)


@lru_cache(8)
def _confined_to(names: frozenset[str], normalization: Normalization) -> Confinement:
    points = set(Confinement.to_scripts(names).points)
    for name in every_script().keys() - names:
        points -= set(map(ord, resolve_script(name).characters()))
    if normalization == NFC:
        texts = {point: unicodedata.normalize("NFD", chr(point)) for point in points}
        points = {point for point in points if not points.isdisjoint(map(ord, texts[point]))}
    return Confinement(points)


def check_trimmed(
    base: TokenizerData,
    tokenizer: TokenizerData,
    scripts: Iterable[str],
    ids: Mapping[int, int],
    unused: Set[bytes] = frozenset(),
) -> None:
    """Check that ``tokenizer`` and ``base`` encode other text to the same tokens. Other text has no characters of the
    scripts, and needs no tokens in ``unused``.

    Args:
        ids: The new id of each kept token, keyed by old id.
        unused: Dropped tokens that are not confined to the scripts.
    """
    confinement = confined_to(scripts, base.normalization)
    parts = (
        "normalized_tokens matching unknown stripping ignore_merges splitting template roles chat_template model_max_length"
    )
    for part in parts.split():
        if getattr(base, part) != getattr(tokenizer, part):
            raise SGPEError(f"the trimmed tokenizer and its base differ in {part.replace('_', ' ')}")
    if len(set(ids.values())) < len(ids):
        repeated, count = Counter(ids.values()).most_common(1)[0]
        raise SGPEError(
            f"ids: {count} tokens of the base have the id {repeated} in the trimmed tokenizer; each needs its own"
        )
    for part in ("special_tokens", "added_tokens", "unmade_tokens"):
        before, after = getattr(base, part), getattr(tokenizer, part)
        if [(text, ids.get(id)) for text, id in before.items()] != [*after.items()]:
            raise SGPEError(f"the trimmed tokenizer and its base differ in {part.replace('_', ' ')}")
    if [ids.get(id) for id in base.byte_tokens] != [*tokenizer.byte_tokens]:
        raise SGPEError("the trimmed tokenizer and its base differ in byte tokens")
    if strange := tokenizer.vocab.keys() - base.vocab.keys():
        raise SGPEError(f"the trimmed tokenizer has the token {min(strange)!r}, which its base does not have")
    for token, id in base.vocab.items():
        if token in tokenizer.vocab:
            if tokenizer.vocab[token] != ids.get(id):
                raise SGPEError(
                    f"the token {token!r} has the id {tokenizer.vocab[token]} in the trimmed tokenizer, not {ids.get(id)}"
                )
        elif token not in unused and not confinement.holds(token):
            raise SGPEError(f"the trimmed tokenizer lacks the token {token!r}, which can occur in text of other scripts")
        elif not base.by_characters and (missing := [byte for byte in token if bytes([byte]) not in tokenizer.vocab]):
            raise SGPEError(f"without the token {token!r}, no token has the byte 0x{missing[0]:02X}")
    old, new = (confinement.merges_outside(one.merges) for one in (base, tokenizer))
    if unused:
        parts_of, added = TokenParts(base).of, set(base.added_ids.values())  # added tokens are not built by merges
        for token in (token for token in tokenizer.vocab if base.vocab[token] not in added):
            if lost := unused & set(parts_of(token) or ()):
                raise SGPEError(f"the trimmed tokenizer lacks the token {min(lost)!r}, from which {token!r} is built")
        old = [pair for pair in old if unused.isdisjoint((*pair, pair[0] + pair[1]))]
    if old != new:
        pair = next((was for was, now in zip(old, new, strict=False) if now != was), "at the end")
        raise SGPEError(f"the merge {pair} of the base is missing or has another rank, so ids of other scripts can change")


def keeps_old_ids(metadata: Any) -> bool:
    """Return whether the metadata is of a tokenizer that kept its ids when it was last trimmed."""
    notes: Sequence[Any] = (metadata.get("trimmed") or ()) if isinstance(metadata, Mapping) else ()
    return bool(notes) and notes[-1]["ids"] == KEEP


def rows_in(metadata: Mapping[str, Any]) -> int | None:
    """Return the recorded number of rows of the model for a tokenizer that `keeps_old_ids`, otherwise None."""
    return int(metadata["trimmed"][-1]["rows"]) if keeps_old_ids(metadata) else None


def model_ids_in(metadata: Mapping[str, Any]) -> list[int]:
    """Return the recorded ids that the model of a trimmed tokenizer uses."""
    return list((metadata.get("trimmed") or [{}])[-1].get("model_ids", ()))


def with_note(metadata: Mapping[str, Any], note: Mapping[str, Any], moved: Mapping[int, int]) -> dict[str, Any]:
    """Return the metadata of a trimmed tokenizer, with new ids in the records of earlier extensions."""
    known = {name: value for name, value in note.items() if value is not None} | {"version": package.__version__}
    notes = {"trimmed": [*metadata.get("trimmed", ()), known]}
    if extensions := metadata.get("extensions"):
        notes["extensions"] = [{**one, "new_ids": _moved_runs(one.get("new_ids", ()), moved)} for one in extensions]
    return {**metadata, **notes}


def _moved_runs(ranges: Iterable[Iterable[int]], moved: Mapping[int, int]) -> list[list[int]]:
    ids = (id for first, last in ranges for id in range(first, last + 1))
    new_ids = (moved[id] for id in ids if id in moved)
    return list(map(list, runs(new_ids)))


def _by_script(tokens: Set[bytes], scripts: Iterable[str]) -> dict[str, int]:
    """Count the tokens by the script of their first character that belongs to one of the scripts, otherwise by `PARTS`."""
    script_of = {character: name for name in scripts for character in resolve_script(name).characters()}
    counts = Counter(next(_scripts_of(token, script_of), PARTS) for token in tokens)
    return dict(counts.most_common())


def _scripts_of(token: bytes, script_of: Mapping[str, str]) -> Iterator[str]:
    return (script_of[character] for character in token.decode(errors="ignore") if character in script_of)
