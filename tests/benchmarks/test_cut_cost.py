import re

import pytest
from harness import read_records
from support.command import benchmark


def test_the_sweep_shows_what_whole_syllables_cost(tmp_path, sample):
    pytest.importorskip("matplotlib")
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8")
    (tmp_path / "held out.txt").write_text(sample["si"][-5000:], encoding="utf-8")
    files = ["si.txt", "--eval", "held out.txt"]
    options = ["--vocab-size", "1000", "--script", "sinhala", "--costs", "0", "2", "50"]
    done = benchmark("cut_cost.py", *files, *options, cwd=tmp_path)
    results = [record["result"] for record in read_records(tmp_path / "sweep" / "cut_cost.jsonl")]
    assert [result["cut_cost"] for result in results] == [None, 0, 2, 50]
    plain, cheap, usual, dear = (result["files"]["held out.txt"]["cut_syllable_share"] for result in results)
    assert plain > cheap > usual >= dear
    assert re.search(r"^plain BPE +[\d,]+ +\+0\.00%", done.stdout, re.MULTILINE)
    assert (tmp_path / "sweep" / "cut-cost.png").read_bytes().startswith(b"\x89PNG")
    done = benchmark("cut_cost.py", *files, "--weight", "x", cwd=tmp_path, code=2)
    assert done.stderr == "error: --weight 'x': expected NAME-OR-GLOB=NUMBER\n"
