import re
from statistics import fmean, stdev

import pytest
from harness import read_records
from support.command import benchmark

TINY = ["--layers", "1", "--width", "16", "--heads", "2", "--length", "16"]


def test_tokenizers_are_compared_and_finished_runs_kept(folder):
    pytest.importorskip("matplotlib")
    options = ["--recipe", "hybrid", "--tokenizer", "padding", "--script", "sinhala", "--vocab-size", 1500, "--eval"]
    options += ["held out.txt", "30-en.txt", "--steps", 7, "--batch", 32, *TINY]
    done = benchmark("models_by_tokenizer.py", "si.txt", *options, "--seeds", 2, "--out", "comparison", cwd=folder)
    file = folder / "comparison" / "models_by_tokenizer.jsonl"
    runs = {record["about"]: record["result"] for record in read_records(file)}
    assert list(runs) == [f"{name}, seed {seed}" for seed in (1, 2) for name in ("hybrid", "padding")]
    for name in ("hybrid", "padding"):
        for where in ("held out.txt", "30-en.txt"):
            values = [runs[f"{name}, seed {seed}"]["points"][-1]["bits_per_byte"][where] for seed in (1, 2)]
            numbers = (f"{number:.4f}" for number in (*values, fmean(values), stdev(values)))
            assert f"| {name} | {' | '.join(numbers)} |" in done.stdout
    for run in runs.values():
        assert [point["tokens"] for point in run["points"]] == [32 * step for step in range(1, 8)]
        assert run["tokens_seen"] == 7 * 32
        assert run["parameters"] == runs["hybrid, seed 1"]["parameters"]
    assert runs["hybrid, seed 1"]["bytes_seen"] > runs["padding, seed 1"]["bytes_seen"]
    assert (folder / "comparison" / "bits-per-byte.png").read_bytes().startswith(b"\x89PNG")

    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:2] + lines[3:]), encoding="utf-8")
    again = benchmark("models_by_tokenizer.py", "si.txt", *options, "--seeds", 2, "--out", "comparison", cwd=folder)
    assert re.findall(r"^(.*, seed \d): ", again.stdout, re.MULTILINE) == ["hybrid, seed 2"]
    redone = {record["about"]: record["result"]["points"][-1]["bits_per_byte"] for record in read_records(file)}
    assert redone == {about: run["points"][-1]["bits_per_byte"] for about, run in runs.items()}

    done = benchmark("models_by_tokenizer.py", "si.txt", *options, "--steps", 8, "--out", "comparison", cwd=folder, code=2)
    remedy = "give the old values of these settings, or another folder"
    assert done.stderr == f"error: comparison was started with different settings (steps was 7): {remedy}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["si.txt", "--eval", "30-en.txt", "--recipe", "bpe"], "nothing to compare"),
        (["si.txt", "--eval", "si.txt", "--recipe", "bpe", "--recipe", "hybrid"], "held-out files"),
        (["si.txt", "--eval", "30-en.txt", "--tokenizer", "bare", "--tokenizer", "../x/bare"], "same name"),
        (
            ["si.txt", "--eval", "30-en.txt", "--tokenizer", "bare", "--tokenizer", "padding", "--batch", "100"],
            "--length 128, not 100",
        ),
    ],
)
def test_bad_input_ends_in_one_line(arguments, message, refused):
    refused("models_by_tokenizer.py", arguments, message)
