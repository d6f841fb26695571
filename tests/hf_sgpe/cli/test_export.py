import json
import shutil

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
        ("x.tiktoken", r"x\.tiktoken, line 2: .* b'a' .* line 1"),
        ("tok --pattern gpt2", "--pattern is for tiktoken, gpt2"),
        ("tok --special-token a=1", "--special-token is for tiktoken, gpt2"),
        ("tok --ignore-merges", "--ignore-merges is for gpt2"),
        ("merges.txt", r"merges\.txt: .* --pattern NAME"),
        ("alone/merges.txt --pattern gpt2", r"alone/merges\.txt: .* vocab\.json"),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(f"export {arguments} --out u", message)


def test_special_tokens_that_are_not_in_the_vocab_json(tmp_path):
    tokenizer = BPETokenizer.train_from_iterator(["low lower lowest"] * 9, 300)
    vocab = tokenizer.get_vocab()
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    merges = [" ".join(map(tokenizer.spelling.string_of, pair)) for pair in tokenizer.merges]
    (tmp_path / "merges.txt").write_text("\n".join(merges))
    special = ["--special-token", f"<|x|>={len(vocab)}", "--special-token", f"<|y|>={len(vocab) + 5}"]
    hf_sgpe("export", "merges.txt", "--pattern", "cl100k", *special, "--out", "named", cwd=tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
    of_class = ["--special-token", "<|x|>=800", "--special-token", "<|y|>=900"]
    hf_sgpe("export", "merges.txt", *of_class, "--out", "by-class", cwd=tmp_path)
    for name, ids in (("named", [len(vocab), len(vocab) + 5]), ("by-class", [800, 900])):
        read = BPETokenizer.from_pretrained(tmp_path / name)
        assert read.encode("low<|x|><|y|>", allowed_special="all") == [*tokenizer.encode("low"), *ids]
    done = hf_sgpe(
        *("export", "merges.txt", "--pattern", "cl100k", "--special-token", "low=1", "--out", "wrong"), cwd=tmp_path, code=2
    )
    assert done.stderr == f"error: vocab.json: the special token low has id {vocab['low']}, not 1\n"


@pytest.mark.parametrize("command", [["export"], ["trim", "--drop-script", "si"]])
def test_settings_that_utf_8_cannot_represent_are_refused(command, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "damaged")
    (tmp_path / "damaged" / "tokenizer_config.json").write_text('{"name": "a \\ud800"}', encoding="utf-8")
    done = hf_sgpe(*command, tmp_path / "damaged", "--out", tmp_path / "out", code=2)
    assert done.stderr.startswith("error: tokenizer_config.json: ")
    assert "surrogate" in done.stderr
    assert not (tmp_path / "out").exists()
