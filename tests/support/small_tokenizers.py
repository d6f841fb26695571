"""Tokenizers small enough to write down."""

from dataclasses import replace

from hf_sgpe import BPETokenizer

BYTES = {bytes([byte]): byte for byte in range(256)}
SPECIALS = ["<|endoftext|>", "<|a|>", "<|a|><|b|>", " <s>"]


def with_specials(names, **parts):
    """The bytes, and special tokens after them."""
    return BPETokenizer(BYTES, [], special_tokens={name: 256 + place for place, name in enumerate(names)}, **parts)


def with_parts(tokenizer, **parts):
    """The same tokenizer with other parts."""
    return BPETokenizer.of(replace(tokenizer.data, **parts))
