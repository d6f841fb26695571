"""``hf-sgpe export``."""

import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer


def test_export_to_tiktoken_and_back(tmp_path, saved, tokenizer):
    special = tokenizer.special_tokens["<|endoftext|>"]
    hf_sgpe("export", saved, "--format", "tiktoken", "--out", tmp_path / "x.tiktoken")
    options = ["--pattern", tokenizer.get_pattern(), "--special-token", f"<|endoftext|>={special}"]
    hf_sgpe("export", tmp_path / "x.tiktoken", "--out", tmp_path / "back", *options)
    assert BPETokenizer.from_pretrained(tmp_path / "back").get_vocab() == tokenizer.get_vocab()
    source = tmp_path / "back" / "tokenizer.json"
    before = source.read_bytes()
    for given in (source, source.parent):
        done = hf_sgpe("export", given, "--format", "tiktoken", "--out", source, code=2)
        assert done.stderr == f"error: --out {source} is part of {given}: choose another name\n"
    assert source.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("x.tiktoken", r"x\.tiktoken, line 2: the token b'a' is already in line 1"),
        ("tok --pattern gpt2", "--pattern is for tiktoken, gpt2, not for folder$"),
        ("tok --special-token a=1", "--special-token is for tiktoken, gpt2, not for folder$"),
        ("tok --ignore-merges", "--ignore-merges is for gpt2, not for folder$"),
        ("merges.txt", r"merges\.txt: the file has no split pattern: add --pattern NAME"),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(f"export {arguments} --out u", message)
