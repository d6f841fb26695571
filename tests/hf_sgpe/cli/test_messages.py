"""Messages of the command line that name the cause."""

import sys

import pytest
from support.command import hf_sgpe


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
