"""Messages of the command line that name the cause."""

import shutil
import sys

import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer


@pytest.mark.parametrize(("command", "known"), [("train", "auto, hybrid"), ("count", "hybrid")])
def test_a_recipe_that_does_not_exist_is_answered_by_those_of_the_command(command, known, tmp_path, sample):
    (tmp_path / "en.txt").write_text(sample["en"], encoding="utf-8")
    done = hf_sgpe(command, "en.txt", "--recipe", "foo", "--out", "out.parquet", cwd=tmp_path, code=2)
    assert done.stderr == f"error: --recipe foo: known are {known}, portable, sgpe, bpe\n"


def test_extending_by_text_with_nothing_to_keep_whole_names_no_option_that_it_does_not_have(saved, tmp_path, sample):
    (tmp_path / "en.txt").write_text(sample["en"], encoding="utf-8")
    done = hf_sgpe("extend", saved, "en.txt", "--out", "out", cwd=tmp_path, code=2)
    assert done.stderr.endswith(": name the scripts of the whole corpus by --script, or give text in a script to add\n")
    done = hf_sgpe("train", "en.txt", "--out", "out", cwd=tmp_path, code=2)
    assert done.stderr.endswith(": name the scripts of the whole corpus by --script, or give --recipe bpe\n")


def test_transplanting_and_measuring_models_need_no_accelerate(monkeypatch):
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch")
    from hf_sgpe import SGPEError
    from trainers.training_runs import require_pytorch

    monkeypatch.setitem(sys.modules, "accelerate", None)
    require_pytorch(to_train=False)
    with pytest.raises(SGPEError, match="training language models needs accelerate"):
        require_pytorch()
    monkeypatch.setattr("trainers.training_runs.find_spec", lambda name: None if name == "torch" else name)
    with pytest.raises(SGPEError, match=r"language models need torch: pip install torch \(or the extra \[train\]\)"):
        require_pytorch(to_train=False)


def test_a_portable_pattern_that_cuts_words_is_named(tmp_path, sample):
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8", newline="\n")
    options = ["--vocab-size", 600, "--recipe", "portable", "--script", "sinhala", "--pattern"]
    done = hf_sgpe("train", "si.txt", "--out", "cut", *options, "gpt2", cwd=tmp_path)
    assert "stay whole (recipe portable) but where pattern gpt2 cuts words of sinhala" in done.stdout
    done = hf_sgpe("train", "si.txt", "--out", "whole", *options, "bloom", cwd=tmp_path)
    assert "cuts words" not in done.stdout


def test_a_file_to_encode_that_is_a_pointer_is_named(tmp_path, saved):
    (tmp_path / "a.txt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n")
    (tmp_path / "crlf.txt").write_bytes(b"a\r\nb")
    done = hf_sgpe("encode", saved, "--file", "a.txt", cwd=tmp_path, code=2)
    assert "a.txt: a Git LFS pointer" in done.stderr
    ids = hf_sgpe("encode", saved, "--file", "crlf.txt", cwd=tmp_path).stdout.split()
    assert BPETokenizer.from_pretrained(saved).decode(map(int, ids)) == "a\r\nb"


def test_an_adapter_is_not_pushed_as_a_tokenizer(tmp_path, saved):
    folder = shutil.copytree(saved, tmp_path / "lora")
    (folder / "adapter_config.json").write_text("{}")
    done = hf_sgpe("push", folder, "me/lora", "--dry-run", cwd=tmp_path, code=2)
    assert "lora: holds no model, but a LoRA adapter: merge it first" in done.stderr
