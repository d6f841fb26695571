"""What AutoTokenizer runs with trust_remote_code=True: gives the class of hf_sgpe, where hf_sgpe is installed.

Nobody needs this file, or hf_sgpe, to use the tokenizer: plain AutoTokenizer.from_pretrained gives the same ids.
"""

try:
    from hf_sgpe import SGPETokenizerFast as PreTrainedTokenizerFast
except ImportError:
    from transformers import PreTrainedTokenizerFast as Base

    class PreTrainedTokenizerFast(Base):
        """A class of its own, since AutoTokenizer leaves marks on it; named so that what it saves, everybody can load."""


__all__ = ["PreTrainedTokenizerFast"]
