import extensions
import pytest
from harness import read_records
from support.command import benchmark


@pytest.fixture
def options(tmp_path, sample, saved):
    for language in ("si", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8")
    options = ["si.txt", "--script", "si", "--bases", saved, "--new-tokens", "200", "--repeats", "1"]
    return [*options, "--eval", "si.txt", "--other", "en.txt", "--record", "extensions.jsonl"]


@pytest.mark.slow
def test_ways_to_extend_are_measured(options, tmp_path):
    benchmark("extensions.py", *options, cwd=tmp_path)
    results = {record["result"]["way"]: record["result"] for record in read_records(tmp_path / "extensions.jsonl")}
    ways = ["hf_sgpe", "`add_tokens` of transformers, frequent words", "appended merges of a new tokenizer"]
    assert list(results)[:3] == ways
    for one in results.values():
        assert one["new_tokens"] <= 200
        assert one["before"] == results["hf_sgpe"]["before"]
    own = results["hf_sgpe"]
    assert own["moved"] == 0
    assert own["others"]["en"]["same"] == own["others"]["en"]["lines"]
    assert own["decoded"] == own["runs"]["AutoTokenizer"] == own["lines"]
    assert own["after"]["cut_syllable_share"] < results[ways[2]]["after"]["cut_syllable_share"]
    assert "| hf_sgpe | 200 |" in extensions._table(results)


@pytest.mark.parametrize("peer", ["--continued-bpe", "--nemotron"])
def test_a_peer_that_is_not_there_is_refused(options, tmp_path, peer):
    done = benchmark("extensions.py", *options, peer, "nowhere", cwd=tmp_path, code=2)
    assert done.stderr.endswith("error: nowhere: no such folder\n")
