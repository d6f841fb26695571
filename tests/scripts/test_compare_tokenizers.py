"""The script that compares tokenizers by small models trained with each: its measures, and runs that go on."""

import json
import re
from statistics import fmean, stdev

import pytest
from support.command import script

TINY = ["--layers", "1", "--width", "16", "--heads", "2", "--length", "16"]


def test_tokenizers_are_compared_and_finished_runs_kept(folder):
    pytest.importorskip("matplotlib")
    options = ["--recipe", "hybrid", "--tokenizer", "padding", "--script", "sinhala", "--vocab-size", 1500, "--eval"]
    options += ["held out.txt", "30-en.txt", "--steps", 7, "--batch", 32, *TINY]
    done = script("compare_tokenizers.py", "si.txt", *options, "--seeds", 2, "--out", "comparison", cwd=folder)
    out = folder / "comparison"
    found = json.loads((out / "compare.json").read_text(encoding="utf-8"))
    assert list(found["tokenizers"]) == ["hybrid", "padding"]
    for name, tokenizer in found["tokenizers"].items():
        assert len(tokenizer["runs"]) == 2
        for where in ("held out.txt", "30-en.txt"):
            values = [run["bits_per_byte"][where] for run in tokenizer["runs"]]
            assert tokenizer["mean"][where] == fmean(values)
            assert tokenizer["spread"][where] == stdev(values) > 0
            line = rf"^  {name} +{values[0]:.4f} +{values[1]:.4f} +{fmean(values):.4f} "
            assert re.search(line, done.stdout, re.M), done.stdout
        for run in tokenizer["runs"]:
            assert [point["tokens"] for point in run["curve"]] == [32 * step for step in range(1, 8)]
            assert run["curve"][-1]["bits_per_byte"] == run["bits_per_byte"]
            assert run["tokens_seen"] == found["tokens_seen"] == 7 * 32
            assert run["parameters"] == found["parameters"]
    hybrid, padding = found["tokenizers"].values()
    assert hybrid["bytes_seen"] > padding["bytes_seen"]
    assert hybrid["tokens_per_byte"] == pytest.approx(7 * 32 / hybrid["bytes_seen"], rel=0.01)
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")

    runs = {file.name: file.stat().st_mtime_ns for file in (out / "runs").iterdir()}
    (out / "runs" / "hybrid-2.json").unlink()
    script("compare_tokenizers.py", "si.txt", *options, "--seeds", 2, "--out", "comparison", cwd=folder)
    assert json.loads((out / "compare.json").read_text(encoding="utf-8")) == found
    redone = {file.name for file in (out / "runs").iterdir() if file.stat().st_mtime_ns != runs[file.name]}
    assert redone == {"hybrid-2.json"}

    done = script("compare_tokenizers.py", "si.txt", *options, "--steps", 8, "--out", "comparison", cwd=folder, code=2)
    why = "comparison was begun with other settings (steps): give the same, or another folder"
    assert done.stderr == f"error: {why}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["si.txt", "--eval", "30-en.txt", "--recipe", "bpe"], "nothing to compare"),
        (
            ["si.txt", "--eval", "si.txt", "--recipe", "bpe", "--recipe", "hybrid"],
            "all lines of the corpus are also in the held-out files",
        ),
        (
            ["si.txt", "--eval", "30-en.txt", "--tokenizer", "bare", "--tokenizer", "../x/bare"],
            "same name",
        ),
        (
            ["si.txt", "--eval", "30-en.txt", "--tokenizer", "bare", "--tokenizer", "padding", "--batch", "100"],
            "--batch must be a multiple of --length 128, not 100",
        ),
    ],
)
def test_bad_input_ends_in_one_line(arguments, message, refused):
    refused("compare_tokenizers.py", arguments, message)
