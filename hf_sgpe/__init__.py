"""hf_sgpe: tokenizers that keep written syllables whole, for the Hugging Face world.

Public names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hf_sgpe.lazy import lazily
from hf_sgpe.version import __version__

if TYPE_CHECKING:
    from hf_sgpe.counts.word_counts import WordCounts
    from hf_sgpe.errors import SGPEError
    from hf_sgpe.sgpe import SGPEEncoder, SGPEVocabulary
    from hf_sgpe.splitting.patterns import SPLIT_PATTERNS
    from hf_sgpe.splitting.regex_splits import RegexPreTokenizer
    from hf_sgpe.splitting.splitting import Splitting
    from hf_sgpe.splitting.syllables import LinguisTrie, segment_into_words
    from hf_sgpe.splitting.words import LinguisTriePreTokenizer
    from hf_sgpe.tokenization_sgpe import SGPETokenizerFast
    from hf_sgpe.tokenizer import BPETokenizer
    from hf_sgpe.training import train_from_counts
    from hf_sgpe.training_config import TrainingConfig

_HOMES = {
    "BPETokenizer": "tokenizer",
    "LinguisTrie": "splitting.syllables",
    "LinguisTriePreTokenizer": "splitting.words",
    "RegexPreTokenizer": "splitting.regex_splits",
    "SGPEEncoder": "sgpe",
    "SGPEError": "errors",
    "SGPETokenizerFast": "tokenization_sgpe",
    "SGPEVocabulary": "sgpe",
    "SPLIT_PATTERNS": "splitting.patterns",
    "Splitting": "splitting.splitting",
    "TrainingConfig": "training_config",
    "WordCounts": "counts.word_counts",
    "segment_into_words": "splitting.syllables",
    "train_from_counts": "training",
}

__all__ = [
    "SPLIT_PATTERNS",
    "BPETokenizer",
    "LinguisTrie",
    "LinguisTriePreTokenizer",
    "RegexPreTokenizer",
    "SGPEEncoder",
    "SGPEError",
    "SGPETokenizerFast",
    "SGPEVocabulary",
    "Splitting",
    "TrainingConfig",
    "WordCounts",
    "__version__",
    "segment_into_words",
    "train_from_counts",
]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
