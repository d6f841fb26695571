"""Health of a vocabulary: tokens that a text uses, tokens that no text can use, and tokens that are nearly equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_sgpe.corpora.text_files import CorpusFile, Progress
from hf_sgpe.evaluation.token_use import use_of_tokens
from hf_sgpe.splitting.scripts.script import runs
from hf_sgpe.splitting.scripts.script_registry import every_script
from hf_sgpe.splitting.syllables import script_of_characters
from hf_sgpe.vocabulary.codec import make_codec
from hf_sgpe.vocabulary.confinement import Confinement
from hf_sgpe.vocabulary.token_parts import TokenParts, without_tokens
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.vocabulary.trimming import PARTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_SCRIPT = "no script"
"""The name used instead of a script for tokens without a letter: digits, punctuation, white space."""
_FIRST_CUTOFF = 1000
_SMALLEST_PART = 8


@dataclass(frozen=True)
class Cutoff:
    """Measurements of an extended tokenizer with only the first ``new_tokens`` new tokens that it learned.

    Attributes:
        used: Number of new tokens that the text uses.
        share_of_gain: Number of tokens of the text that these new tokens save, divided by the number that all new tokens
            save. None if the new tokens save nothing.
    """

    new_tokens: int
    used: int
    tokens_in_text: int
    share_of_gain: float | None


@dataclass(frozen=True)
class VocabularyHealth:
    """The use of a vocabulary's tokens in a text, as measured by `health_of`. Added and special tokens are counted only in
    ``added``.

    Attributes:
        tokens: Number of ordinary tokens.
        used: Ids of tokens that the text uses.
        only_steps: Ids of tokens that the text does not use, but from which merges build used tokens.
        never_used: Ids of all other unused tokens.
        unreachable: Ids of unused tokens whose own bytes are encoded as other tokens.
        scripts: The script of each token's first letter, keyed by id. The script is `PARTS` for a part of a character, and
            `NO_SCRIPT` for a token without letters.
        alike: Number of tokens that differ from another token only in case (``case``), only in a leading space (``space``),
            or only in one or both of these (``either``).
        cutoffs: For an extended tokenizer, measurements with increasing numbers of its new tokens. The pre-tokenizer and the
            order of the merges stay the same.
    """

    tokens: int
    added: int
    tokens_in_text: int
    used: frozenset[int] = field(repr=False)
    only_steps: frozenset[int] = field(repr=False)
    never_used: frozenset[int] = field(repr=False)
    unreachable: frozenset[int] = field(repr=False)
    scripts: Mapping[int, str] = field(repr=False)
    alike: Mapping[str, int]
    cutoffs: Sequence[Cutoff] = ()

    @property
    def kinds(self) -> dict[str, frozenset[int]]:
        """The sets of ids, keyed by their names and in the order of the tables."""
        return {name: getattr(self, name) for name in ("used", "only_steps", "never_used", "unreachable")}

    @property
    def parts_of_characters(self) -> int:
        """Number of tokens that begin or end inside a character, single bytes included."""
        return sum(script == PARTS for script in self.scripts.values())

    def by_script(self) -> dict[str, dict[str, int]]:
        """Return the number of ``tokens`` of each script, and of those in each set of `kinds`, the largest script first."""
        totals = Counter(self.scripts.values())
        counts = {name: Counter(map(self.scripts.__getitem__, ids)) for name, ids in self.kinds.items()}
        return {
            script: {"tokens": total, **{name: count[script] for name, count in counts.items()}}
            for script, total in totals.most_common()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values. Ids are given as ranges, each with its first and last id."""
        numbers = {"tokens": self.tokens, "added": self.added, "tokens_in_text": self.tokens_in_text}
        numbers |= {name: len(ids) for name, ids in self.kinds.items()}
        return {
            **numbers,
            "parts_of_characters": self.parts_of_characters,
            "alike": dict(self.alike),
            "scripts": self.by_script(),
            "cutoffs": [vars(cutoff) for cutoff in self.cutoffs],
            "ids": {name: list(map(list, runs(ids))) for name, ids in self.kinds.items()},
        }


def health_of(
    data: TokenizerData, files: Iterable[CorpusFile], *, text_field: str = "text", on_progress: Progress | None = None
) -> VocabularyHealth:
    """Measure which tokens of a vocabulary the documents of files use, and which tokens no text can use."""
    new = _new_tokens_of(data)
    sizes = _cutoffs(len(new))
    shorter = [without_tokens(data, set(new[size:])) for size in (0, *sizes[:-1])] if new else []
    use, *uses = use_of_tokens([data, *shorter], files, text_field=text_field, on_progress=on_progress)
    added = set(data.added_ids.values())
    ordinary = {id: token for id, token in data.bytes_by_id().items() if id not in added}
    used = {id for id in np.flatnonzero(use).tolist() if id in ordinary}
    need = TokenParts(data).need({ordinary[id]: 1 for id in used if data.vocab.get(ordinary[id]) == id})
    steps = {data.vocab[token] for token, times in need.items() if times}.difference(used, added)
    return VocabularyHealth(
        len(ordinary),
        len(added),
        int(use.sum()),
        frozenset(used),
        frozenset(steps),
        frozenset(ordinary.keys() - used - steps),
        frozenset(unreachable_ids(data) - used),
        dict(zip(ordinary, scripts_of(ordinary.values()), strict=True)),
        alike(token for id, token in ordinary.items() if data.vocab.get(token) == id),
        _measured_cutoffs([data.vocab[token] for token in new], sizes, [*uses, use]) if new else (),
    )


