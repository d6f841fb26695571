import lzma
import re
import shlex
from functools import cache

import pytest
from support.command import hf_sgpe
from support.commands import COMMANDS

from hf_sgpe.splitting.scripts.script_registry import SCRIPTS


@cache
def help_of(names, width=80):
    return hf_sgpe(*names, "--help", COLUMNS=str(width)).stdout


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_options_are_whole_and_nothing_is_cut(names, width):
    shown = help_of(names, width)
    listed = {name for line in shown.splitlines() for name in re.findall(r"^  (-.*?)(?:  |$)", line)}
    listed = {name for each in listed for name in re.findall(r"--?[a-z][a-z-]*", each)}
    for option in COMMANDS[names].params:
        if option.param_type_name == "option" and not option.hidden:
            assert listed.issuperset((*option.opts, *option.secondary_opts))
    assert not re.search(r"…|(?<!\])\.\.\.$|<(?!s>)[a-z[]", shown.partition("\n\n")[2], re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= width
    assert not re.search(r"\w-$", shown, re.MULTILINE)  # no line ends inside a word with a hyphen


def test_the_values_of_options_have_one_name():
    shown = help_of(("train",))
    assert "  --vocab-size NUMBER " in shown
    assert "  --script TEXT " in shown


def test_info_lists_all_scripts():
    shown = hf_sgpe("info").stdout
    assert all(f'"{name}"' in shown for name in SCRIPTS)


def example_of(command):
    return re.search(r"Examples?: (.+)", " ".join(help_of((command,), 300).split()))[1]


@pytest.mark.parametrize("command", [names[0] for names in COMMANDS if names and names[0] != "counts"])
def test_an_example_names_real_options(command):
    for option in re.findall(r"(?<= )--?[a-z][a-z-]*", example_of(command)):
        assert option in help_of((command,), 300).split("Example")[0]


@pytest.mark.parametrize("command", ["train", "encode", "decode", "info", "evaluate", "tokenize"])
def test_an_example_runs(command, workplace, sample):
    (workplace / "corpora").mkdir()
    for name, text in {"si.txt": sample["si"], "en.jsonl": '{"text": "low lower"}', "si.jsonl": '{"text": "ක"}'}.items():
        (workplace / "corpora" / name).write_text(text, encoding="utf-8")
        (workplace / "corpora" / f"{name}.xz").write_bytes(lzma.compress(text.encode()))
    for name in ("llama3-hf", "my-tokenizer"):
        if command != "train":
            (workplace / name).symlink_to("tok")
    said = ""
    for part in map(shlex.split, example_of(command).split(" | ")):
        said = f"{part[1]}\n" if part[0] == "echo" else hf_sgpe(*part[1:], stdin=said, cwd=workplace).stdout
    assert said
