"""Code that AutoTokenizer runs with trust_remote_code=True. It returns hf_sgpe's tokenizer class if hf_sgpe is installed.

The tokenizer works without this file and without hf_sgpe: without remote code, AutoTokenizer.from_pretrained loads a
tokenizer that returns the same ids.
"""

try:
    from hf_sgpe import SGPETokenizerFast as PreTrainedTokenizerFast
except ImportError:
    from transformers import PreTrainedTokenizerFast as Base

    class PreTrainedTokenizerFast(Base):
        """A subclass, because AutoTokenizer changes the class. Because of the name, saved tokenizers can be loaded without
        hf_sgpe.
        """


__all__ = ["PreTrainedTokenizerFast"]
