"""Extending an existing tokenizer with the words of new scripts, so that all other text keeps its ids.

The extended tokenizer has three groups of merges, in this order: merges that build the letters and syllables of the scripts;
the merges of the old tokenizer; and merges learned from the scripts' words. The third group is learned after the first two
groups are applied to these words. Every added or moved merge contains bytes that occur only in text with a character of the
scripts (`hf_sgpe.vocabulary.confinement`). All other text is split into the same words as before, so it keeps its ids.
`check_promise` checks this for any two tokenizers.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, islice
from shlex import quote

from hf_sgpe import package
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.character_tiers import CharacterTierLearner
from hf_sgpe.learning.extension.extension_config import AUTO, ExtensionConfig
from hf_sgpe.learning.extension.extension_tiers import TierLearner
from hf_sgpe.learning.extension.promise import check_promise, words_of_scripts
from hf_sgpe.learning.extension.script_words import Words, number_of_tokens
from hf_sgpe.learning.observer import NOBODY, Observer
from hf_sgpe.splitting.scripts.script import runs
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.reserved_tokens import reserved_ids, with_reserved, without_reserved
from hf_sgpe.vocabulary.token_parts import without_tokens
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

logger = logging.getLogger(__name__)

# Share of words excluded from learning at which a warning is logged. Any text has a few such words, with odd characters.
_WARN_SHARE = 0.05


@dataclass(frozen=True)
class Extension:
    """A base tokenizer, the extended tokenizer, and the effect of the extension.

    Attributes:
        tokenizer: The extended tokenizer.
        unit_tokens: Number of new tokens that build letters, syllables, digits and punctuation. All others were learned.
        tokens_per_piece: The average number of tokens with the base and with the extended tokenizer. A piece is a part of
            the text with a character of the scripts that the split does not cut further, such as a word.
    """

    base: TokenizerData
    tokenizer: TokenizerData
    unit_tokens: int
    tokens_per_piece: tuple[float, float]

    @property
    def new_tokens(self) -> int:
        """The number of new tokens in the extended tokenizer."""
        return len(self.tokenizer.vocab) - len(self.base.vocab)

    @property
    def highest_id(self) -> int:
        """The highest id of an ordinary token or byte token."""
        return max(*self.tokenizer.vocab.values(), *self.tokenizer.byte_tokens)

    def at(self, new_tokens: int) -> TokenizerData:
        """Return the extended tokenizer with only the first ``new_tokens`` new tokens. Those of letters and syllables are
        always kept. The others follow in the order in which they were learned.
        """
        old, whole = self.base.vocab, self.tokenizer
        merged = dict.fromkeys(left + right for left, right in whole.merges)
        characters = [token for token in whole.vocab if token not in old and token not in merged]
        new = chain(characters, (token for token in merged if token not in old))
        kept = {*old, *islice(new, max(new_tokens, self.unit_tokens))}
        return without_tokens(whole, whole.vocab.keys() - kept)


def extend_from_counts(
    base: TokenizerData,
    counts: WordCounts,
    config: ExtensionConfig,
    *,
    free_ids: Iterable[int] = (),
    used_ids: Iterable[int] = (),
    observer: Observer = NOBODY,
) -> Extension:
    """Learn tokens for the words of the scripts and add these tokens to a tokenizer.

    As in training, the time grows with the number of distinct words of the scripts. If letters and syllables compete with
    learned tokens for room, learning is repeated up to six times.

    Args:
        counts: Words of text that was split by `ExtensionConfig.counting_splitting`. Words without a character of the
            scripts are ignored.
        free_ids: Ids that new tokens get first. All other new tokens get the ids after the highest id in use.
        used_ids: Ids without a token that a model uses for something else, such as images. No new token gets one of them.
        observer: Callbacks. The counts of merges are weighted, so they can only be compared with each other.
    """
    splitting, counted = config.splitting_for(base), config.counting_splitting(base)
    _check_counts(counts, counted)
    words = Words.from_counts(counts, config)
    if not words.words:
        raise SGPEError(f"the text has no word in {', '.join(config.scripts)}: name other scripts, or add text in these")
    # Runtimes that know the old split by name use nothing else of the file. If a whole word is a token, some of these
    # runtimes encode the word as this token, whatever the merges are.
    reach_all = splitting == base.splitting and not base.ignore_merges
    learner = CharacterTierLearner if base.by_characters else TierLearner
    tiers = learner(base, words, config, observer=observer).tiers(reach_all=reach_all)
    ids = dict(base.vocab)
    taken = base.ids
    used = set(used_ids)
    first = sorted(set(free_ids) - taken - used)
    free = chain(first, (id for id in itertools.count(max(*taken, *first) + 1) if id not in used))
    for token in tiers.new_tokens(base.vocab):
        ids[token] = next(free)
    new = [id for token, id in ids.items() if token not in base.vocab]
    note = {
        **config.to_dict(),
        "new_tokens": len(new),
        "new_ids": [list(run) for run in runs(new)],
        "word_counts": counts.digest(),
        "version": package.__version__,
    }
    extended = replace(
        base,
        vocab=ids,
        merges=tiers.merges,
        splitting=splitting,
        metadata={**base.metadata, "extensions": [*base.metadata.get("extensions", ()), note]},
    )
    check_promise(base, extended, config.scripts)
    ours = set(words.words)
    times = [count for word, count in counts.items() if word in ours]
    pieces = [word.decode() for word in words.words]
    before, after = (number_of_tokens(data, pieces, times) / sum(times) for data in (base, extended))
    extension = Extension(base, extended, tiers.unit_tokens, (before, after))
    _warn_of_little_effect(extension, config, tiers.untaught)
    return extension


def _warn_of_little_effect(extension: Extension, config: ExtensionConfig, untaught: float) -> None:
    """Warn if many words were not learned from, tokens are missing, or no tokens are saved."""
    base, scripts = extension.base, ", ".join(config.scripts)
    if untaught >= _WARN_SHARE:
        logger.warning(
            "%.0f%% of the words of %s are not learned from: %s",
            100 * untaught,
            scripts,
            "they contain an added token, or characters of other text that have no token"
            if base.by_characters
            else "some of their adjacent bytes are also adjacent in other scripts, so merging these would change other text",
        )
        return
    if config.new_tokens != AUTO and extension.new_tokens < int(config.new_tokens):
        logger.warning(
            "the text yields only %d of the %d new tokens requested: no further pair occurs %d times",
            extension.new_tokens,
            config.new_tokens,
            config.min_frequency,
        )
    before, after = extension.tokens_per_piece
    if after >= before and not base.lacks_bytes:  # without bytes, unknown text takes few tokens, or none
        logger.warning(
            "a piece of %s takes %.3f tokens with the new tokens and %.3f without them, so no tokens are saved. Either the "
            "base already has tokens for these scripts, or new_tokens is too small",
            scripts,
            after,
            before,
        )


def extend_tokenizer(
    folder: TokenizerFolder, counts: WordCounts, config: ExtensionConfig, *, observer: Observer = NOBODY
) -> Extension:
    """Extend the tokenizer in a folder, as `extend_from_counts` does. The model in the folder determines which ids are free
    and which are in use.
    """
    data = folder.data
    reserved = reserved_ids(data, used=folder.model_ids) if config.reuse_reserved else {}
    if config.reuse_reserved and not reserved:
        raise SGPEError(f"{folder.name} has no unused reserved tokens: leave out reuse_reserved")
    if config.reuse_ids and folder.rows is None:
        raise SGPEError(f"{folder.name} has no config.json with the model's number of rows: leave out reuse_ids")
    unused = sorted(set(range(folder.rows or 0)) - data.ids) if config.reuse_ids else []
    extension = extend_from_counts(
        without_reserved(data, reserved),
        counts,
        config,
        free_ids=[*reserved.values(), *unused],
        used_ids=folder.model_ids,
        observer=observer,
    )
    taken = set(extension.tokenizer.vocab.values())
    if not (kept := [name for name, id in reserved.items() if id not in taken]):
        return extension
    base, extended = (with_reserved(one, data, kept) for one in (extension.base, extension.tokenizer))
    return replace(extension, base=base, tokenizer=extended)


def _check_counts(counts: WordCounts, splitting: Splitting) -> None:
    """Check that the words of the scripts were split by ``splitting``. All other words do not matter."""
    ours, theirs = splitting, counts.splitting
    if ours.recipe == "hybrid":
        is_same_split = words_of_scripts(ours) <= words_of_scripts(theirs)
    else:
        is_same_split = ours.regexes == theirs.regexes
    if ours.recipe != theirs.recipe or ours.normalization != theirs.normalization or not is_same_split:
        raise SGPEError(
            f"the words were counted with {_count_options(theirs)}, but this extension needs {_count_options(ours)}: count "
            "the text again with these options of hf-sgpe count"
        )


def _count_options(splitting: Splitting) -> str:
    """Return the options with which ``hf-sgpe count`` splits text into words as ``splitting`` does."""
    scripts = [f"--script {','.join(splitting.scripts)}"] if splitting.scripts else []
    patterns = (splitting.pattern,) if isinstance(splitting.pattern, str) else splitting.pattern or ()
    pattern = [f"--pattern {' '.join(map(quote, patterns))}"] if patterns else []
    return " ".join([f"--recipe {splitting.recipe}", *scripts, *pattern, f"--normalization {splitting.normalization}"])
