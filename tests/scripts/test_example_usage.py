import re

from support.command import script


def test_the_tour_shows_and_checks_every_feature(tmp_path):
    done = script("example_usage.py", cwd=tmp_path)
    assert done.stderr == ""
    assert re.findall(r"^(\d+)\. ", done.stdout, re.MULTILINE) == [str(number) for number in range(1, 12)]
    assert done.stdout.count(": yes") == 22
    assert ": NO" not in done.stdout
    assert done.stdout.endswith("All checks passed.\n")
    assert list(tmp_path.iterdir()) == []
