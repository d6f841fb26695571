"""Tokenizers small enough to write down."""

from dataclasses import replace

from hf_sgpe import BPETokenizer

BYTES = {bytes([byte]): byte for byte in range(256)}
SPECIALS = ["<|endoftext|>", "<|a|>", "<|a|><|b|>", " <s>"]


def with_specials(names, **parts):
    return BPETokenizer(BYTES, [], special_tokens={name: 256 + place for place, name in enumerate(names)}, **parts)


def with_parts(tokenizer, **parts):
    return BPETokenizer.of(replace(tokenizer.data, **parts))
