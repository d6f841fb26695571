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
    ("argument", "option"),
    [
        ("encode tok ක හ", "encode -t tok ක හ"),
        ("encode tok ක", "encode ක --tokenizer tok"),
        ("decode tok 97 98", "decode -t tok 97 98"),
        ("evaluate tok good.txt", "evaluate -t tok good.txt"),
        ("evaluate tok good.txt --baseline gpt2", "evaluate -t tok -t gpt2 good.txt"),
    ],
)
def test_the_tokenizer_may_be_an_option(workplace, argument, option):
    (workplace / "gpt2").symlink_to("tok")
    assert hf_sgpe(*argument.split(), cwd=workplace).stdout == hf_sgpe(*option.split(), cwd=workplace).stdout


def test_a_command_that_does_not_exist(refuses):
    refuses("nonsense", "No such command 'nonsense': see --help")
    refuses("trainn", r"No such command 'trainn'\. Did you mean [^?]*'train'[^?]*\? See --help$")


def test_lines_end_alike_on_every_system(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252", newline="\r\n"))  # as on Windows
    command._open_standard_streams()
    print("ශ්‍රී")
    sys.stdout.flush()
    assert written.getvalue() == "ශ්‍රී\n".encode()
