"""hf_sgpe: tokenizers that keep written syllables whole, for the Hugging Face world."""

from typing import TYPE_CHECKING

from hf_sgpe.lazy import lazily

if TYPE_CHECKING:
    from hf_sgpe.counts.word_counts import WordCounts as WordCounts
    from hf_sgpe.errors import SGPEError as SGPEError
    from hf_sgpe.extension_config import ExtensionConfig as ExtensionConfig
    from hf_sgpe.sgpe import SGPEEncoder as SGPEEncoder, SGPEVocabulary as SGPEVocabulary
    from hf_sgpe.splitting.patterns import SPLIT_PATTERNS as SPLIT_PATTERNS
    from hf_sgpe.splitting.regex_splits import RegexPreTokenizer as RegexPreTokenizer
    from hf_sgpe.splitting.splitting import Splitting as Splitting
    from hf_sgpe.splitting.syllables import LinguisTrie as LinguisTrie, segment_into_words as segment_into_words
    from hf_sgpe.splitting.words import LinguisTriePreTokenizer as LinguisTriePreTokenizer
    from hf_sgpe.tokenization_sgpe import SGPETokenizerFast as SGPETokenizerFast
    from hf_sgpe.tokenizer import BPETokenizer as BPETokenizer
    from hf_sgpe.training import train_from_counts as train_from_counts
    from hf_sgpe.training_config import TrainingConfig as TrainingConfig
    from hf_sgpe.version import __version__ as __version__

_NAMES = {
    "counts.word_counts": "WordCounts",
    "errors": "SGPEError",
    "extension_config": "ExtensionConfig",
    "sgpe": "SGPEEncoder SGPEVocabulary",
    "splitting.patterns": "SPLIT_PATTERNS",
    "splitting.regex_splits": "RegexPreTokenizer",
    "splitting.splitting": "Splitting",
    "splitting.syllables": "LinguisTrie segment_into_words",
    "splitting.words": "LinguisTriePreTokenizer",
    "tokenization_sgpe": "SGPETokenizerFast",
    "tokenizer": "BPETokenizer",
    "training": "train_from_counts",
    "training_config": "TrainingConfig",
    "version": "__version__",
}

__all__ = sorted(" ".join(_NAMES.values()).split())
__getattr__, __dir__ = lazily(__name__, _NAMES)
