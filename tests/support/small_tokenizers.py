"""Tokenizers small enough to write down."""

from dataclasses import replace

from hf_sgpe import BPETokenizer

BYTES = {bytes([byte]): byte for byte in range(256)}
SPECIALS = ["<|endoftext|>", "<|a|>", "<|a|><|b|>", " <s>"]


def with_specials(names, **parts):
    """Return a byte-level tokenizer with special tokens after the bytes."""
    return BPETokenizer(BYTES, [], special_tokens={name: 256 + place for place, name in enumerate(names)}, **parts)


def with_parts(tokenizer, **parts):
    """Return a copy of a tokenizer with some parts replaced."""
    return BPETokenizer.of(replace(tokenizer.data, **parts))
