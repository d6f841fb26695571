"""Code that AutoTokenizer runs with trust_remote_code=True: it returns hf_sgpe's tokenizer class if hf_sgpe is installed.

The tokenizer needs neither this file nor hf_sgpe: AutoTokenizer.from_pretrained without remote code returns the same ids.
"""

try:
    from hf_sgpe import SGPETokenizerFast as PreTrainedTokenizerFast
except ImportError:
    from transformers import PreTrainedTokenizerFast as Base

    class PreTrainedTokenizerFast(Base):
        """A subclass, because AutoTokenizer changes the class. Its name lets everybody load what it saves."""


__all__ = ["PreTrainedTokenizerFast"]
