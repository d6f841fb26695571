import json
import os

import pytest
from support.command import hf_sgpe
from support.sentencepiece_like import content

from hf_sgpe import BPETokenizer
from hf_sgpe.formats import tokenizer_json


def test_ids_of_lines_and_of_arguments_come_back(saved):
    text = "ශ්‍රී ලංකාව\n\nhello <|endoftext|>\n"
    ids = hf_sgpe("encode", saved, stdin=text).stdout
    tokenizer = BPETokenizer.from_pretrained(saved)
    assert ids == "".join(" ".join(map(str, tokenizer.encode(line))) + "\n" for line in text.splitlines())
    assert hf_sgpe("decode", saved, stdin=ids).stdout == text
    lines = hf_sgpe("encode", saved, "--json", "--special", "all", stdin=text).stdout
    assert json.loads(lines.splitlines()[2])["ids"][-1] == tokenizer.special_tokens["<|endoftext|>"]
    assert "".join(json.loads(lines.splitlines()[0])["tokens"]) == "ශ්‍රී ලංකාව"
    assert hf_sgpe("decode", saved, stdin=lines).stdout == text
    assert hf_sgpe("decode", saved, "--skip-special-tokens", stdin=lines).stdout == text.replace("<|endoftext|>", "")
    assert hf_sgpe("decode", saved, *ids.split()[:2]).stdout == tokenizer.decode(map(int, ids.split()[:2])) + "\n"
    assert hf_sgpe("encode", saved, "ක", "හ").stdout.count("\n") == 2


def test_the_space_of_a_token_is_shown(tmp_path, sample):
    lines = sample["en"].splitlines()[:40]
    tokenizer = BPETokenizer.of(tokenizer_json.from_dict(content(lines, normalization="metaspace-prefix")))
    tokenizer.save(tmp_path / "spaced")
    shown = json.loads(hf_sgpe("encode", tmp_path / "spaced", lines[0], "--json").stdout)
    assert "".join(shown["tokens"]) == " " + lines[0]


def test_a_file_to_encode_that_is_a_pointer_is_named(tmp_path, saved):
    (tmp_path / "a.txt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n")
    (tmp_path / "crlf.txt").write_bytes(b"a\r\nb")
    done = hf_sgpe("encode", saved, "--file", "a.txt", cwd=tmp_path, code=2)
    assert "a.txt: a Git LFS pointer" in done.stderr
    ids = hf_sgpe("encode", saved, "--file", "crlf.txt", cwd=tmp_path).stdout.split()
    assert BPETokenizer.from_pretrained(saved).decode(map(int, ids)) == "a\r\nb"


def test_text_that_is_not_valid_in_the_locale(saved):
    done = hf_sgpe("encode", "-t", saved, os.fsdecode(b"caf\xe9"), code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("error: text 1 is not in the encoding of this locale")


def test_stdin_that_is_not_utf8(saved):
    done = hf_sgpe("encode", "-t", saved, stdin=b"fine\n\xff\n", code=2)
    assert done.stderr == "error: stdin, line 2: not UTF-8 (byte 0 of the line)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("encode -t '' x", "the name of the tokenizer is empty"),
        ("encode -t damaged x", r"damaged/tokenizer\.json: not valid JSON"),
        ("encode -t nowhere x", "nowhere: no such file or folder"),
        ("encode tok x --html page.html --baseline tok=damaged", "two tokenizers are called tok"),
        ("encode tok x --html page.html --baseline tok", "two tokenizers are called tok"),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(arguments, message)
