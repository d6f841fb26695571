import re

import pytest
from support.command import TOOLS, process, script
from support.paths import ROOT

TESTS = ROOT / "scripts" / "test.sh"


def report(*cases):
    return f"<testsuites><testsuite>{''.join(f'<testcase>{case}</testcase>' for case in cases)}</testsuite></testsuites>"


@pytest.fixture
def ran(tmp_path):
    (tmp_path / "parts").write_text("lint 0 12\nengines 1 330\narm 77 1\n", encoding="utf-8")
    skipped = '<skipped message="no data"/>'
    (tmp_path / "engines.one.xml").write_text(report("", "<failure/>", skipped, skipped), encoding="utf-8")
    (tmp_path / "engines.two.xml").write_text(report("", "", "<error/>"), encoding="utf-8")
    (tmp_path / "arm.skipped").write_text("no emulator: apt-get install qemu-user\n", encoding="utf-8")
    return tmp_path


def test_the_table_counts_the_tests_of_each_part_and_names_reasons_to_skip(ran):
    table = script(TOOLS / "report.py", ran, code=1).stdout.split("\n", 2)[2].splitlines()
    assert [line.split() for line in table[:4]] == [
        ["lint", "0.2", "0", "0", "0", "passed"],
        ["engines", "5.5", "3", "2", "2", "FAILED"],
        ["arm", "0.0", "0", "0", "0", "skipped"],
        ["all", "5.7"],
    ]
    assert table[4:] == ["engines: 2 skipped: no data", "arm: 1 skipped: no emulator: apt-get install qemu-user"]


def test_a_part_that_cannot_run_here_is_no_failure(ran):
    (ran / "parts").write_text("lint 0 12\narm 77 1\n", encoding="utf-8")
    script(TOOLS / "report.py", ran)


def test_a_part_is_run_by_its_name():
    names = [line.partition(":")[0] for line in process("bash", TESTS, "--list").stdout.splitlines()]
    assert names[:3] == ["lint", "quick", "tests"]
    refused = process("bash", TESTS, "--only", "tets", code=2)
    assert refused.stderr == f"error: --only tets: the parts are {' '.join(name for name in names if name != 'quick')}\n"
    assert "--only systems" in process("bash", TESTS, "--help").stdout


def test_the_workflow_runs_all_parts():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    parts = re.search(r"^parts=\((.*)\)$", TESTS.read_text(encoding="utf-8"), re.MULTILINE)[1].split()
    assert re.search(r"part: \[(.*)\]", workflow)[1].split(", ") == parts
