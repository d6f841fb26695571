"""Which of llama.cpp's pre-tokenizers cut exactly as a tokenizer, or as patterns do."""

from hf_sgpe.formats.llama_cpp_pre_tokenizers import of_patterns
from hf_sgpe.weights import gguf


def pre_of(tokenizer):
    """Return the name of the pre-tokenizer with which llama.cpp gives exactly a tokenizer's tokens, or None."""
    known = gguf.pre_tokenizer_of(tokenizer)
    return known.name if known and gguf.is_exact(tokenizer, known.name) else None


def known_to_llama_cpp(patterns):
    """Return the first record by which llama.cpp cuts ordinary text as patterns do, or None."""
    return next((one for one in of_patterns(patterns) if not one.differs), None)
