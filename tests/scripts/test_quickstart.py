import re
import shlex
from pathlib import Path

import pytest
from support.command import script
from support.next_steps import next_steps, typed


def test_the_main_job_on_the_sample(tmp_path):
    done = script("quickstart.py", cwd=tmp_path)
    assert done.stderr == ""
    assert "with the same ids on 120 held-out lines" in done.stdout
    rows = re.findall(r"^(\w+) +(syllable-safe|plain BPE) .* ([\d.]+)% +[\d.]+%", done.stdout, re.MULTILINE)
    shares = {(writing, name): float(share) for writing, name, share in rows}
    for writing in ("sinhala", "devanagari", "tamil"):
        assert shares[writing, "syllable-safe"] < shares[writing, "plain BPE"] / 3
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


@pytest.mark.slow
def test_the_main_job_on_ones_own_text(tmp_path, sample):
    (tmp_path / "my text.txt").write_text(sample["hi"], encoding="utf-8")
    done = script("quickstart.py", "--corpus", "my text.txt", "--vocab-size", "2000", "--out", "tok", cwd=tmp_path)
    assert "devanagari" in done.stdout
    assert "tamil" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"), [(["--corpus", "nowhere.txt"], "no such file"), (["--vocab-size", "300"], "too small")]
)
def test_bad_input_ends_in_one_line(tmp_path, arguments, message):
    done = script("quickstart.py", *arguments, cwd=tmp_path, code=2)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
