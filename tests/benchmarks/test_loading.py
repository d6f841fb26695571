import pytest
from harness import read_records
from support.command import benchmark


@pytest.mark.slow
def test_packages_load_a_tokenizer_and_encode_a_text(folder, tmp_path):
    done = benchmark("loading.py", "out", folder / "bare", "--repeats", 1, cwd=tmp_path)
    results = {one["about"]: one["result"] for one in read_records(tmp_path / "out" / "loading.jsonl")}
    assert results["bare"].keys() == {"hf_sgpe", "tokenizers", "SGPETokenizerFast", "AutoTokenizer"}
    assert all(one["seconds"] > 0 for one in results["bare"].values())
    assert "bare hf_sgpe: " in done.stdout
