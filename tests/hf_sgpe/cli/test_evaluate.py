"""``hf-sgpe evaluate``, ``card``, ``playground`` and ``push``."""

import json
import re
import shutil

import pytest
from support.command import hf_sgpe, script
from support.data import DATA, needs_data


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


@needs_data
def test_evaluate_on_held_out_text_by_a_tokenizer_of_others(tmp_path):
    suite = DATA / "suites" / "cs336"
    files = (suite / "gpt2_vocab.json", suite / "gpt2_merges.txt", tmp_path / "gpt2")
    script("import_vocabulary.py", *files, "--pattern", "gpt2", "--special-token", "<|endoftext|>")
    rows = json.loads(
        hf_sgpe("evaluate", "-t", tmp_path / "gpt2", DATA / "eval" / "ntrex_si.txt", "--format", "json").stdout
    )
    assert rows[0]["tokens_per_word"] == pytest.approx(16.8, abs=0.1)
    assert rows[0]["cut_letter_share"] == 1


def test_the_name_of_a_baseline_may_have_an_equals_sign(workplace):
    (workplace / "a=b").symlink_to("tok")
    assert "a=b" in hf_sgpe("evaluate", "tok", "good.txt", "--baseline", "a=b", cwd=workplace).stdout


def test_a_playground_names_tokenizers_without_saying_where_they_lie(saved, tmp_path):
    site = tmp_path / "site"
    done = hf_sgpe("playground", saved, "--baseline", f"old={saved}", "--out", site, "--json")
    assert json.loads(done.stdout)["files"].count("tokenizer-2.json") == 1
    page = (site / "index.html").read_text(encoding="utf-8")
    assert f"the tokens of {saved.name} and old" in page
    assert str(saved.parent) not in page
    assert "ශ්‍රී ලංකාව" in page.split("<textarea")[1].split("</textarea>")[0]  # it is for Sinhala first
    hf_sgpe("playground", saved, "--baseline", saved / "tokenizer.json", "--out", site, "--name", "")
    assert "tokenizer.json" in (site / "index.html").read_text(encoding="utf-8")
    done = hf_sgpe("playground", saved, "--name", "a", "--baseline", f"a={saved}", "--out", site, code=2)
    assert done.stderr.startswith(
        "error: two tokenizers would have one name on the page: name them by --name and --baseline"
    )


def test_an_adapter_is_not_pushed_as_a_tokenizer(tmp_path, saved):
    folder = shutil.copytree(saved, tmp_path / "lora")
    (folder / "adapter_config.json").write_text("{}")
    done = hf_sgpe("push", folder, "me/lora", "--dry-run", cwd=tmp_path, code=2)
    assert "lora: holds no model, but a LoRA adapter: merge it first" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evaluate tok good.txt --baseline =tok", "--baseline '=tok': write TOKENIZER or NAME=TOKENIZER"),
        ("evaluate tok good.txt --baseline tok=damaged", "two tokenizers are called tok"),
        ("evaluate tok good.txt --baseline tok", "two tokenizers are called tok"),
        ("evaluate -t tok empty.txt", r"empty\.txt: holds no text to measure"),
        ("evaluate -t damaged good.txt", "not valid JSON"),
        # Before anything is measured.
        ("card tok --eval nowhere.txt --out in-the-way-index.html", r"index\.html is a folder"),
        ("card tok --eval nowhere.txt --out in-the-way-pictures", "pictures is a file"),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(arguments, message)
