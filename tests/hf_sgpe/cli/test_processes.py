import contextlib
import fcntl
import json
import lzma
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from support import hub
from support.command import COMMAND, hf_sgpe, process
from support.commands import COMMANDS

from trainers.token_files.token_shards import _PROGRESS

TOOL = shlex.join(COMMAND)
TRAIN = "train good.txt --out out --overwrite --vocab-size 400"


def shell(line, cwd):
    return subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], cwd=cwd, capture_output=True, text=True)


RUNS = {
    "train": "good.txt --out out --vocab-size 400",
    "train-sgpe": "good.txt --out out --vocab-size 300 --prune-freq 2",
    "extend": "tok my.txt --script myanmar --new-tokens 30 --out out",
    "trim": "tok --drop-script sinhala --out out",
    "compare-ids": "tok tok good.txt",
    "transplant": "tok --tokenizer tok --out out",
    "adapt": "tok good.txt --out out",
    "finetune": "good.txt --model tok --out out",
    "finetune-seq2seq": "good.txt --model tok --out out",
    "count": "good.txt --out out",
    "convert-zawgyi": "good.txt --out out.txt",
    "tokenize": "good.txt --tokenizer tok --out out",
    "export": "tok --format tiktoken --out out",
    "engines": "",
    "chat": "tok -p x",
    "serve": "tok",
    "encode": "tok ක",
    "decode": "tok 97",
    "info": "tok",
    "check": "tok good.txt",
    "evaluate": "tok good.txt",
    "card": "tok --out out",
    "playground": "tok --out out",
    "push": "tok me/tok --dry-run",
    "counts add": "kept --out out",
    "counts info": "kept",
}
# Commands that need a model or the Hub.
FAILS = ("transplant", "adapt", "finetune", "finetune-seq2seq", "chat", "serve", "push")


def test_each_command_is_run():
    assert set(RUNS) == {" ".join(names) for names, command in COMMANDS.items() if not hasattr(command, "commands")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("train", "encode") else pytest.mark.slow) for name in RUNS]
)
def test_a_command_does_the_same_in_a_process(workplace, name):
    (workplace / "my.txt").write_text("မြန်မာစာ ကျောင်း\n" * 20, encoding="utf-8", newline="\n")
    arguments = [*name.split(), *RUNS[name].split()]
    done = process(*COMMAND, *arguments, cwd=workplace, code=2 * (name in FAILS))
    for name in ("out", "out.txt"):
        if (workplace / name).exists():
            (workplace / name).rename(workplace / f"first-{name}")
    here = hf_sgpe(*arguments, cwd=workplace, code=done.returncode)
    measured = re.compile(r"[\d.]+ MB/s")
    assert [measured.sub("", one) for one in (done.stdout, done.stderr)] == [
        measured.sub("", one) for one in (here.stdout, here.stderr)
    ]
    assert done.stdout if done.returncode == 0 else "error: " in done.stderr


def test_the_command_in_the_path_is_the_module():
    assert process(Path(sys.executable).with_name("hf-sgpe"), "--version").stdout == hf_sgpe("--version").stdout


def test_completion_knows_commands_and_options():
    tool = [sys.executable, "-c", "import sys; sys.argv[0] = 'hf-sgpe'; from hf_sgpe.cli import main; main()"]
    done = process(*tool, code=None, _HF_SGPE_COMPLETE="complete_bash", COMP_WORDS="hf-sgpe enc", COMP_CWORD="1")
    assert done.stdout.split() == ["encode"]


def slow_but(kept, values):
    """All values as parameters, of which those that are not kept run with the slow tests."""
    return [pytest.param(*each, marks=() if each in kept else pytest.mark.slow) for each in values]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("closed", "arguments"),
    slow_but(
        {("2>&-", "info nowhere"), (">&-", "info tok"), ("<&-", "train --out"), ("<&- >&- 2>&-", TRAIN)},
        [
            (closed, arguments)
            for closed in ("2>&-", ">&-", "<&-", "<&- >&- 2>&-")
            for arguments in (TRAIN, "info tok", "info nowhere", "train --out")
        ],
    ),
)
def test_closed_streams_change_nothing(workplace, closed, arguments):
    open_ = hf_sgpe(*arguments.split(), cwd=workplace, code=None)
    shut = shell(f"exec {TOOL} {arguments} {closed}", workplace)
    assert shut.returncode == open_.returncode
    assert shut.stdout == ("" if ">&-" in closed.replace("2>&-", "") else open_.stdout)
    assert shut.stderr == ("" if "2>&-" in closed else open_.stderr)
    assert (workplace / "out" / "tokenizer.json").exists() == arguments.startswith("train good")


def test_a_full_disk_is_one_line(workplace):
    done = shell(f"{TOOL} info tok > /dev/full", workplace)
    assert (done.returncode, done.stderr) == (2, "error: writing failed: No space left on device\n")


def test_a_reader_that_has_had_enough_is_no_error(workplace):
    done = shell(f"yes 'ශ්‍රී ලංකාව' | head -n 20000 | {TOOL} encode -t tok | head -n 1", workplace)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        "info tok",
        "--help",
        "counts info kept",
        pytest.param("info", marks=pytest.mark.slow),
        pytest.param("engines", marks=pytest.mark.slow),
        pytest.param("info tok --json", marks=pytest.mark.slow),
    ],
)
def test_a_reader_of_one_line_is_no_error_either(workplace, arguments):
    done = shell(f"{TOOL} {arguments} | true", workplace)  # the reader is gone before anything is written
    assert (done.returncode, done.stderr) == (0, "")


