import json
import re

import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer, TrainingConfig, WordCounts


@pytest.fixture(scope="module")
def english(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("english") / "base"
    BPETokenizer.train_from_iterator([sample["en"]], 300, pattern="gpt2").save(folder)
    return folder


def test_extend_and_compare_ids(tmp_path, sample):
    base, out = tmp_path / "base", tmp_path / "out"
    BPETokenizer.train_from_iterator([sample["en"]], 600, pattern="gpt2", special_tokens=["<|end|>"]).save(base)
    for language in ("si", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8", newline="")
    corpus = tmp_path / "si.txt"
    # Its --balance is a number, and what follows it a file.
    done = hf_sgpe("extend", base, "--balance", 0.4, corpus, "--new-tokens", 500, "--out", out, "--eval", corpus)
    assert re.match(
        r".*out: 500 tokens more than .*base, \d+ of them for letters and syllables of sinhala\. "
        r"Words of sinhala in this text take \d+\.\d\d tokens on average instead of \d+\.\d\d\. "
        r"A new split, put before the old one, keeps these words whole\. Text without a character of sinhala "
        r"keeps its ids\.\n"
        r"llama\.cpp itself does not produce the same ids\. Use hf-sgpe serve, which sends ids to the model, or extend ",
        done.stdout,
    )
    assert done.stderr == ""
    curve = json.loads((out / "extension.json").read_text())
    assert (curve["new_tokens"][0], curve["new_tokens"][-1]) == (0, 500)
    assert curve["tokens_per_word"]["si"] == sorted(curve["tokens_per_word"]["si"], reverse=True)
    assert f"{curve['tokens_per_word']['si'][-1]:.3f}" in done.stdout.splitlines()[-1]
    assert "Sinhala" in (out / "extension.svg").read_text(encoding="utf-8")
    assert "extended from" in hf_sgpe("info", out).stdout

    compared = hf_sgpe("compare-ids", base, out, tmp_path / "en.txt", corpus).stdout.splitlines()
    lines = len([line for line in sample["en"].splitlines() if line.strip()])
    assert compared[0].startswith(f"{tmp_path / 'en.txt'}: {lines:,} of {lines:,} lines have the same ids")
    assert f"{corpus}: 0 of" in compared[1]
    assert "is the first with different ids, after 0 equal tokens" in compared[2]
    first = json.loads(hf_sgpe("compare-ids", base, out, corpus, "--json").stdout)[0]
    assert first["difference"]["new"][0][1] >= 601

    done = hf_sgpe("extend", base, corpus, "--script", "si", "--new-tokens", "auto", "--out", out, "--overwrite", "--json")
    facts = json.loads(done.stdout)
    assert facts["own_split"] is True
    assert facts["new_tokens"] > 100
    hf_sgpe("count", corpus, "--script", "si", "--normalization", "none", "--out", tmp_path / "c.parquet")
    done = hf_sgpe("extend", base, "--counts", tmp_path / "c.parquet", "--new-tokens", 500, "--out", tmp_path / "counted")
    assert re.search(
        r"sinhala\. Pieces into which the split cuts words of sinhala take \d\.\d\d tokens on average instead of ",
        done.stdout,
    )
    done = hf_sgpe("extend", base, corpus, "--base-split", "--new-tokens", 500, "--out", tmp_path / "cut")
    assert ". The split is unchanged and cuts words of sinhala: --own-split keeps them whole. Text" in done.stdout
    assert float(re.search(r"Words of sinhala in this text take (\d+\.\d\d) tokens on average", done.stdout)[1]) > 2
    assert hf_sgpe("compare-ids", tmp_path / "counted", out, tmp_path / "en.txt").stdout.count("same ids") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "--dataset or --counts"),
        ("si.txt --new-tokens many", "--new-tokens many"),
        ("si.txt --new-tokens 0", "--new-tokens 0"),
        ("si.txt --new-tokens 20", "--new-tokens 20 .* 66 characters"),
        ("en.txt", r"en\.txt .* latin"),
        ("empty.txt", r"empty\.txt: no words to learn from"),
        ("--counts plain.parquet", r"plain\.parquet: .* without scripts"),
        ("en.txt --script si", "no word in sinhala"),
        ("si.txt --out base", "base is the tokenizer"),
        ("si.txt --reuse-ids", r"base has no config\.json .* --reuse-ids"),
        ("si.txt --weight x=2", "--weight: 'x'"),
        ("si.txt --split train", "--split needs a dataset"),
        ("--dataset si --weight si=2", "--weight applies only to files"),
    ],
)
def test_bad_input_is_one_line(workplace, english, refuses, arguments, message):
    (workplace / "base").symlink_to(english)
    WordCounts.from_texts(["a b"], TrainingConfig(vocab_size=300, recipe="bpe")).save(workplace / "plain.parquet")
    out = "" if "--out" in arguments else "--out new/out"
    refuses(f"extend base {arguments} {out}", message)