def unreachable_ids(data: TokenizerData) -> set[int]:
    """Return the ids of ordinary tokens whose own bytes, taken as a text, are encoded as other tokens. A part of a character
    is unreachable if no merges build it, or if its bytes cannot occur in text.
    """
    codec, parts, nowhere = make_codec(data.inside_text()), TokenParts(data), Confinement(())
    texts: dict[int, str] = {}
    found: set[int] = set()
    for token, id in data.vocab.items():
        try:
            texts[id] = token.decode()
        except UnicodeDecodeError:
            if nowhere.holds(token) or (len(token) > 1 and parts.of(token) is None):
                found.add(id)
    ids, ends = codec.encode_batch_to_numpy(list(texts.values()))
    lengths = np.diff(ends, prepend=0)
    first = ids[np.minimum(ends - lengths, len(ids) - 1)] if len(ids) else ids
    own = np.fromiter(texts, np.int64, len(texts))
    found.update(own[(lengths != 1) | (first != own)].tolist())
    found.update(
        id
        for byte, id in enumerate(data.byte_tokens)
        if nowhere.holds(bytes([byte])) or data.vocab.get(bytes([byte]), id) != id
    )
    return found.difference(data.added_ids.values())


def scripts_of(tokens: Iterable[bytes]) -> Iterator[str]:
    """Yield the script of each token's first letter, or `PARTS`, or `NO_SCRIPT`.

    >>> list(scripts_of([" ක1".encode(), b"x", b"12", "ක".encode()[:2]]))
    ['sinhala', 'latin', 'no script', 'parts of characters']
    """
    scripts = script_of_characters(tuple(every_script().values()))
    for token in tokens:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            yield PARTS
        else:
            yield next((scripts[character].name for character in text if character in scripts), NO_SCRIPT)


def alike(tokens: Iterable[bytes]) -> dict[str, int]:
    """Count the tokens that differ from another token only in case, only in a leading space, or only in one or both. In each
    group of such tokens, one token is not counted.

    >>> alike([b"the", b"The", b" the", b" THE"])
    {'case': 2, 'space': 1, 'either': 3}
    """
    texts = [token.decode() for token in tokens if token.decode(errors="ignore").encode() == token]
    forms = {"case": str.lower, "space": _without_space, "either": lambda text: _without_space(text).lower()}
    return {name: len(texts) - len(set(map(form, texts))) for name, form in forms.items()}


def _without_space(text: str) -> str:
    return text[1:] if text[:1] == " " and text != " " else text


def _new_tokens_of(data: TokenizerData) -> list[bytes]:
    """Return the tokens that extensions added to a tokenizer, in the order in which they were learned: in each extension,
    first the tokens without a merge, then those with a merge by rank.
    """
    merged = {left + right: None for left, right in data.merges}
    rank = {token: place for place, token in enumerate(merged)}
    tokens = {id: token for token, id in data.vocab.items()}
    new: list[bytes] = []
    for note in data.metadata.get("extensions", ()):
        ids = (id for first, last in note.get("new_ids", ()) for id in range(first, last + 1))
        new += sorted((tokens[id] for id in ids if id in tokens), key=lambda token: rank.get(token, -1))
    return list(dict.fromkeys(new))


def _cutoffs(new: int) -> list[int]:
    """Return the numbers of new tokens with which an extended tokenizer is measured.

    >>> _cutoffs(5000), _cutoffs(80), _cutoffs(0)
    ([1000, 2000, 4000, 5000], [10, 20, 40, 80], [])
    """
    size = _FIRST_CUTOFF if new > _FIRST_CUTOFF else max(new // _SMALLEST_PART, 1)
    sizes = []
    while size < new:
        sizes.append(size)
        size *= 2
    return [*sizes, new] if new else []


def _measured_cutoffs(new: Sequence[int], sizes: Sequence[int], uses: Sequence[NDArray[np.int64]]) -> list[Cutoff]:
    """Return a measurement for each number of new tokens. ``uses`` begins with the counts without new tokens."""
    totals = [int(use.sum()) for use in uses]
    gain = totals[0] - totals[-1]
    return [
        Cutoff(size, int(np.count_nonzero(use[new[:size]])), total, (totals[0] - total) / gain if gain > 0 else None)
        for size, use, total in zip(sizes, uses[1:], totals[1:], strict=True)
    ]
