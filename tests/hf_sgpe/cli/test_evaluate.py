import json
import re
import shutil

import pytest
from support.command import hf_sgpe
from support.corpora import held_out
from support.fetched import GPT2_SOURCE, files_of_source, gpt2

from hub_cards import evaluate


def test_tokenizers_are_measured_on_files(workplace):
    corpus = workplace / "corpus"
    corpus.mkdir()
    for name in ("si", "en", "hi"):
        shutil.copy(workplace / f"{name}.txt", corpus)
    tok = workplace / "tok"
    table = hf_sgpe("evaluate", tok, corpus / "si.txt", corpus / "en.txt", "--baseline", tok / "tokenizer.json").stdout
    assert len(table.splitlines()) == 5
    assert re.search(r"^en\.txt .*tok +\d\.\d{3} +\d\.\d{3} +– +– +– +\d\.\d{3}% +1\.000$", table, re.MULTILINE)
    rows = json.loads(hf_sgpe("evaluate", tok, corpus, "--json").stdout)
    assert [row["file"] for row in rows] == [str(corpus / f"{name}.txt") for name in ("en", "hi", "si")]
    assert rows[2]["cut_syllable_share"] < 0.02


def test_the_health_of_a_vocabulary(workplace, tokenizer):
    arguments = ("evaluate", "--vocabulary", workplace / "tok", workplace / "si.txt", workplace / "hi.txt")
    picture = workplace / "new" / "picture.svg"
    shown = hf_sgpe(*arguments, "--picture", picture).stdout
    facts = json.loads(hf_sgpe(*arguments, "--json").stdout)
    assert facts["used"] + facts["only_steps"] + facts["never_used"] == facts["tokens"]
    assert facts["tokens"] + facts["added"] == len(tokenizer)
    assert facts["scripts"]["sinhala"]["used"] > 0.5 * facts["scripts"]["sinhala"]["tokens"]
    assert facts["scripts"]["tamil"]["used"] == 0
    for name in ("used", "only_steps", "never_used"):
        assert f" {facts[name]:,} ({facts[name] / facts['tokens']:.1%})" in shown
    assert re.search(rf"^tamil +{facts['scripts']['tamil']['tokens']} +0 +0\.0% ", shown, re.MULTILINE)
    assert re.search(r"^unreachable .*: '\\xc0' '\\xc1' ", shown, re.MULTILINE)
    drawn = picture.read_text(encoding="utf-8")
    assert drawn.startswith("<svg ")
    assert str(workplace) not in drawn
    refused = hf_sgpe(*arguments, "--picture", picture, code=2).stderr
    assert "picture.svg" in refused
    assert "--overwrite" in refused
    hf_sgpe(*arguments, "--picture", picture, "--overwrite")


def test_evaluate_on_held_out_text_by_a_tokenizer_of_others(tmp_path):
    ranks = next(file for file in files_of_source(GPT2_SOURCE, "whisper/assets") if file.name == "gpt2.tiktoken")
    hf_sgpe("export", ranks, "--pattern", "gpt2", "--special-token", "<|endoftext|>=50256", "--out", tmp_path / "gpt2")
    lines = held_out("si", 200)
    (tmp_path / "si.txt").write_text("\n".join(lines), encoding="utf-8")
    [row] = json.loads(hf_sgpe("evaluate", "-t", tmp_path / "gpt2", tmp_path / "si.txt", "--json").stdout)
    assert row["tokens_per_word"] == evaluate(gpt2(), lines).tokens_per_word > 9
    assert row["cut_letter_share"] == 1


def test_the_name_of_a_baseline_may_have_an_equals_sign(workplace):
    (workplace / "a=b").symlink_to("tok")
    assert "a=b" in hf_sgpe("evaluate", "tok", "good.txt", "--baseline", "a=b", cwd=workplace).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evaluate tok good.txt --baseline =tok", "--baseline '=tok'"),
        ("evaluate tok good.txt --baseline tok=damaged", "two tokenizers are called tok"),
        ("evaluate tok good.txt --baseline tok", "two tokenizers are called tok"),
        ("evaluate -t tok empty.txt", r"empty\.txt has no text to measure"),
        ("evaluate -t damaged good.txt", "not valid JSON"),
        ("evaluate good.txt tok", "tok: a tokenizer, not text"),
        ("evaluate --vocabulary tok empty.txt", r"empty\.txt: there is no text to measure"),
        ("evaluate --vocabulary tok blank.txt", r"blank\.txt: there is no text to measure"),
        ("evaluate --vocabulary tok good.txt --baseline damaged", "--vocabulary"),
        ("evaluate --vocabulary tok good.txt --picture a.png", "--picture a.png"),
        ("evaluate --vocabulary tok good.txt --picture x.tiktoken/a.svg", "x.tiktoken"),
        ("evaluate tok good.txt --picture a.svg", "--picture needs --vocabulary"),
    ],
)
def test_bad_input_is_one_line(workplace, refuses, arguments, message):
    (workplace / "blank.txt").write_text("\n \n")
    refuses(arguments, message)
