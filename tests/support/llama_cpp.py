"""The pre-tokenizers of llama.cpp that split text exactly like a tokenizer or like patterns."""

from hf_sgpe.formats.llama_cpp_pre_tokenizers import of_patterns
from hf_sgpe.weights import gguf


def pre_of(tokenizer):
    """Return the name of the pre-tokenizer with which llama.cpp produces exactly a tokenizer's tokens, or None."""
    known = gguf.pre_tokenizer_of(tokenizer)
    return known.name if known and gguf.is_exact(tokenizer, known.name) else None


def known_to_llama_cpp(patterns):
    """Return the first record with which llama.cpp splits ordinary text like the patterns, or None."""
    return next((one for one in of_patterns(patterns) if not one.differs), None)
