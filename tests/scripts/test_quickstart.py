"""The scripts that the documentation names."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def quickstart(*arguments, **options):
    command = [sys.executable, str(ROOT / "scripts" / "quickstart.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_the_main_job_on_the_sample(tmp_path):
    done = quickstart(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "with the same ids on 120 held-out lines" in done.stdout
    shares = {}
    for script, name, share in re.findall(
        r"^(\w+) +(syllable-safe|plain BPE) .* ([\d.]+)% +[\d.]+%", done.stdout, re.MULTILINE
    ):
        shares[script, name] = float(share)
    for script in ("sinhala", "devanagari", "tamil"):
        assert shares[script, "syllable-safe"] < shares[script, "plain BPE"] / 3
    assert "hybrid" not in done.stdout
    words, measures = (done.stdout.index(title) for title in ("Held-out words", "Measured on the held-out lines"))
    assert words < done.stdout.index("ප්‍රේ") < measures < done.stdout.index("What to type next")
    assert re.search(
        r"^Of 2,\d{3} held-out syllables that have a syllable-safe token, 0 were cut\.", done.stdout, re.MULTILINE
    )
    assert (tmp_path / "out" / "tokenizer.json").exists()
    use, measure, extend = next_steps(done.stdout)
    assert re.fullmatch(r"[\d ]+", typed(use, tmp_path).strip())
    assert "plain" in typed(measure, tmp_path)
    assert Path(shlex.split(extend)[1]).exists()


def next_steps(printed):
    """The commands that a quickstart ends with."""
    return re.findall(r"^  [^:]+: +(.+)$", printed.partition("What to type next")[2], re.MULTILINE)


def typed(command, folder):
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_gets_a_language_and_its_text_is_shown_before_and_after(tmp_path, sample):
    pytest.importorskip("torch")
    from transformers import LlamaForCausalLM

    from hf_sgpe import TrainingConfig, WordCounts, train_from_counts
    from trainers.language_model import small_llama

    config = TrainingConfig(vocab_size=400, recipe="bpe")
    tokenizer = train_from_counts(WordCounts.from_texts([sample["en"]], config), config)
    tokenizer.save(tmp_path / "small")
    LlamaForCausalLM(small_llama(448, layers=1, width=16, heads=2, length=2048)).save_pretrained(tmp_path / "small")
    command = [sys.executable, str(ROOT / "scripts" / "quickstart_extend.py"), "--model", "small", "--new-tokens", "300"]
    done = subprocess.run([*command, "--steps", "1"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for held_out in ("අප්‍රේල්", "පොතක් කියවන විට අලුත් වචන සටහන් කර ගැනීම හොඳ පුරුද්දකි."):
        before, after = re.search(
            rf"^  {held_out}\n    (\d+) tokens, .* → (\d+) tokens: ", done.stdout, re.MULTILINE
        ).groups()
        assert int(after) < int(before) / 3
    assert len(re.findall(r"^  (?:before|after): … ", done.stdout, re.MULTILINE)) == 2
    measured = re.findall(r"^  (?:before|with rows|after) .* ([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)
    sinhala, english = zip(*(map(float, values) for values in measured), strict=True)
    assert sinhala[0] > sinhala[1] >= sinhala[2] > 0
    assert len(english) == 3
    _, measure, *_ = next_steps(done.stdout)
    assert f"{sinhala[2]:.4f}" in typed(measure, tmp_path)


def test_extending_is_measured(tmp_path, sample, saved):
    for language in ("si", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8")
    script = str(ROOT / "scripts" / "benchmark_extension.py")
    options = ["--script", "si", "--new-tokens", "200", "--eval", "si.txt", "--other", "en.txt"]
    command = [sys.executable, script, str(saved), "si.txt", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    measured = r"^hf_sgpe: [\d.]+ tokens a word, [\d.]+% of the syllables cut, 0 of \d+ other lines changed"
    assert re.search(measured, done.stdout, re.MULTILINE)
    refused = subprocess.run([*command, "--peer", "nowhere"], capture_output=True, text=True, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.endswith("error: nowhere: no such folder\n")


def test_the_main_job_on_ones_own_text(tmp_path, sample):
    (tmp_path / "my text.txt").write_text(sample["hi"], encoding="utf-8")
    done = quickstart("--corpus", "my text.txt", "--vocab-size", "2000", "--out", "tok", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "devanagari" in done.stdout
    assert "tamil" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"), [(["--corpus", "nowhere.txt"], "no such file"), (["--vocab-size", "300"], "too small")]
)
def test_bad_input_ends_in_one_line(tmp_path, arguments, message):
    done = quickstart(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_tour_shows_and_checks_every_feature(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "example_usage.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert re.findall(r"^(\d+)\. ", done.stdout, re.MULTILINE) == [str(number) for number in range(1, 12)]
    assert done.stdout.count(": yes") == 22
    assert ": NO" not in done.stdout
    assert done.stdout.endswith("All checks passed.\n")
    assert list(tmp_path.iterdir()) == []


def test_the_sweep_shows_what_whole_syllables_cost(tmp_path, sample):
    pytest.importorskip("matplotlib")
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8")
    (tmp_path / "held out.txt").write_text(sample["si"][-5000:], encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "sweep_cut_cost.py"), "si.txt", "--eval", "held out.txt"]
    options = ["--vocab-size", "1000", "--script", "sinhala", "--costs", "0", "2", "50"]
    done = subprocess.run(command + options, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "sweep" / "sweep.json").read_text(encoding="utf-8"))
    assert [result["cut_cost"] for result in results] == [None, 0, 2, 50]
    plain, cheap, usual, dear = (next(iter(result["cut_syllable_share"].values())) for result in results)
    assert plain > cheap > usual >= dear
    assert re.search(r"^plain BPE +[\d,]+ +\+0\.00%", done.stdout, re.MULTILINE)
    assert (tmp_path / "sweep" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    done = subprocess.run([*command, "--weight", "x"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: --weight 'x': write NAME-OR-GLOB=NUMBER\n")
