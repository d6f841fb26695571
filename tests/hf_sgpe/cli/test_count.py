import json
import os
import re

import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer, WordCounts


def test_counts_kept_before_survive_a_failed_run(workplace):
    hf_sgpe("count", "good.txt", "--out", "counts", cwd=workplace)
    (workplace / "link").symlink_to("counts")
    before, total = (workplace / "counts").read_bytes(), WordCounts.load(workplace / "counts").total()
    hf_sgpe("count", "latin1.txt", "--out", "link", "--overwrite", code=2, cwd=workplace)
    assert (workplace / "counts").read_bytes() == before
    hf_sgpe("counts", "add", "counts", "counts", "--out", "link", "--overwrite", cwd=workplace)
    assert (workplace / "link").is_symlink()
    assert WordCounts.load(workplace / "counts").total() == 2 * total


def test_counts_can_be_trained_on_later(workplace):
    hf_sgpe("train", "good.txt", "--out", "a", "--vocab-size", 400, cwd=workplace)
    done = hf_sgpe("count", "good.txt", "--out", "counts", cwd=workplace)
    counted = r"counts: [\d,]+ words \([\d,]+ distinct\), SHA-256 [0-9a-f]{64}\nsyllables of sinhala stay whole\n"
    assert re.fullmatch(counted, done.stdout)
    hf_sgpe("train", "--counts", "counts", "--out", "b", "--vocab-size", 400, cwd=workplace)
    assert (workplace / "a" / "tokenizer.json").read_bytes() == (workplace / "b" / "tokenizer.json").read_bytes()
    hf_sgpe("train", "good.txt", "--counts", "counts", "--out", "c", "--vocab-size", 400, cwd=workplace)
    assert BPETokenizer.from_pretrained(workplace / "c").metadata != BPETokenizer.from_pretrained(workplace / "a").metadata
    shown = hf_sgpe("counts", "info", "counts", cwd=workplace).stdout
    assert "good.txt" in shown and "hybrid" in shown
    info = json.loads(hf_sgpe("counts", "info", "counts", "--json", cwd=workplace).stdout)
    assert info["digest"] == BPETokenizer.from_pretrained(workplace / "b").metadata["word_counts"]
    done = hf_sgpe("counts", "add", "counts", "--out", "few", "--min-count", 2, cwd=workplace)
    assert "distinct words that occur fewer than 2 times" in done.stdout


def test_names_that_are_no_utf8_can_be_written(workplace):
    names = [b"o\xff.parquet", b"good\xff.txt"]
    (workplace / os.fsdecode(names[1])).write_bytes((workplace / "good.txt").read_bytes())
    hf_sgpe("count", os.fsdecode(names[1]), "--out", os.fsdecode(names[0]), cwd=workplace)
    assert WordCounts.load(workplace / os.fsdecode(names[0])).total()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("count --out out", "--dataset"),
        ("count empty.txt --out out", "corpus is empty"),
        ("count good.txt --out out --min-count 1000000", "--min-count 1000000"),
        ("count good.txt --out tok", "tok is a folder"),
        ("count good.txt --out good.txt", r"--out good\.txt is part of the corpus"),
        ("count good.txt --out good.txt/x", r"good\.txt is a file"),
        ("count good.txt --out pipe", "pipe is not an ordinary file"),
        ("count latin1.txt --out new/counts", "not UTF-8"),
        ("count good.txt --out out --memory-limit many", "--memory-limit 'many'"),
        ("count good.txt --out out --memory-limit 1MB", "a memory limit of 1 MB is too small"),
        ("count good.txt --out out --split train", "--split needs a dataset"),
        ("count good.txt --out out --recipe none", "--recipe none"),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(arguments, message)
