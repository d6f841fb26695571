"""``hf-sgpe tokenize``: what it says, and what it refuses."""

import contextlib
import fcntl
import json
import lzma
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer
from trainers.token_files import TOKEN_FORMATS
from trainers.token_shards import _PROGRESS


@pytest.fixture
def workplace(tmp_path, saved, sample):
    (tmp_path / "tok").symlink_to(saved)
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8", newline="\n")
    lines = "".join(json.dumps({"text": line}) + "\n" for line in sample["en"].splitlines())
    (tmp_path / "en.jsonl").write_text(lines, encoding="utf-8", newline="\n")
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.txt").touch()
    return tmp_path


def test_a_corpus_becomes_a_folder_of_tokens(workplace, sample):
    tokenizer = BPETokenizer.from_pretrained(workplace / "tok")
    done = hf_sgpe("tokenize", "en.jsonl", "si.txt", "--tokenizer", "tok", "--out", "new/tokens", cwd=workplace)
    said = (
        r"new/tokens: 2\d\d documents, [\d,]+ tokens as uint16 in 1 shard \(nanogpt\), \d\.\d\d bytes a token, [\d.]+ MB/s\n"
    )
    assert re.fullmatch(said.replace(r"2\d\d", r"[\d,]+"), done.stdout)
    assert done.stderr == ""
    assert sorted(file.name for file in (workplace / "new" / "tokens").iterdir()) == ["00000-00000.bin", "manifest.json"]
    end = [tokenizer.eos_token_id]
    expected = [id for line in sample["en"].splitlines() if line for id in tokenizer.encode(line) + end]
    expected += tokenizer.encode(sample["si"]) + end
    assert np.fromfile(workplace / "new" / "tokens" / "00000-00000.bin", "<u2").tolist() == expected

    again = hf_sgpe("tokenize", "en.jsonl", "si.txt", "-t", "tok", "-o", "new/tokens", "--json", cwd=workplace)
    facts = json.loads(again.stdout)
    assert (facts["out"], facts["tokens"], facts["new_text_bytes"]) == ("new/tokens", len(expected), 0)
    last = hf_sgpe("tokenize", "en.jsonl", "si.txt", "-t", "tok", "-o", "new/tokens", cwd=workplace)
    assert last.stdout.endswith(" bytes a token, all was there already\n")
    assert hf_sgpe("tokenize", "si.txt", "-t", "tok", "-o", "quiet", "--quiet", cwd=workplace).stdout == ""


@pytest.mark.parametrize("form", TOKEN_FORMATS)
def test_every_format_is_written_and_named_by_the_help(workplace, form):
    hf_sgpe("tokenize", "si.txt", "-t", "tok", "-o", "out", "--format", form, "--lines", cwd=workplace)
    endings = {file.name.removeprefix("00000-00000") for file in (workplace / "out").iterdir()} - {"manifest.json"}
    assert endings == set(TOKEN_FORMATS[form].endings)
    from hf_sgpe.cli import tokenizing

    assert f"{form}: {TOKEN_FORMATS[form].holds}" in tokenizing._FORMATS


def test_the_example_of_the_help_runs(workplace, sample):
    (workplace / "corpora").mkdir()
    (workplace / "corpora" / "si.jsonl.xz").write_bytes(lzma.compress((workplace / "en.jsonl").read_bytes()))
    (workplace / "my-tokenizer").symlink_to("tok")
    command = [sys.executable, "-m", "hf_sgpe", "tokenize", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "300"}).stdout
    example = re.search(r"Example: (.+)", " ".join(shown.split()))[1]
    tool = f"{shlex.quote(sys.executable)} -m hf_sgpe"
    done = subprocess.run(example.replace("hf-sgpe", tool), shell=True, cwd=workplace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tokens: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--out out", "nothing to tokenize: give text"),
        ("nowhere.txt --out out", r"nowhere\.txt: no such file or folder"),
        ("latin1.txt --out new/out", r"latin1\.txt: not UTF-8 at byte offset 3"),
        ("empty.txt --out out", r"empty\.txt: no text to tokenize"),
        ("en.jsonl --out out --text-field body", r"en\.jsonl, line 1: no field 'body'"),
        ("si.txt --out si.txt", r"si\.txt is a file: give a folder"),
        ("si.txt --out si.txt/x", r"si\.txt"),
        ("si.txt --out tok", "tok: has other files: give an empty or a new folder"),
        ("si.txt --out ''", "the folder to write to must have a name"),
        ("si.txt --out out --format x", "unknown format 'x': known are nanogpt, megatron, datatrove, parquet"),
        ("si.txt --out out --end-token x", "no special token 'x' to end documents"),
        ("si.txt --out out --end-token x --no-end-token", "--end-token and --no-end-token: give one of them"),
        ("si.txt --out out --no-end-token", "the format nanogpt does not keep where documents end"),
        ("si.txt --out out --shard-tokens 0", "--shard-tokens must be at least 1, not 0"),
        ("si.txt --out out --workers 0", "workers must be a number from 1 to 1024, not 0"),
        ("si.txt --out /proc/nothing/out", "/proc/nothing"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(workplace, arguments, message):
    before = sorted(workplace.rglob("*"))
    done = hf_sgpe("tokenize", *shlex.split(arguments), "--tokenizer", "tok", cwd=workplace, code=2)
    assert re.match(f"error: .*{message}", done.stderr)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert sorted(workplace.rglob("*")) == before


@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_it_keeps_what_is_complete_and_goes_on(workplace, end, code, workers):
    text = (workplace / "si.txt").read_text(encoding="utf-8") * 10
    for number in range(2):
        (workplace / f"{number}.txt").write_text(text, encoding="utf-8")
    # Two parts, and a first run that hurries until there is something to go on behind, and then takes its time.
    program = (
        "import pathlib, time; from hf_sgpe.cli import main; from trainers import token_shards\n"
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
    running = subprocess.Popen(
        [sys.executable, "-c", program + slowly + "main()", *options, "--workers", str(workers)],
        cwd=workplace,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # A shard counts once it is noted, which is a moment after its file is there.
    while not list((workplace / "out" / _PROGRESS).glob("*.json")):
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, end) if end is signal.SIGINT else running.send_signal(end)
    _, said = running.communicate(timeout=60)
    assert (running.returncode, said) in [(code, "interrupted\n"), (code, "")]
    assert not [file for file in (workplace / "out").iterdir() if file.name.endswith(".hf_sgpe")]
    done = hf_sgpe(*options, cwd=workplace, code=2)
    assert re.fullmatch("error: out: has tokens made with part_bytes 1024, but .*\n", done.stderr)
    again = subprocess.run(
        [sys.executable, "-c", program + "main()", *options, "--json"], cwd=workplace, capture_output=True, text=True
    )
    assert again.returncode == 0, again.stderr
    facts = json.loads(again.stdout)
    assert 0 < facts["new_text_bytes"] < facts["text_bytes"]


def test_progress_is_shown_on_a_terminal_only(workplace):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "hf_sgpe", "tokenize", "si.txt", "-t", "tok", "-o", "out"]
    done = subprocess.run(command, cwd=workplace, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    assert done.returncode == 0
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(ours, 1000):
            shown += part
    os.close(ours)
    assert b"Reading" in shown
