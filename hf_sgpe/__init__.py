"""hf_sgpe: tokenizers that keep written syllables whole, for use with Hugging Face libraries."""

from typing import TYPE_CHECKING

from hf_sgpe.package import lazily

if TYPE_CHECKING:
    from hf_sgpe.counts.word_counts import WordCounts as WordCounts
    from hf_sgpe.errors import SGPEError as SGPEError
    from hf_sgpe.learning.extension.extension_config import ExtensionConfig as ExtensionConfig
    from hf_sgpe.learning.training_config import TrainingConfig as TrainingConfig
    from hf_sgpe.package import __version__ as __version__
    from hf_sgpe.sgpe.sgpe_encoder import SGPEEncoder as SGPEEncoder
    from hf_sgpe.sgpe.sgpe_vocabulary import SGPEVocabulary as SGPEVocabulary
    from hf_sgpe.splitting.patterns import SPLIT_PATTERNS as SPLIT_PATTERNS
    from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer as RegexPreTokenizer
    from hf_sgpe.splitting.splitting import Splitting as Splitting
    from hf_sgpe.splitting.syllable_pre_tokenizer import LinguisTriePreTokenizer as LinguisTriePreTokenizer
    from hf_sgpe.splitting.syllables import LinguisTrie as LinguisTrie, segment_into_words as segment_into_words
    from hf_sgpe.tokenization_sgpe import SGPETokenizerFast as SGPETokenizerFast
    from hf_sgpe.tokenizer import BPETokenizer as BPETokenizer, train_from_counts as train_from_counts

_NAMES = {
    "hf_sgpe.counts.word_counts": "WordCounts",
    "hf_sgpe.errors": "SGPEError",
    "hf_sgpe.learning.extension.extension_config": "ExtensionConfig",
    "hf_sgpe.sgpe.sgpe_encoder": "SGPEEncoder",
    "hf_sgpe.sgpe.sgpe_vocabulary": "SGPEVocabulary",
    "hf_sgpe.splitting.patterns": "SPLIT_PATTERNS",
    "hf_sgpe.splitting.regex_pre_tokenizer": "RegexPreTokenizer",
    "hf_sgpe.splitting.splitting": "Splitting",
    "hf_sgpe.splitting.syllables": "LinguisTrie segment_into_words",
    "hf_sgpe.splitting.syllable_pre_tokenizer": "LinguisTriePreTokenizer",
    "hf_sgpe.tokenization_sgpe": "SGPETokenizerFast",
    "hf_sgpe.tokenizer": "BPETokenizer train_from_counts",
    "hf_sgpe.learning.training_config": "TrainingConfig",
    "hf_sgpe.package": "__version__",
}

__all__ = sorted(" ".join(_NAMES.values()).split())
__getattr__, __dir__ = lazily(__name__, _NAMES)
