"""Code that AutoTokenizer runs with trust_remote_code=True. It returns hf_sgpe's tokenizer class if hf_sgpe is installed.

The tokenizer works without this file and without hf_sgpe: without remote code, AutoTokenizer.from_pretrained loads a
tokenizer that returns the same ids.
"""

try:
    from hf_sgpe import SGPETokenizerFast as PreTrainedTokenizerFast
except ImportError:
    from transformers import PreTrainedTokenizerFast as Base

    class PreTrainedTokenizerFast(Base):
        """A subclass for AutoTokenizer to modify, so that the transformers class itself stays unchanged. The name of this
        subclass lets saved tokenizers be loaded without hf_sgpe.
        """


__all__ = ["PreTrainedTokenizerFast"]
