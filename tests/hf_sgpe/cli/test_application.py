import io
import json
import sys

import pytest
from support.command import hf_sgpe
from typer.main import get_command

from hf_sgpe.cli import app
from hf_sgpe.terminal import command


def test_every_command_can_be_quiet_and_speaks_json():
    commands = dict(get_command(app).commands)
    commands |= {f"counts {name}": command for name, command in commands.pop("counts").commands.items()}
    for name, one in commands.items():
        spelled = {spelling for option in one.params for spelling in option.opts}
        assert {"--quiet", "-q", "--json"} <= spelled, name


def test_quiet_leaves_results_and_errors_alone(workplace):
    train = ("train", "good.txt", "--vocab-size", 9999)  # more than there is, which is worth a warning
    done = hf_sgpe(*train, "--out", "out", "-q", cwd=workplace)
    assert (done.stdout, done.stderr) == ("", "")
    done = hf_sgpe(*train, "--out", "again", "--quiet", "--json", cwd=workplace)
    assert json.loads(done.stdout)["out"] == "again"
    assert hf_sgpe("encode", "out", "ක", "-q", cwd=workplace).stdout
    assert hf_sgpe("train", "nowhere.txt", "--out", "x", "-q", code=2).stderr.startswith("error: nowhere.txt")


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ("encode tok ක හ", "encode -t tok ක හ"),
        ("encode tok ක --json", "encode ක --tokenizer tok --format json"),
        ("encode tok ක", "encode ක --tokenizer tok --format=ids"),
        ("decode tok 97 98", "decode -t tok 97 98"),
        ("evaluate tok good.txt", "evaluate -t tok good.txt --format table"),
        ("evaluate tok good.txt --json", "evaluate -t tok good.txt --format json"),
        ("evaluate tok good.txt --baseline gpt2", "evaluate -t tok -t gpt2 good.txt"),
        ("info tok --json", "info tok --format json"),
        pytest.param("engines --json", "engines --format json", marks=pytest.mark.slow),
    ],
)
def test_spellings_of_earlier_versions_are_understood(workplace, now, before):
    (workplace / "gpt2").symlink_to("tok")
    assert hf_sgpe(*now.split(), cwd=workplace).stdout == hf_sgpe(*before.split(), cwd=workplace).stdout


def test_forms_other_than_json_are_refused(workplace):
    done = hf_sgpe("info", "tok", "--format", "xml", cwd=workplace, code=2)
    assert done.stderr.count("\n") == 1
    assert "use --json for JSON" in done.stderr
    assert hf_sgpe("encode", "tok", "--", "--format", "json", cwd=workplace).stdout.count("\n") == 2  # these are texts


def test_a_command_that_does_not_exist(refuses):
    refuses("nonsense", "No such command 'nonsense': see --help")
    refuses("trainn", r"No such command 'trainn'\. Did you mean [^?]*'train'[^?]*\? See --help$")


def test_lines_end_alike_on_every_system(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252", newline="\r\n"))  # as on Windows
    command.open_standard_streams()
    print("ශ්‍රී")
    sys.stdout.flush()
    assert written.getvalue() == "ශ්‍රී\n".encode()
