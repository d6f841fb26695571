import json

from support.command import benchmark


def test_a_conversation_is_measured(saved, sample, tmp_path):
    (tmp_path / "si.txt").write_text(sample["si"][:4000], encoding="utf-8")
    done = benchmark("conversations.py", saved, "si.txt", "--turns", 8, "--lines", 1, cwd=tmp_path)
    (record,) = map(json.loads, (tmp_path / "grown" / "conversations.jsonl").read_text(encoding="utf-8").splitlines())
    assert record["about"] == "si"
    assert all(record["result"][way]["all"] > 0 for way in ("without", "with", "rendering"))
    assert "| si |" in done.stdout