def without_utf8(encoding):
    """Variables of a system whose files and standard streams are not UTF-8, unless the program says so."""
    return {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": encoding}


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_output_is_utf8_whatever_the_locale(saved, encoding):
    command = [*COMMAND, "encode", "-t", str(saved), "--json"]
    env = {**os.environ, **without_utf8(encoding)}
    done = subprocess.run(command, input="ශ්‍රී\n".encode(), capture_output=True, env=env)
    assert "ශ්‍රී" in done.stdout.decode()


@pytest.mark.parametrize("arguments", [TRAIN, pytest.param("card tok --out out", marks=pytest.mark.slow)])
def test_files_are_the_same_whatever_the_locale(workplace, arguments):
    written = []
    for env in ({}, without_utf8("cp1252")):
        process(*COMMAND, *arguments.split(), cwd=workplace, **env)
        written.append({str(file): file.read_bytes() for file in (workplace / "out").rglob("*") if file.is_file()})
        shutil.rmtree(workplace / "out")
    assert written[0] == written[1]
    assert not all(content.isascii() for content in written[0].values())


@pytest.mark.parametrize(
    ("arguments", "bars"), [(TRAIN, [b"Reading", b"Merging"]), ("tokenize good.txt -t tok -o out", [b"Reading"])]
)
def test_progress_is_shown_on_a_terminal(workplace, arguments, bars):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    done = subprocess.run([*COMMAND, *arguments.split()], cwd=workplace, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    assert done.returncode == 0
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(ours, 1000):
            shown += part
    os.close(ours)
    assert all(bar in shown for bar in bars)


@pytest.mark.slow
def test_a_repository_on_the_hub_is_a_tokenizer_too(saved, tmp_path):
    """Variables of the Hub's client are read when it is imported."""
    with hub.running() as served:
        served.add("me/tok", hub.contents(saved))
        env = {"HF_ENDPOINT": served.address, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "0"}
        env |= {"HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        loaded = process(*COMMAND, "encode", "-t", "me/tok", "ශ්‍රී ලංකාව", **env).stdout
    assert loaded == hf_sgpe("encode", "-t", saved, "ශ්‍රී ලංකාව").stdout
    env |= {"HF_HUB_OFFLINE": "1"}  # what was loaded once is there without the Hub
    assert process(*COMMAND, "encode", "-t", "me/tok", "ශ්‍රී ලංකාව", **env).stdout == loaded


CTRL_C, ENDED = (signal.SIGINT, 130), (signal.SIGTERM, 143)


@contextlib.contextmanager
def interrupted(command, cwd, end, code):
    """Start a command, interrupt it after the block as a terminal or as another process does, and see how it ends."""
    running = subprocess.Popen(
        command,
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that run in the background may themselves ignore Ctrl-C, and would pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    yield running
    os.killpg(running.pid, end) if end is signal.SIGINT else running.send_signal(end)
    _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (code, "interrupted\n" if end is signal.SIGINT else "")


def wait_for(there, running):
    while not there():
        assert running.poll() is None
        time.sleep(0.05)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("end", "code"), [CTRL_C, ENDED])
def test_an_interrupted_run_leaves_nothing(tmp_path, sample, end, code):
    # Long enough for any kernel, a gigabyte: many copies of one compressed stream are a valid file.
    text = "".join(sample.values()).encode() * 20
    (tmp_path / "long.txt.xz").write_bytes(lzma.compress(text, preset=0) * 300)
    command = [*COMMAND, "train", "long.txt.xz", "--out", "new/out", "--workers", "2"]
    with interrupted(command, tmp_path, end, code) as running:
        wait_for((tmp_path / "new").exists, running)
        time.sleep(0.3)
    assert [file.name for file in tmp_path.iterdir()] == ["long.txt.xz"]


@pytest.mark.slow
@pytest.mark.parametrize(("end", "code", "workers"), [(*end, workers) for end in (CTRL_C, ENDED) for workers in (1, 2)])
def test_interrupted_tokenizing_keeps_what_is_complete_and_goes_on(workplace, end, code, workers):
    text = (workplace / "si.txt").read_text(encoding="utf-8") * 10
    for number in range(2):
        (workplace / f"{number}.txt").write_text(text, encoding="utf-8")
    # Two parts, and a first run that hurries until there is something to go on behind, and then takes its time.
    program = (
        "import pathlib, time; from hf_sgpe.cli import main; from trainers.token_files import token_shards\n"
        "token_shards._PART_BYTES = 1 << 10; token_shards._BATCH_CHARACTERS = 1 << 14\n"
    )
    slowly = (
        "encode = token_shards.TokenizingJob._encode\n"
        "def slow(job, batch):\n"
        "    time.sleep(0.5 if list(pathlib.Path('out', token_shards._PROGRESS).glob('*.json')) else 0.05)\n"
        "    return encode(job, batch)\n"
        "token_shards.TokenizingJob._encode = slow\n"
    )
    options = ["tokenize", "0.txt", "1.txt", "-t", "tok", "-o", "out", "--lines", "--shard-tokens", "20000"]
    command = [sys.executable, "-c", program + slowly + "main()", *options, "--workers", str(workers)]
    with interrupted(command, workplace, end, code) as running:
        # A shard counts once it is noted, which is a moment after its file is there.
        wait_for(lambda: list((workplace / "out" / _PROGRESS).glob("*.json")), running)
    assert not [file for file in (workplace / "out").iterdir() if file.name.endswith(".hf_sgpe")]
    done = hf_sgpe(*options, cwd=workplace, code=2)
    assert re.fullmatch("error: out has tokens made with part_bytes 1024, but .*\n", done.stderr)
    facts = json.loads(process(sys.executable, "-c", program + "main()", *options, "--json", cwd=workplace).stdout)
    assert 0 < facts["new_text_bytes"] < facts["text_bytes"]
