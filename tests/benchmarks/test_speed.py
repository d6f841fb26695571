import sys

import pytest
import speed
from harness import read_records
from package_worker import MEASURES, _digest, _renew, _task
from packages import PACKAGES, TRAINERS
from support.command import benchmark
from support.paths import ROOT


def test_the_page_has_the_tables_of_the_records(tmp_path):
    speed.report({one["about"]: one["result"] for one in read_records(ROOT / "docs" / "measured" / "speed.jsonl")}, tmp_path)
    page = (ROOT / "docs" / "measured" / "speed.md").read_text(encoding="utf-8")
    assert (tmp_path / "speed.md").read_text(encoding="utf-8") == page


def test_other_results_are_marked():
    results = {"hf_sgpe": {"cold": 10.0, "peak": 5e6}, "tokenizers": {"cold": 2.0, "peak": 6e6}}
    speed._mark_differences(results, {"hf_sgpe": [b"a", b"b"], "tokenizers": [b"a", b"c"]}, "tokenizers")
    assert speed._training_table(results, "MB/s").splitlines()[2:] == [
        "| hf_sgpe | 10.0 | | 5 MB | **no**: 50.00% differ |",
        "| tokenizers | 2.0 | 5× | 6 MB | yes |",
    ]


def test_each_pass_encodes_new_texts(tmp_path, sample):
    docs = [sample["en"][:300], sample["en"][300:600]]
    speed._save_trained(docs, tmp_path, "english", "gpt2", 400)
    before = [*docs]
    inputs, (run, _) = _task({"name": "hf_sgpe", "texts": docs, "folder": str(tmp_path), "threads": 1}, "batch", [])
    passes = [before]
    for _ in range(2):
        _renew(inputs)
        passes.append([*run.args[0]])
    assert passes == [before] * 3
    assert len({id(text) for texts in passes for text in texts}) == 6


def test_a_folder_is_a_recipe(tmp_path, sample):
    folder = tmp_path / "trained"
    speed._save_trained([sample["en"][:3000]], folder, "english", "gpt2", 400)
    assert speed._is_folder(str(folder))
    assert speed._label(str(folder)) == "trained"
    assert not speed._is_folder("gpt2")


def same(measures, names, folder, docs):
    speed._save_trained(docs, folder, "english", "gpt2", 400)
    for measure in measures:
        outputs = []
        for name in names:
            job = {"name": name, "texts": [*docs], "folder": str(folder), "threads": 1}
            _, (run, comparable) = _task(job, measure, [])
            run()
            outputs.append([_digest(row) for row in comparable(run())])
        assert outputs[0] == outputs[1], measure


@pytest.mark.parametrize(
    ("name", "needs", "measures"),
    [
        ("tokenizers", "tokenizers", set(MEASURES) - {"tok", "map"}),
        ("tiktoken", "tiktoken", set(MEASURES) - {"tok", "map"}),
        pytest.param("tokenizers", "datasets", ("tok", "map"), marks=pytest.mark.slow),
    ],
)
def test_packages_give_the_same(name, needs, measures, tmp_path, sample):
    pytest.importorskip(needs)
    same(measures, ("hf_sgpe", name), tmp_path, [sample["en"][:3000], sample["en"][3000:6000]])


def test_trainers_merge_the_same(sample):
    pytest.importorskip("rustbpe")
    ours, theirs = (
        TRAINERS[name]([sample["en"][:5000]], speed.resolve_pattern("gpt2"), 400, 1) for name in ("hf_sgpe", "rustbpe")
    )
    assert list(ours[1](ours[0]())) == list(theirs[1](theirs[0]()))


def test_bad_options_are_refused(tmp_path):
    done = benchmark("speed.py", "out", "--text", "english", cwd=tmp_path, code=2)
    assert done.stderr == "error: --text needs NAME=FILE, not 'english'\n"
    done = benchmark("speed.py", "out", "--text", "english=x", "--python", "nothing=x", cwd=tmp_path, code=2)
    assert "--python: unknown package 'nothing': choose from hf_sgpe, tokenizers" in done.stderr


@pytest.mark.slow
def test_speed_is_measured(tmp_path, sample):
    for language in ("si", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8")
    known = {*PACKAGES, *TRAINERS} - {"hf_sgpe", "tokenizers", "rustbpe"}
    options = ["--vocab-size", 1000, "--repeats", 1, "--growth", "0.01", "--threads", 2, "--skip", ",".join(known)]
    texts = ["--text", "sinhala=si.txt", "--text", "mixed=si.txt,en.txt", "--recipe", "gpt2"]
    builds = ["--python", f"hf_sgpe@before={sys.executable}"]
    parts = ("batch", "200", "decode", "training", "processes", "growth", "syllables")
    options += [word for part in parts for word in ("--only", part)]
    done = benchmark("speed.py", "out", *texts, *options, *builds, cwd=tmp_path)
    records = {record["about"]: record["result"] for record in read_records(tmp_path / "out" / "speed.jsonl")}
    kinds = ["setting", "encoding", "training", "syllables", "encoding", "training", "growth", "growth", "processes"]
    assert [result["kind"] for result in records.values()] == kinds
    encoding = list(records.values())[1]["columns"]
    assert list(encoding)[:3] == ["batch, 1", "batch, 2", "200, 1"]
    for results in encoding.values():
        assert list(results) == ["hf_sgpe", "hf_sgpe@before", "tokenizers"]
        assert all(result["differs"] == 0 for result in results.values())
    whole = list(records.values())[-1]["rows"]
    assert whole["hf_sgpe"]["peak"] > 1e7
    assert whole["hf_sgpe"]["differs"] == whole["rustbpe"]["differs"] == 0
    assert "| hf_sgpe@before |" in done.stdout
