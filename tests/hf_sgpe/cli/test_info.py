import json
import re
from importlib.metadata import version

import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer, package


def test_info_without_a_tokenizer_shows_versions():
    assert "tokenizers" in hf_sgpe("info").stdout
    assert hf_sgpe("--version").stdout == f"hf-sgpe {version('hf-sgpe')}\n"


def test_info_shows_the_first_of_many_added_tokens(tmp_path):
    names = [f"<|{number}|>" for number in range(6000)]
    BPETokenizer.train_from_iterator(["low lower"], 6300, pattern="gpt2", special_tokens=names).save(tmp_path)
    line = next(line for line in hf_sgpe("info", tmp_path).stdout.splitlines() if line.startswith("special tokens"))
    assert len(line) < 200
    assert re.search(r' 6,000, from \{"<\|0\|>": \d+, .*"<\|5\|>": \d+, … \(--json has all\)$', line)
    assert [*json.loads(hf_sgpe("info", tmp_path, "--json").stdout)["special tokens"]] == names


def test_control_characters_are_shown_and_not_sent_to_the_terminal(tmp_path):
    name = "<|\x1b]0;title\x07\u202e|>"
    BPETokenizer.train_from_iterator(["low lower"], 300, pattern="gpt2", special_tokens=[name]).save(tmp_path)
    text, as_json = (hf_sgpe("info", tmp_path, *more).stdout for more in ([], ["--json"]))
    assert not set("\x1b\x07\u202e") & set(text + as_json)
    assert r"\u001b]0;title\u0007\u202e" in text and name in json.loads(as_json)["special tokens"]
    missing = hf_sgpe("info", "no\x1b[31m", code=2).stderr
    assert "\x1b" not in missing and r"no\u001b[31m" in missing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("info damaged", r"damaged/tokenizer\.json: not valid JSON"),
        ("info worn", r"tokenizer_config\.json: the entry 'sgpe'"),
        ("info good.txt", r"good\.txt: text, not a tokenizer"),
        ("info vocab.json", "hf-sgpe export"),
        ("info x.tiktoken", r"hf-sgpe export x\.tik"),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(arguments, message)


def test_info_names_the_versions_that_trained_extended_and_trimmed_a_tokenizer(tmp_path, monkeypatch):
    (tmp_path / "si.txt").write_text("ශ්‍රී ලංකාව ලංකාවේ\n" * 20, encoding="utf-8", newline="\n")
    commands = {
        "0.9.0": "train si.txt --out one --vocab-size 300",
        "0.9.1": "extend one si.txt --script sinhala --new-tokens 5 --out two",
        "0.10.0": "trim two --drop-script sinhala --out three",
    }
    for made, command in commands.items():
        monkeypatch.setattr(package, "_version", lambda made=made: made)
        hf_sgpe(*command.split(), cwd=tmp_path)
    shown = json.loads(hf_sgpe("info", tmp_path / "three", "--json").stdout)
    assert shown["made with hf-sgpe"] == list(commands)
