import re

import pytest
from support.command import benchmark


@pytest.fixture
def options(tmp_path, sample, saved):
    for language in ("si", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8")
    return [saved, "si.txt", "--script", "si", "--new-tokens", "200", "--eval", "si.txt", "--other", "en.txt"]


@pytest.mark.slow
def test_extending_is_measured(options, tmp_path):
    done = benchmark("continued_bpe.py", *options, cwd=tmp_path)
    measured = r"^hf_sgpe: [\d.]+ tokens per word, [\d.]+% of the syllables cut, 0 of \d+ other lines changed"
    assert re.search(measured, done.stdout, re.MULTILINE)


def test_a_peer_that_is_not_there_is_refused(options, tmp_path):
    done = benchmark("continued_bpe.py", *options, "--peer", "nowhere", cwd=tmp_path, code=2)
    assert done.stderr.endswith("error: nowhere: no such folder\n")
