import json
import re

import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer


def test_a_folder_of_text_becomes_a_tokenizer(tmp_path, sample):
    (tmp_path / "corpus").mkdir()
    for name, text in sample.items():
        (tmp_path / "corpus" / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    out = tmp_path / "out"
    scripts = ["--script", "sinhala", "--script", "devanagari", "--script", "tamil"]
    done = hf_sgpe("train", tmp_path / "corpus", "--out", out, "--vocab-size", 5000, *scripts)
    assert re.match(
        r".*out: 5,000 tokens, learned from [\d,]+ words \([\d,]+ distinct\); syllables of .*tamil stay whole \(.+\)\n",
        done.stdout,
    )
    assert done.stderr == ""
    assert sorted(file.name for file in tmp_path.iterdir()) == ["corpus", "out"]
    assert re.search(r"^recipe +hybrid$", hf_sgpe("info", out).stdout, re.MULTILINE)
    assert json.loads(hf_sgpe("info", out, "--json").stdout)["scripts"] == ["sinhala", "devanagari", "tamil"]


@pytest.mark.parametrize("script", ["Sinhala,Hindi", "si, hi", "SINH,Deva"])
def test_scripts_by_any_name(workplace, script):
    hf_sgpe("train", "good.txt", "--out", "out", "--vocab-size", 400, "--script", script, cwd=workplace)
    assert json.loads(hf_sgpe("info", "out", "--json", cwd=workplace).stdout)["scripts"] == ["sinhala", "devanagari"]


def test_the_scripts_of_the_text_are_kept_whole_unless_others_are_named(tmp_path, sample):
    (tmp_path / "hi.txt").write_text(sample["hi"] + sample["en"], encoding="utf-8")
    (tmp_path / "en.txt").write_text(sample["en"], encoding="utf-8")
    done = hf_sgpe("train", "hi.txt", "--out", "a", "--vocab-size", 3000, "--recipe", "hybrid", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["scripts"] == ["devanagari"]
    assert done.stderr == ""
    hf_sgpe("count", "hi.txt", "--out", "counts", cwd=tmp_path)
    hf_sgpe("train", "--counts", "counts", "--out", "b", "--vocab-size", 3000, cwd=tmp_path)
    assert (tmp_path / "a" / "tokenizer.json").read_bytes() == (tmp_path / "b" / "tokenizer.json").read_bytes()
    for command in ("train", "count"):
        done = hf_sgpe(command, "en.txt", "--out", "c", cwd=tmp_path, code=2)
        assert re.fullmatch(
            r"error: en\.txt begins with text in latin, which has no syllables or marked letters that could be kept "
            r"whole: if the corpus has other scripts, name them with --script, or give --recipe bpe\n",
            done.stderr,
        )
    hf_sgpe("train", "en.txt", "--out", "d", "--recipe", "bpe", "--vocab-size", 400, cwd=tmp_path)


def test_a_portable_pattern_that_cuts_words_is_named(tmp_path, sample):
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8", newline="\n")
    options = ["--vocab-size", 600, "--recipe", "portable", "--script", "sinhala", "--pattern"]
    done = hf_sgpe("train", "si.txt", "--out", "cut", *options, "gpt2", cwd=tmp_path)
    assert "stay whole (recipe portable) but where pattern gpt2 cuts words of sinhala" in done.stdout
    done = hf_sgpe("train", "si.txt", "--out", "whole", *options, "bloom", cwd=tmp_path)
    assert "cuts words" not in done.stdout


def test_the_folder_that_one_stands_in_can_be_written_to(workplace):
    (workplace / "here").mkdir()
    hf_sgpe("train", "../good.txt", "--out", ".", "--vocab-size", 400, cwd=workplace / "here")
    hf_sgpe("export", "../tok", "--out", ".", "--overwrite", cwd=workplace / "here")
    hf_sgpe("card", ".", cwd=workplace / "here")
    assert {file.name for file in (workplace / "here").iterdir()} >= {"tokenizer.json", "README.md"}


def test_parts_of_special_tokens_and_length_are_options(workplace):
    roles = ["--eos-token", "<|end|>", "--pad-token", "<|pad|>", "--model-max-length", 512]
    hf_sgpe("train", "good.txt", "--out", "a", "--vocab-size", 400, "--chat-template", "chatml", *roles, cwd=workplace)
    tokenizer = BPETokenizer.from_pretrained(workplace / "a")
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<|endoftext|>", "<|end|>", "<|pad|>")
    assert list(tokenizer.special_tokens) == ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|end|>", "<|pad|>"]
    assert tokenizer.model_max_length == 512


def test_a_target_above_what_the_corpus_gives_finishes(workplace):
    for size in (9999, 10**30):
        done = hf_sgpe("train", "good.txt", "--out", "out", "--overwrite", "--vocab-size", size, cwd=workplace)
        assert re.match(rf"warning: learning ended with \d+ of the {size} tokens requested", done.stderr)
        assert (workplace / "out" / "tokenizer.json").exists()


def test_files_can_be_weighted_by_pattern(tmp_path):
    (tmp_path / "a.txt").write_text("low low lower\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("newest widest\n", encoding="utf-8")
    options = ["--recipe", "bpe", "--vocab-size", 262]
    done = hf_sgpe("train", "a.txt", "b.txt", "-o", "t", *options, "--weight", "a*=0.5", "--weight", "b.txt=3", cwd=tmp_path)
    assert done.stdout == "t: 262 tokens, learned from 11 words (6 distinct)\n"
    assert json.loads(hf_sgpe("info", tmp_path / "t", "--json").stdout)["weights"] == {"a*": 0.5, "b.txt": 3.0}
    for weight in ("a.txt", "=2", "a.txt=x"):
        done = hf_sgpe("train", "a.txt", "-o", "u", *options, "--weight", weight, code=2, cwd=tmp_path)
        assert done.stderr == f"error: --weight {weight!r}: expected NAME-OR-GLOB=NUMBER, for example 'si*=2.5'\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("empty.txt --out out", r"empty\.txt: no words to learn from"),
        ("blank.txt --out out", r"blank\.txt: no words to learn from"),
        ("empty.txt --out new/folder/out", r"empty\.txt: no words to learn from"),
        ("latin1.txt --out out", r"latin1\.txt is not UTF-8 at byte offset 3"),
        ("bad.jsonl --out out", r"bad\.jsonl, line 2: no field 'text'"),
        ("deep.jsonl --out out", r"deep\.jsonl, line 1: not valid JSON"),
        ("nowhere.txt --out out", r"nowhere\.txt: no such file or folder"),
        ("'' --out out", "the name of a corpus must not be empty"),
        ("--out out", "nothing to train on"),
        ("--out out --counts good.txt", r"good\.txt is damaged"),
        ("--counts kept --out u --pattern gpt2", '"o200k", .* "gpt2"'),
        ("good.txt", "Missing option '--out'"),
        ("good.txt --out good.txt", r"good\.txt is a file: give a folder"),
        ("good.txt --out good.txt/sub", r"good\.txt is a file"),
        ("good.txt --out /proc/nothing/out", "/proc/nothing"),
        ("good.txt --out dangling", "dangling is a broken link"),
        ("good.txt --out ''", "the name of the output folder is empty"),
        ("good.txt --out stale", r"stale/added_tokens\.json"),
        ("good.txt --out in-the-way-tokenizer_config.json", r"tokenizer_config\.json is a folder"),
        # Before anything is read.
        ("good.txt --out in-the-way-tokenizer.json", r"tokenizer\.json is a folder"),
        ("good.txt --out out --vocab-size 260", r"--vocab-size 260 .* at least \d+"),
        ("good.txt --out out --vocab-size many", "--vocab-size .* 'many'"),
        ("good.txt --out out --recipe x", "--recipe x"),
        ("good.txt --out out --script x", "unknown script 'x'"),
        ("good.txt --out out --pattern x", "unknown split pattern 'x'"),
        ("aa.txt --out out --pattern (a+)+$ --recipe bpe --vocab-size 300", "takes too long on this text"),
        ("good.txt --out out --special-token Ġt", "'Ġt' .* tokenizer.json"),
        ("good.txt --out out --pad-token x", "'x' .* tokenizer.json"),
        ("good.txt --out out --model-max-length 0", "--model-max-length .* 0"),
        (f"good.txt --out out --workers {10**20}", "--workers must be a number from 1 to 1024"),
        (r"good.txt --out out --weight good*=1 --weight good*=2", r"'good\*' already has a number"),
    ],
)
def test_bad_input_is_one_line(workplace, refuses, arguments, message):
    (workplace / "blank.txt").write_text("\n \n\n")
    refuses(f"train {arguments}", message)
