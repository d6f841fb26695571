"""The help of every command at usual widths of a terminal: options whole, and nothing that one does not type."""

import re

import pytest
import typer

from hf_sgpe.cli import app
from hf_sgpe.splitting.scripts import SCRIPTS


def commands(command, names=()):
    yield names, command
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*names, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.fixture
def help_of(monkeypatch, capsys):
    def shown(names, width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        app([*names, "--help"], standalone_mode=False)
        return capsys.readouterr().out

    return shown


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_options_are_whole_and_nothing_is_cut(names, width, help_of):
    shown = help_of(names, width)
    listed = {name for line in shown.splitlines() for name in re.findall(r"^  (-.*?)(?:  |$)", line)}
    listed = {name for each in listed for name in re.findall(r"--?[a-z][a-z-]*", each)}
    for option in COMMANDS[names].params:
        if option.param_type_name == "option" and not option.hidden:
            assert listed.issuperset((*option.opts, *option.secondary_opts))
    assert not re.search(r"…|(?<!\])\.\.\.$|<[a-z[]", shown.partition("\n\n")[2], re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_no_line_ends_inside_a_word_with_a_hyphen(names, width, help_of):
    assert not re.search(r"\w-$", help_of(names, width), re.MULTILINE)


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_no_option_takes_more_than_twelve_lines(names, help_of):
    for option in re.split(r"\n  (?=-)", help_of(names).partition("Options:")[2].partition("\n\n")[0]):
        assert option.count("\n") < 12, option


def test_what_the_options_take_has_one_name(help_of):
    shown = help_of(["train"])
    assert "  --vocab-size NUMBER " in shown
    assert "  --script TEXT " in shown
    if "[CORPUS]" not in shown:  # as Typer before 0.26 writes it, without its help
        assert "  corpus...  Files" in shown


def test_all_scripts_are_listed_by_info(help_of, capsys):
    assert "hf-sgpe info lists" in " ".join(help_of(["train"]).split())
    app(["info"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert all(f'"{name}"' in shown for name in SCRIPTS)


def test_a_cut_cost_that_differs_has_a_reason(help_of):
    for command, reason in {"train": "extend has its own scale", "extend": "Lower than that of train"}.items():
        assert reason in " ".join(help_of([command]).split())
