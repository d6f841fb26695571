import re

import pytest
from support.command import hf_sgpe


def test_sgpe_is_resumed_and_exported(tmp_path, sample):
    text = tmp_path / "si.txt"
    text.write_text(sample["si"], encoding="utf-8")
    out = tmp_path / "out"
    options = [text, "--out", out, "--vocab-size", 800, "--prune-freq", 2, "--checkpoint-every", 100]
    done = hf_sgpe("train-sgpe", *options, "--verbose")
    assert re.match(r".*out: 800 tokens, \d+ merges\n", done.stdout)
    steps = re.findall(r"^info: step (\d+) of \d+: '.*' \+ '.*', \d+ times$", done.stderr, re.MULTILINE)
    assert steps == list(map(str, range(1, 11)))
    done = hf_sgpe("train-sgpe", *options, code=2)
    assert done.stderr.endswith("is from an earlier run: resume that run, or choose another folder\n")
    vocab = (out / "vocab.json").read_bytes()
    assert hf_sgpe("train-sgpe", *options, "--resume").stderr == ""
    assert (out / "vocab.json").read_bytes() == vocab
    for option, value, old in (("--prune-freq", 3, "2"), ("--script", "tamil", "sinhala")):
        done = hf_sgpe("train-sgpe", *options, "--resume", option, value, code=2)
        assert done.stderr.startswith(f"error: {option}: the run to resume has {old} (")
    done = hf_sgpe("train-sgpe", *options, "--resume", "--vocab-size", 400, code=2)
    assert "--vocab-size 400 allows only" in done.stderr

    hf_sgpe("export", out / "vocab.json", "--out", tmp_path / "again")
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == (out / "tokenizer.json").read_bytes()
    done = hf_sgpe("export", out, "--format", "tiktoken", "--out", tmp_path / "x", code=2)
    assert done.stderr.count("\n") == 1
    assert "a .tiktoken file requires ids in the order of merges" in done.stderr


def test_a_target_above_what_the_corpus_gives_finishes(workplace):
    done = hf_sgpe("train-sgpe", "good.txt", "--out", "v", "--min-freq", 10**30, "--prune-freq", 2, cwd=workplace)
    assert done.stderr.startswith("warning: learning ended after 0 of")


@pytest.mark.parametrize(
    ("out", "message"),
    [("''", "the name of the output folder is empty"), ("in-the-way-vocab.json", r"vocab\.json is a folder")],
)
def test_bad_input_is_one_line(refuses, out, message):
    refuses(f"train-sgpe good.txt --out {out}", message)
