"""The sweep over cut costs."""

import json
import re

import pytest
from support.command import script


def test_the_sweep_shows_what_whole_syllables_cost(tmp_path, sample):
    pytest.importorskip("matplotlib")
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8")
    (tmp_path / "held out.txt").write_text(sample["si"][-5000:], encoding="utf-8")
    files = ["si.txt", "--eval", "held out.txt"]
    options = ["--vocab-size", "1000", "--script", "sinhala", "--costs", "0", "2", "50"]
    done = script("sweep_cut_cost.py", *files, *options, cwd=tmp_path)
    results = json.loads((tmp_path / "sweep" / "sweep.json").read_text(encoding="utf-8"))
    assert [result["cut_cost"] for result in results] == [None, 0, 2, 50]
    plain, cheap, usual, dear = (next(iter(result["cut_syllable_share"].values())) for result in results)
    assert plain > cheap > usual >= dear
    assert re.search(r"^plain BPE +[\d,]+ +\+0\.00%", done.stdout, re.MULTILINE)
    assert (tmp_path / "sweep" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    done = script("sweep_cut_cost.py", *files, "--weight", "x", cwd=tmp_path, code=2)
    assert done.stderr == "error: --weight 'x': write NAME-OR-GLOB=NUMBER\n"
