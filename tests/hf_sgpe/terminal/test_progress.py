"""Progress in logs and on terminals."""

import re
import time

import pytest

from hf_sgpe.terminal import progress
from hf_sgpe.terminal.progress import progress_of


def passes(**how):
    done = []
    for number in progress_of(range(2, 6), "Reading", unit=" parts", total=6, done=2, **how):
        time.sleep(0.01)
        done.append(number)
    return done


def test_a_log_gets_lines_with_the_time_left(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS", 0.001)
    assert passes() == [2, 3, 4, 5]
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 4
    for line in lines:
        assert re.fullmatch(r"Reading: [3-6] of 6 parts, 00:00 passed, about 00:00 left", line)


def test_short_work_adds_nothing_to_a_log(capsys):
    assert passes() == [2, 3, 4, 5]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("way", ["hidden", "quiet"])
def test_progress_can_be_hidden(capsys, monkeypatch, way):
    monkeypatch.setattr(progress, "_SECONDS", 0.001)
    monkeypatch.setattr(progress, "_quiet", way == "quiet")
    assert passes(hidden=way == "hidden") == [2, 3, 4, 5]
    assert capsys.readouterr().err == ""
