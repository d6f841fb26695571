"""The first and last steps of learning: check the counted words, and assign ids to the learned tokens."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from hf_sgpe import package
from hf_sgpe.bpe.unit_tier import BYTES
from hf_sgpe.chat.templates import load_template
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError, no_words
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS, names_of
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

logger = logging.getLogger(__name__)

Languages = Sequence[tuple[WordCounts, WordCounts]]
"""A pair for each language: its words for training, and the words of its held-out text. The held-out texts are translations
of each other.
"""


class Learned(NamedTuple):
    """The learned tokens in the order of their ids, and the merges in the order of their ranks."""

    tokens: Sequence[bytes]
    merges: Sequence[tuple[bytes, bytes]]


def check_counts(counts: WordCounts, config: TrainingConfig) -> None:
    """Check that there are words to learn from, and that the configuration splits text into such words. Warn about frequent
    scripts whose syllables will be cut, because the configuration does not name them.
    """
    if setting := counts.splitting.difference(config.splitting):
        has, wants = (splitting.to_dict()[setting] for splitting in (counts.splitting, config.splitting))
        raise SGPEError(
            f"the words were counted with {setting.replace('_', ' ')} {has!r}, but the configuration has {wants!r}"
        )
    if not len(counts):
        raise no_words("learn from")
    if scripts := config.unit_scripts:
        unlisted = LinguisTrie([name for name in SCRIPTS if name not in scripts])
        total = sum(counts.values())
        running = unlisted.count_scripts(counts.words(), counts.values())
        for script, count in sorted(running.items(), key=lambda item: -item[1]):
            if count and count * 100 >= total:
                logger.warning(
                    "%.0f %% of the words are in %s, which is not among the scripts: their syllables will be cut",
                    100 * count / total,
                    script,
                )


def warn_of_absent(scripts: Collection[str], present: Iterable[str | None]) -> None:
    """Warn about scripts that the user named but the text does not contain, unless the user named all scripts."""
    absent = set(scripts).difference(present)
    if absent and len(scripts) < len(SCRIPTS):
        logger.warning("the text has no word in %s", names_of(sorted(absent)))


def assemble(learned: Learned, config: TrainingConfig, digest: str) -> TokenizerData:
    """Return a tokenizer with the learned tokens and the special tokens. The learned tokens get the ids, in order, that the
    configuration does not give to special tokens.
    """
    tokens, merges = learned
    specials = config.special_tokens
    assert specials is not None  # filled in by the configuration
    if isinstance(specials, Mapping):
        special_ids = dict(specials)
    else:
        first = {"start": 0, "after-bytes": len(BYTES), "end": len(tokens)}[config.special_tokens_position or ""]
        special_ids = {token: first + number for number, token in enumerate(specials)}
    taken, size = set(special_ids.values()), len(tokens) + len(specials)
    if beyond := [token for token, id in special_ids.items() if id >= size]:
        raise SGPEError(
            f"special token {beyond[0]!r} has the id {special_ids[beyond[0]]}, but the corpus is enough for only {size} "
            f"tokens: give a vocab_size of {size}, and ids below {size}"
        )
    return TokenizerData(
        dict(zip(tokens, (id for id in range(size) if id not in taken), strict=True)),
        merges,
        splitting=config.splitting,
        special_tokens=special_ids,
        template=config.template(),
        roles=config.roles(),
        chat_template=load_template(config.chat_template) if config.chat_template else None,
        model_max_length=config.model_max_length,
        metadata={"version": package.__version__, "training": config.to_dict(), "word_counts": digest},
    )
