import contextlib
import fcntl
import gzip
import io
import json
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
from importlib.metadata import version

import pytest
from support import hub
from support.command import COMMAND, hf_sgpe, process
from support.data import DATA, needs_data

from hf_sgpe import BPETokenizer, TrainingConfig, WordCounts


def test_train_encode_decode_info_evaluate(tmp_path, sample):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name, text in sample.items():
        (corpus / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    out = tmp_path / "out"
    scripts = ["--script", "sinhala", "--script", "devanagari", "--script", "tamil"]
    done = hf_sgpe("train", corpus, "--out", out, "--vocab-size", 5000, *scripts)
    assert re.match(
        r".*out: 5,000 tokens, learned from [\d,]+ words \([\d,]+ distinct\); syllables of .*tamil stay whole \(.+\)\n",
        done.stdout,
    )
    assert done.stderr == ""
    assert sorted(file.name for file in tmp_path.iterdir()) == ["corpus", "out"]

    text = "ශ්‍රී ලංකාව\n\nhello <|endoftext|>\n"
    ids = hf_sgpe("encode", out, stdin=text).stdout
    tokenizer = BPETokenizer.from_pretrained(out)
    assert ids == "".join(" ".join(map(str, tokenizer.encode(line))) + "\n" for line in text.splitlines())
    assert hf_sgpe("decode", out, stdin=ids).stdout == text
    lines = hf_sgpe("encode", out, "--json", "--special", "all", stdin=text).stdout
    assert json.loads(lines.splitlines()[2])["ids"][-1] == tokenizer.special_tokens["<|endoftext|>"]
    assert "".join(json.loads(lines.splitlines()[0])["tokens"]) == "ශ්‍රී ලංකාව"
    assert hf_sgpe("decode", out, stdin=lines).stdout == text
    assert hf_sgpe("decode", out, "--skip-special-tokens", stdin=lines).stdout == text.replace("<|endoftext|>", "")
    assert hf_sgpe("decode", out, *ids.split()[:2]).stdout == tokenizer.decode(map(int, ids.split()[:2])) + "\n"
    assert hf_sgpe("encode", out, "ක", "හ").stdout.count("\n") == 2

    info = hf_sgpe("info", out).stdout
    assert re.search(r"^recipe +hybrid$", info, re.MULTILINE)
    assert json.loads(hf_sgpe("info", out, "--json").stdout)["scripts"] == ["sinhala", "devanagari", "tamil"]

    table = hf_sgpe("evaluate", out, corpus / "si.txt", corpus / "en.txt", "--baseline", out / "tokenizer.json").stdout
    assert len(table.splitlines()) == 5
    assert re.search(r"^en\.txt .*out +\d\.\d{3} +\d\.\d{3} +– +– +– +\d\.\d{3}% +1\.000$", table, re.MULTILINE)
    rows = json.loads(hf_sgpe("evaluate", out, corpus, "--json").stdout)
    assert [row["file"] for row in rows] == [str(corpus / f"{name}.txt") for name in ("en", "hi", "si", "ta")]
    assert rows[2]["cut_syllable_share"] < 0.01


def test_spellings_of_earlier_versions_are_understood(saved, tmp_path, sample):
    (tmp_path / "en.txt").write_text(sample["en"], encoding="utf-8")
    for now, before in [
        (("encode", saved, "ක", "හ"), ("encode", "-t", saved, "ක", "හ")),
        (("encode", saved, "ක", "--json"), ("encode", "ක", "--tokenizer", saved, "--format", "json")),
        (("encode", saved, "ක"), ("encode", "ක", "--tokenizer", saved, "--format=ids")),
        (("decode", saved, 97, 98), ("decode", "-t", saved, 97, 98)),
        (("evaluate", saved, tmp_path), ("evaluate", "-t", saved, tmp_path, "--format", "table")),
        (("evaluate", saved, tmp_path, "--json"), ("evaluate", "-t", saved, tmp_path, "--format", "json")),
        (("evaluate", saved, tmp_path, "--baseline", "gpt2"), ("evaluate", "-t", saved, "-t", "gpt2", tmp_path)),
        (("info", saved, "--json"), ("info", saved, "--format", "json")),
        (("engines", "--json"), ("engines", "--format", "json")),
    ]:
        (tmp_path / "gpt2").exists() or (tmp_path / "gpt2").symlink_to(saved)
        assert hf_sgpe(*now, cwd=tmp_path).stdout == hf_sgpe(*before, cwd=tmp_path).stdout
    done = hf_sgpe("info", saved, "--format", "xml", code=None)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "write --json for JSON" in done.stderr
    assert hf_sgpe("encode", saved, "--", "--format", "json").stdout.count("\n") == 2  # these are texts


@pytest.mark.parametrize("script", ["Sinhala,Hindi", "si, hi", "SINH,Deva"])
def test_scripts_by_any_name(workplace, script):
    hf_sgpe("train", "good.txt", "--out", "out", "--vocab-size", 400, "--script", script, cwd=workplace)
    assert json.loads(hf_sgpe("info", "out", "--json", cwd=workplace).stdout)["scripts"] == ["sinhala", "devanagari"]


def test_the_scripts_of_the_text_are_kept_whole_unless_others_are_named(tmp_path, sample):
    (tmp_path / "hi.txt").write_text(sample["hi"] + sample["en"], encoding="utf-8")
    (tmp_path / "en.txt").write_text(sample["en"], encoding="utf-8")
    done = hf_sgpe("train", "hi.txt", "--out", "a", "--vocab-size", 3000, "--recipe", "hybrid", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["scripts"] == ["devanagari"]
    assert done.stderr == ""
    hf_sgpe("count", "hi.txt", "--out", "counts", cwd=tmp_path)
    hf_sgpe("train", "--counts", "counts", "--out", "b", "--vocab-size", 3000, cwd=tmp_path)
    assert (tmp_path / "a" / "tokenizer.json").read_bytes() == (tmp_path / "b" / "tokenizer.json").read_bytes()
    for command in ("train", "count"):
        done = hf_sgpe(command, "en.txt", "--out", "c", cwd=tmp_path, code=None)
        assert done.returncode == 2
        assert re.fullmatch(
            r"error: en\.txt: begins with text in latin, which has nothing to keep whole, .* --recipe bpe\n", done.stderr
        )
    hf_sgpe("train", "en.txt", "--out", "d", "--recipe", "bpe", "--vocab-size", 400, cwd=tmp_path)


def test_every_command_can_be_quiet_and_those_that_say_something_speak_json(workplace):
    from typer.main import get_command

    from hf_sgpe.cli import app

    commands = dict(get_command(app).commands)
    commands |= {f"counts {name}": command for name, command in commands.pop("counts").commands.items()}
    for name, command in commands.items():
        spelled = {spelling for option in command.params for spelling in option.opts}
        assert {"--quiet", "-q", "--json"} <= spelled, name


def test_quiet_leaves_results_and_errors_alone(workplace):
    train = ("train", "good.txt", "--vocab-size", 9999)  # more than there is, which is worth a warning
    done = hf_sgpe(*train, "--out", "out", "-q", cwd=workplace)
    assert (done.stdout, done.stderr) == ("", "")
    done = hf_sgpe(*train, "--out", "again", "--quiet", "--json", cwd=workplace)
    assert json.loads(done.stdout)["out"] == "again"
    assert hf_sgpe("encode", "out", "ක", "-q", cwd=workplace).stdout
    assert hf_sgpe("train", "nowhere.txt", "--out", "x", "-q", code=None).stderr.startswith("error: nowhere.txt")


@pytest.mark.parametrize(
    "arguments", ["train good.txt --out out --overwrite --vocab-size 400", "info tok", "info nowhere", "train --out"]
)
@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing(workplace, arguments, closed):
    command = f"exec {shlex.quote(sys.executable)} -m hf_sgpe {arguments}"
    open_, shut = (
        subprocess.run(["bash", "-c", f"{command} {redirected}"], cwd=workplace, capture_output=True, text=True)
        for redirected in ("", closed)
    )
    assert shut.returncode == open_.returncode
    assert shut.stdout == ("" if ">&-" in closed.replace("2>&-", "") else open_.stdout)
    assert shut.stderr == ("" if "2>&-" in closed else open_.stderr)
    assert (workplace / "out" / "tokenizer.json").exists() == arguments.startswith("train good")


def test_the_folder_that_one_stands_in_can_be_written_to(workplace):
    (workplace / "here").mkdir()
    hf_sgpe("train", "../good.txt", "--out", ".", "--vocab-size", 400, cwd=workplace / "here")
    hf_sgpe("export", "../tok", "--out", ".", "--overwrite", cwd=workplace / "here")
    hf_sgpe("card", ".", cwd=workplace / "here")
    assert {file.name for file in (workplace / "here").iterdir()} >= {"tokenizer.json", "README.md"}


def test_names_that_are_no_utf8_can_be_written(workplace):
    names = [b"o\xff.parquet", b"good\xff.txt"]
    (workplace / os.fsdecode(names[1])).write_bytes((workplace / "good.txt").read_bytes())
    command = [sys.executable, "-m", "hf_sgpe", "count", names[1], "--out", names[0]]
    assert subprocess.run(command, cwd=workplace, capture_output=True).returncode == 0
    assert WordCounts.load(workplace / os.fsdecode(names[0])).total()


def test_a_baseline_takes_no_tokenizers_place(workplace):
    (workplace / "a=b").symlink_to("tok")
    for command in (["evaluate", "tok", "good.txt"], ["encode", "tok", "x", "--html", "page.html"]):
        for baseline in ("tok=damaged", "tok"):
            done = hf_sgpe(*command, "--baseline", baseline, code=None, cwd=workplace)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert "two tokenizers are called tok" in done.stderr
    assert "a=b" in hf_sgpe("evaluate", "tok", "good.txt", "--baseline", "a=b", cwd=workplace).stdout


def test_a_full_disk_is_one_line(saved):
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(sys.executable)} -m hf_sgpe info {saved} > /dev/full"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (2, "error: writing failed: No space left on device\n")


def test_completion_knows_commands_and_options():
    env = {**os.environ, "_HF_SGPE_COMPLETE": "complete_bash", "COMP_WORDS": "hf-sgpe enc", "COMP_CWORD": "1"}
    tool = [sys.executable, "-c", "import sys; sys.argv[0] = 'hf-sgpe'; from hf_sgpe.cli import main; main()"]
    assert subprocess.run(tool, env=env, capture_output=True, text=True).stdout.split() == ["encode"]


def test_lines_end_alike_on_every_system(saved, monkeypatch):
    from hf_sgpe import command

    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252", newline="\r\n"))  # as on Windows
    command.open_standard_streams()
    print("ශ්‍රී")
    sys.stdout.flush()
    assert written.getvalue() == "ශ්‍රී\n".encode()


def test_info_without_a_tokenizer_shows_versions():
    assert "tokenizers" in hf_sgpe("info").stdout
    assert hf_sgpe("--version").stdout == f"hf-sgpe {version('hf-sgpe')}\n"


@pytest.mark.parametrize("command", ["train", "encode", "decode", "info", "evaluate"])
def test_help_has_an_example_that_names_real_options(command, saved, tmp_path, sample):
    shown = " ".join(hf_sgpe(command, "--help", COLUMNS="300").stdout.split())
    example = re.search(r"Example: (.+)", shown).group(1)
    for option in re.findall(r"(?<= )--?[a-z][a-z-]*", example):
        assert option in shown.split("Example:")[0]


def test_examples_of_the_help_run(saved, tmp_path, sample):
    (tmp_path / "corpora").mkdir()
    for name in ("si.txt", "en.txt"):
        (tmp_path / name).write_text(sample[name[:2]], encoding="utf-8")
    import lzma

    (tmp_path / "corpora" / "si.txt.xz").write_bytes(lzma.compress(sample["si"].encode()))
    (tmp_path / "corpora" / "en.jsonl").write_text(json.dumps({"text": sample["en"]}), encoding="utf-8")
    (tmp_path / "llama3-hf").symlink_to(saved)
    tool = f"{shlex.quote(sys.executable)} -m hf_sgpe"
    for command in ("train", "encode", "decode", "info", "evaluate"):
        shown = " ".join(hf_sgpe(command, "--help", COLUMNS="300").stdout.split())
        example = re.search(r"Example: (.+)", shown).group(1).replace("hf-sgpe", tool)
        done = subprocess.run(example, shell=True, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout


# ---------------------------------------------------------------- bad input: one line, exit code 2, nothing left behind


@pytest.fixture
def workplace(tmp_path, saved):
    (tmp_path / "good.txt").write_text("ශ්‍රී ලංකාව " * 50, encoding="utf-8")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9")
    (tmp_path / "bad.jsonl").write_bytes(b'{"text": "x"}\n{"body": "x"}\n')
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes()[:999])
    (tmp_path / "tok").symlink_to(saved)
    (tmp_path / "deep.jsonl").write_text('{"text": "a b", "n": 1' + "1" * 5000 + "}")
    (tmp_path / "aa.txt").write_text("a" * 3000 + "b")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "stale").mkdir()
    (tmp_path / "stale" / "added_tokens.json").write_text("{}")
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.json", "index.html", "pictures"):
        (tmp_path / f"in-the-way-{name}" / name).mkdir(parents=True)
    (tmp_path / "in-the-way-pictures" / "pictures").rmdir()
    (tmp_path / "in-the-way-pictures" / "pictures").touch()
    (tmp_path / "worn").mkdir()
    (tmp_path / "worn" / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes())
    (tmp_path / "worn" / "tokenizer_config.json").write_text('{"sgpe": {"training": 5}}')
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train empty.txt --out out", r"empty\.txt: no words to learn from"),
        ("train latin1.txt --out out", r"latin1\.txt: not UTF-8 at byte offset 3"),
        ("train bad.jsonl --out out", r"bad\.jsonl, line 2: no field 'text'"),
        ("train good.txt --out out --vocab-size 260", r"vocab_size 260 is too small for .* at least \d+"),
        ("train good.txt --out out --recipe x", "--recipe x: known are auto, hybrid, portable, sgpe, bpe"),
        ("train good.txt --out out --script x", "unknown script 'x': give the name that Unicode has for it"),
        ("train good.txt --out out --pattern x", "unknown split pattern 'x': known are gpt2, cl100k"),
        ("train good.txt --out good.txt", r"good\.txt is a file: give a folder"),
        ("train nowhere.txt --out out", r"nowhere\.txt: no such file or folder"),
        ("train good.txt --out /proc/nothing/out", "/proc/nothing"),
        ("train good.txt --out good.txt/sub", r"good\.txt is a file"),
        ("train good.txt --out dangling", "dangling is a broken link"),
        ("train good.txt --out ''", "the folder to write to must have a name"),
        ("train '' --out out", "the name of a corpus must not be empty"),
        # Before anything is read or measured.
        ("train nowhere.jsonl good.txt --out in-the-way-tokenizer.json", r"tokenizer\.json/tokenizer\.json is a folder"),
        ("train good.txt --out in-the-way-tokenizer_config.json", r"tokenizer_config\.json is a folder"),
        ("train-sgpe good.txt --out in-the-way-vocab.json", r"vocab\.json is a folder"),
        ("card tok --eval nowhere.txt --out in-the-way-index.html", r"index\.html is a folder"),
        ("card tok --eval nowhere.txt --out in-the-way-pictures", "pictures is a file"),
        ("train good.txt --out stale", r"stale/added_tokens\.json: is of another tokenizer"),
        ("count --out out", "nothing to count: give text, or a dataset by --dataset"),
        ("count good.txt --out tok", "tok is a folder"),
        ("count good.txt --out good.txt", r"--out good\.txt is part of the corpus"),
        ("count good.txt --out good.txt/x", r"good\.txt is a file"),
        ("count good.txt --out pipe", "pipe is not an ordinary file"),
        ("count latin1.txt --out new/counts", "not UTF-8"),
        ("count good.txt --out out --memory-limit many", "--memory-limit 'many': write a number and a unit"),
        ("count good.txt --out out --memory-limit 1MB", "a memory limit of 1 MB is too small"),
        ("count good.txt --out out --split train", "--split is for a dataset"),
        ("count good.txt --out out --recipe none", "--recipe none: known are hybrid, portable, sgpe, bpe"),
        ("counts info good.txt", r"good\.txt: not a file of word counts"),
        ("counts info nowhere", "nowhere: No such file"),
        ("counts add good.txt --out out", r"good\.txt: not a file of word counts"),
        ("train --out out", "nothing to train on"),
        ("evaluate tok good.txt --baseline =tok", "--baseline '=tok': write TOKENIZER or NAME=TOKENIZER"),
        ("train --out out --counts good.txt", r"good\.txt: not a file of word counts"),
        ("train deep.jsonl --out out", r"deep\.jsonl, line 1: not valid JSON"),
        ("train good.txt --out out --pad-token x", "special token 'x' is written in tokenizer.json like the ordinary"),
        ("train good.txt --out out --model-max-length 0", "model_max_length must be a whole number of at least 1, not 0"),
        ("train good.txt", "Missing option '--out'"),
        ("train good.txt --out out --vocab-size many", "--vocab-size must be a whole number, not 'many': see --help$"),
        ("train aa.txt --out out --pattern (a+)+$ --recipe bpe --vocab-size 300", "takes too long on some text"),
        ("nonsense", "No such command 'nonsense'"),
        ("encode -t '' x", "the tokenizer must have a name"),
        ("train empty.txt --out new/folder/out", r"empty\.txt: no words to learn from"),
        ("train good.txt --out out --special-token Ġt", "special token 'Ġt' is written in tokenizer.json like the ordinary"),
        ("info worn", r"tokenizer_config\.json: its entry 'sgpe' is damaged"),
        ("decode -t tok 99999", "id 99999 at position 0 is not in the vocabulary"),
        ("decode -t tok -- -5", "id -5"),
        ("decode -t tok twelve", "arguments: expected token ids"),
        ("encode -t damaged x", r"damaged/tokenizer\.json: not valid JSON"),
        ("encode -t nowhere x", "nowhere: no such file or folder"),
        ("info damaged", r"damaged/tokenizer\.json: not valid JSON"),
        ("evaluate -t tok empty.txt", r"empty\.txt: holds no text to measure"),
        ("evaluate -t damaged good.txt", "not valid JSON"),
    ],
)
def test_bad_input_ends_in_one_line(workplace, arguments, message):
    before = sorted(workplace.rglob("*"))
    done = hf_sgpe(*shlex.split(arguments), code=None, cwd=workplace)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    # The engine announces its panic on its own.
    lines = [line for line in done.stderr.splitlines(keepends=True) if "panicked" not in line and line[:1] not in " cn"]
    assert re.fullmatch(rf"error: .*{message}.*\n", "".join(lines[-1:])), done.stderr
    assert len(lines) == 1 or "too long" in message
    assert sorted(workplace.rglob("*")) == before


@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_nothing(tmp_path, sample, end, code):
    # Long enough for any kernel: many copies of one compressed stream are a valid file.
    text = "".join(sample.values()).encode() * 20
    (tmp_path / "long.txt.gz").write_bytes(gzip.compress(text, 1) * 1000)
    command = [sys.executable, "-m", "hf_sgpe", "train", "long.txt.gz", "--out", "new/out", "--workers", "2"]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that run in the background may themselves ignore Ctrl-C, and would pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (tmp_path / "new").exists():
        assert running.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    os.killpg(running.pid, end) if end is signal.SIGINT else running.send_signal(end)
    _, said = running.communicate(timeout=60)
    assert running.returncode == code
    assert said in ("interrupted\n", "")
    assert [file.name for file in tmp_path.iterdir()] == ["long.txt.gz"]


def test_text_that_is_not_valid_in_the_locale(saved):
    command = [sys.executable, "-m", "hf_sgpe", "encode", "-t", str(saved), b"caf\xe9"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: text 1 is not valid in this locale's encoding")


def test_counts_kept_before_survive_a_failed_run(workplace):
    hf_sgpe("count", "good.txt", "--out", "counts", cwd=workplace)
    (workplace / "link").symlink_to("counts")
    before, total = (workplace / "counts").read_bytes(), WordCounts.load(workplace / "counts").total()
    done = hf_sgpe("count", "latin1.txt", "--out", "link", "--overwrite", code=None, cwd=workplace)
    assert done.returncode == 2
    assert (workplace / "counts").read_bytes() == before
    hf_sgpe("counts", "add", "counts", "counts", "--out", "link", "--overwrite", cwd=workplace)
    assert (workplace / "link").is_symlink()
    assert WordCounts.load(workplace / "counts").total() == 2 * total


def test_parts_of_special_tokens_and_length_are_options(workplace):
    roles = ["--eos-token", "<|end|>", "--pad-token", "<|pad|>", "--model-max-length", 512]
    hf_sgpe("train", "good.txt", "--out", "a", "--vocab-size", 400, "--chat-template", "chatml", *roles, cwd=workplace)
    tokenizer = BPETokenizer.from_pretrained(workplace / "a")
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<|endoftext|>", "<|end|>", "<|pad|>")
    assert list(tokenizer.special_tokens) == ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|end|>", "<|pad|>"]
    assert tokenizer.model_max_length == 512


def test_counts_can_be_trained_on_later(workplace):
    hf_sgpe("train", "good.txt", "--out", "a", "--vocab-size", 400, cwd=workplace)
    done = hf_sgpe("count", "good.txt", "--out", "counts", cwd=workplace)
    counted = r"counts: [\d,]+ words \([\d,]+ distinct\), SHA-256 [0-9a-f]{64}\nsyllables of sinhala stay whole\n"
    assert re.fullmatch(counted, done.stdout)
    hf_sgpe("train", "--counts", "counts", "--out", "b", "--vocab-size", 400, cwd=workplace)
    assert (workplace / "a" / "tokenizer.json").read_bytes() == (workplace / "b" / "tokenizer.json").read_bytes()
    hf_sgpe("train", "good.txt", "--counts", "counts", "--out", "c", "--vocab-size", 400, cwd=workplace)
    assert BPETokenizer.from_pretrained(workplace / "c").metadata != BPETokenizer.from_pretrained(workplace / "a").metadata
    shown = hf_sgpe("counts", "info", "counts", cwd=workplace).stdout
    assert "good.txt" in shown and "hybrid" in shown
    info = json.loads(hf_sgpe("counts", "info", "counts", "--format", "json", cwd=workplace).stdout)
    assert info["digest"] == BPETokenizer.from_pretrained(workplace / "b").metadata["word_counts"]
    done = hf_sgpe("counts", "add", "counts", "--out", "few", "--min-count", 2, cwd=workplace)
    assert "distinct words that occur less than 2 times" in done.stdout


def test_stdin_that_is_not_utf8(saved):
    command = [sys.executable, "-m", "hf_sgpe", "encode", "-t", str(saved)]
    done = subprocess.run(command, input=b"fine\n\xff\n", capture_output=True)
    assert done.returncode == 2
    assert done.stderr == b"error: stdin, line 2: not UTF-8 (byte 0 of the line)\n"


@pytest.mark.parametrize(
    "line", ['{"ids": "x"}', "[" * 100_000, "1_0", '{"tokens": []}', "[1.5]", "[1, [2]]", "1 2 x", "[1"]
)
def test_lines_that_are_no_ids(saved, line):
    done = hf_sgpe("decode", "-t", saved, stdin=f"1 2\n{line}\n", code=None)
    assert (done.returncode, done.stderr) == (
        2,
        "error: stdin, line 2: expected token ids such as '12 345', a JSON list or an object with ids\n",
    )


def test_a_target_above_what_the_corpus_gives_finishes(workplace):
    done = hf_sgpe("train", "good.txt", "--out", "out", "--vocab-size", 9999, cwd=workplace)
    assert re.search(r"the corpus gives \d+ tokens of the 9999 asked for", done.stderr)
    assert (workplace / "out" / "tokenizer.json").exists()


def test_a_reader_that_has_had_enough_is_no_error(saved):
    command = f"yes 'ශ්‍රී ලංකාව' | head -n 20000 | {shlex.quote(sys.executable)} -m hf_sgpe encode -t {saved} | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    "arguments", ["info {tok}", "info", "engines", "--help", "counts info {counts}", "info {tok} --json"]
)
def test_a_reader_of_one_line_is_no_error_either(saved, tmp_path, arguments):
    WordCounts({b"a": 1}, TrainingConfig(vocab_size=999).splitting).save(tmp_path / "kept")
    arguments = arguments.format(tok=saved, counts=tmp_path / "kept")
    # The reader is gone before anything is written.
    command = f"{shlex.quote(sys.executable)} -m hf_sgpe {arguments} | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_is_utf8_whatever_the_locale(saved):
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "hf_sgpe", "encode", "-t", str(saved), "--format", "json"]
    done = subprocess.run(command, input="ශ්‍රී\n".encode(), capture_output=True, env=env)
    assert "ශ්‍රී" in done.stdout.decode()


def test_progress_is_shown_on_a_terminal(workplace):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "hf_sgpe", "train", "good.txt", "--out", "out", "--vocab-size", "400"]
    done = subprocess.run(command, cwd=workplace, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    assert done.returncode == 0
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(ours, 1000):
            shown += part
    os.close(ours)
    assert b"Reading" in shown
    assert b"Merging" in shown


def test_a_repository_on_the_hub_is_a_tokenizer_too(saved, tmp_path, sample):
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes())
    (tmp_path / "empty").mkdir()
    repositories = {"me/tok": saved, "me/bare": tmp_path / "bare", "me/empty": tmp_path / "empty"}
    local = hf_sgpe("encode", "-t", saved, "ශ්‍රී ලංකාව").stdout
    with hub.serve(repositories) as address:
        env = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "0"}
        env |= {"HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        for name in ("me/tok", "me/bare"):
            assert process(*COMMAND, "encode", "-t", name, "ශ්‍රී ලංකාව", **env).stdout == local
        assert "hybrid" in process(*COMMAND, "info", "me/tok", **env).stdout
        assert "me/tok" in process(*COMMAND, "evaluate", "-t", "me/tok", tmp_path / "si.txt", **env).stdout
        for name, message in (("me/empty", "holds no tokenizer.json"), ("me/nothing", "no such repository on the Hub")):
            done = process(*COMMAND, "encode", "-t", name, "x", code=None, **env)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert message in done.stderr
    env |= {"HF_HUB_OFFLINE": "1"}  # what was loaded once is there without the Hub
    assert process(*COMMAND, "encode", "-t", "me/tok", "ශ්‍රී ලංකාව", **env).stdout == local


@needs_data
def test_evaluate_on_held_out_text_by_a_tokenizer_of_others(tmp_path):
    suite = DATA / "suites" / "cs336"
    script = [sys.executable, "scripts/import_vocabulary.py"]
    arguments = [suite / "gpt2_vocab.json", suite / "gpt2_merges.txt", tmp_path / "gpt2", "--pattern", "gpt2"]
    subprocess.run([*script, *map(str, arguments), "--special-token", "<|endoftext|>"], check=True, capture_output=True)
    rows = json.loads(
        hf_sgpe("evaluate", "-t", tmp_path / "gpt2", DATA / "eval" / "ntrex_si.txt", "--format", "json").stdout
    )
    assert rows[0]["tokens_per_word"] == pytest.approx(16.8, abs=0.1)
    assert rows[0]["cut_letter_share"] == 1


# ---------------------------------------------------------------- weights, SGPE, other forms


def test_weights_of_files(tmp_path):
    (tmp_path / "a.txt").write_text("low low lower\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("newest widest\n", encoding="utf-8")
    options = ["--recipe", "bpe", "--vocab-size", 262]
    done = hf_sgpe("train", "a.txt", "b.txt", "-o", "t", *options, "--weight", "a*=0.5", "--weight", "b.txt=3", cwd=tmp_path)
    assert done.stdout == "t: 262 tokens, learned from 11 words (6 distinct)\n"
    assert json.loads(hf_sgpe("info", tmp_path / "t", "--format", "json").stdout)["weights"] == {"a*": 0.5, "b.txt": 3.0}
    for weight in ("a.txt", "=2", "a.txt=x"):
        done = hf_sgpe("train", "a.txt", "-o", "u", *options, "--weight", weight, code=None, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr == f"error: --weight {weight!r}: write NAME-OR-GLOB=NUMBER, for example 'si*=2.5'\n"


def test_train_sgpe_resume_and_export(tmp_path, sample):
    text = tmp_path / "si.txt"
    text.write_text(sample["si"], encoding="utf-8")
    out = tmp_path / "out"
    options = [text, "--out", out, "--vocab-size", 800, "--prune-freq", 2, "--checkpoint-every", 100]
    done = hf_sgpe("train-sgpe", *options, "--verbose")
    assert re.match(r".*out: 800 tokens, \d+ merges\n", done.stdout)
    steps = re.findall(r"^info: step (\d+) of \d+: '.*' \+ '.*', \d+ times$", done.stderr, re.MULTILINE)
    assert steps == list(map(str, range(1, 11)))
    done = hf_sgpe("train-sgpe", *options, code=None)
    assert done.returncode == 2
    assert done.stderr.endswith("left by an earlier run: resume it, or choose another folder\n")
    vocab = (out / "vocab.json").read_bytes()
    assert hf_sgpe("train-sgpe", *options, "--resume").stderr == ""
    assert (out / "vocab.json").read_bytes() == vocab

    hf_sgpe("export", out / "vocab.json", "--out", tmp_path / "again")
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == (out / "tokenizer.json").read_bytes()
    done = hf_sgpe("export", out, "--format", "tiktoken", "--out", tmp_path / "x", code=None)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "ids are not in the order of its merges" in done.stderr


def test_extend_and_compare_ids(tmp_path, sample):
    base, out = tmp_path / "base", tmp_path / "out"
    BPETokenizer.train_from_iterator([sample["en"]], 600, pattern="gpt2", special_tokens=["<|end|>"]).save(base)
    for language in ("si", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8", newline="")
    corpus = tmp_path / "si.txt"
    # Its --balance is a number, and what follows it a file.
    done = hf_sgpe("extend", base, "--balance", 0.4, corpus, "--new-tokens", 500, "--out", out, "--eval", corpus)
    assert re.match(
        r".*out: 500 tokens more than .*base, \d+ of them for letters and syllables of sinhala, "
        r"whose words in this text have "
        r"\d+\.\d\d tokens now, and had \d+\.\d\d; a split for their words stands in front\. Text without a character of "
        r"these scripts has its old ids\.\n"
        r"It does not have the same ids in llama\.cpp itself: serve models with it by hf-sgpe serve, or extend by --runs",
        done.stdout,
    )
    assert done.stderr == ""
    curve = json.loads((out / "extension.json").read_text())
    assert (curve["new_tokens"][0], curve["new_tokens"][-1]) == (0, 500)
    assert curve["tokens_per_word"]["si"] == sorted(curve["tokens_per_word"]["si"], reverse=True)
    assert f"{curve['tokens_per_word']['si'][-1]:.3f}" in done.stdout.splitlines()[-1]
    assert "Sinhala" in (out / "extension.svg").read_text(encoding="utf-8")
    assert "extended from" in hf_sgpe("info", out).stdout

    compared = hf_sgpe("compare-ids", base, out, tmp_path / "en.txt", corpus).stdout.splitlines()
    lines = len([line for line in sample["en"].splitlines() if line.strip()])
    assert compared[0].startswith(f"{tmp_path / 'en.txt'}: {lines:,} of {lines:,} lines have the same ids")
    assert f"{corpus}: 0 of" in compared[1]
    assert "is the first that differs, after 0 tokens" in compared[2]
    first = json.loads(hf_sgpe("compare-ids", base, out, corpus, "--json").stdout)[0]
    assert first["difference"]["new"][0][1] >= 601

    done = hf_sgpe("extend", base, corpus, "--script", "si", "--new-tokens", "auto", "--out", out, "--overwrite", "--json")
    facts = json.loads(done.stdout)
    assert facts["own_split"] is True
    assert facts["new_tokens"] > 100
    hf_sgpe("count", corpus, "--script", "si", "--normalization", "none", "--out", tmp_path / "c.parquet")
    done = hf_sgpe("extend", base, "--counts", tmp_path / "c.parquet", "--new-tokens", 500, "--out", tmp_path / "counted")
    assert re.search(r"sinhala, whose pieces, as the split cuts words, have \d\.\d\d tokens now, and had ", done.stdout)
    done = hf_sgpe("extend", base, corpus, "--base-split", "--new-tokens", 500, "--out", tmp_path / "cut")
    assert "; the split is the old one, which cuts words of sinhala: --own-split keeps them whole. Text" in done.stdout
    assert float(re.search(r"words in this text have (\d+\.\d\d) tokens now", done.stdout)[1]) > 2
    assert hf_sgpe("compare-ids", tmp_path / "counted", out, tmp_path / "en.txt").stdout.count("same ids") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to learn from: give text, a dataset, or words counted before by --counts"),
        (("si.txt", "--new-tokens", "many"), "--new-tokens many: give a number, or auto"),
        (("si.txt", "--new-tokens", "0"), "new_tokens must be a whole number of at least 1, or 'auto', not 0"),
        (("si.txt", "--new-tokens", "20"), "new_tokens 20 is too small: the 66 characters of these scripts alone need more"),
        (("en.txt",), "en.txt: begins with text in latin, which has nothing to keep whole"),
        (("en.txt", "--script", "si"), "the text has no word in sinhala: name other scripts, or give other text"),
        (("si.txt", "--out", "base"), "--out base is the tokenizer that is extended: give another folder"),
        (("si.txt", "--reuse-ids"), "base: there is no config.json beside it that says how many rows the model has"),
        (("si.txt", "--weight", "x=2"), "weights: 'x' matches none of the files: give a file name or a glob"),
        (("si.txt", "--split", "train"), "--split is for a dataset: name one by --dataset"),
    ],
)
def test_bad_extensions_end_in_one_line_and_leave_nothing(tmp_path, sample, arguments, message):
    BPETokenizer.train_from_iterator([sample["en"]], 300, pattern="gpt2").save(tmp_path / "base")
    for language in ("si", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8", newline="")
    out = () if "--out" in arguments else ("--out", "new/out")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    done = hf_sgpe("extend", "base", *arguments, *out, cwd=tmp_path, code=None)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}.keys() == before.keys()


def test_export_to_tiktoken_and_back(tmp_path, saved, tokenizer):
    special = tokenizer.special_tokens["<|endoftext|>"]
    hf_sgpe("export", saved, "--format", "tiktoken", "--out", tmp_path / "x.tiktoken")
    options = ["--pattern", tokenizer.get_pattern(), "--special-token", f"<|endoftext|>={special}"]
    hf_sgpe("export", tmp_path / "x.tiktoken", "--out", tmp_path / "back", *options)
    assert BPETokenizer.from_pretrained(tmp_path / "back").get_vocab() == tokenizer.get_vocab()
    source = tmp_path / "back" / "tokenizer.json"
    before = source.read_bytes()
    for given in (source, source.parent):
        done = hf_sgpe("export", given, "--format", "tiktoken", "--out", source, code=None)
        assert done.stderr == f"error: --out {source} is part of {given}: give another name\n"
    assert source.read_bytes() == before
    done = hf_sgpe("export", saved, "--out", tmp_path / "y", "--special-token", "a=1", code=None)
    assert done.stderr == "error: --special-token is for tiktoken, not for folder\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train-sgpe", "si.txt", "--out", ""], "the folder to write to must have a name"),
        (["train", "si.txt", "--out", "u", "--workers", 10**20], "workers must be a number from 1 to 1024"),
        (["train", "si.txt", "--out", "u", "--weight", "si*=1", "--weight", "si*=2"], "'si*' has a number already"),
        (
            ["train", "--counts", "kept", "--out", "u", "--pattern", "gpt2"],
            'kept: counted with pattern "o200k", but "gpt2" is',
        ),
        (["info", "vocab.json"], "an SGPE vocabulary: turn it into a folder by hf-sgpe export first"),
        (
            ["info", "x.tiktoken"],
            "a .tiktoken file: turn it into a folder first by hf-sgpe export, with its --pattern",
        ),
        (["export", "x.tiktoken", "--out", "u"], "x.tiktoken, line 2: the token b'a' stands in line 1 already"),
        (["export", "saved", "--out", "u", "--pattern", "gpt2"], "--pattern is for tiktoken, not for folder"),
    ],
)
def test_more_bad_input_in_one_line(tmp_path, sample, saved, arguments, message):
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8")
    (tmp_path / "vocab.json").write_text('{"vocab": {}, "merges": []}', encoding="utf-8")
    (tmp_path / "x.tiktoken").write_text("YQ== 0\nYQ== 1\n", encoding="utf-8")
    (tmp_path / "saved").symlink_to(saved)
    WordCounts({b"a": 1}, TrainingConfig(vocab_size=999).splitting).save(tmp_path / "kept")
    before = sorted(tmp_path.iterdir())
    done = hf_sgpe(*arguments, code=None, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_huge_numbers_ask_for_more_than_there_is(tmp_path, sample):
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8")
    done = hf_sgpe("train", "si.txt", "--out", "u", "--vocab-size", 10**30, cwd=tmp_path)
    assert done.stderr.startswith("warning: the corpus gives")
    done = hf_sgpe("train-sgpe", "si.txt", "--out", "v", "--min-freq", 10**30, "--prune-freq", 2, cwd=tmp_path)
    assert done.stderr.startswith("warning: the corpus gives 0 of")


# ---------------------------------------------------------------- playground


def test_a_playground_names_tokenizers_without_saying_where_they_lie(saved, tmp_path):
    site = tmp_path / "site"
    done = hf_sgpe("playground", str(saved), "--baseline", f"old={saved}", "--out", str(site), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"].count("tokenizer-2.json") == 1
    page = (site / "index.html").read_text(encoding="utf-8")
    assert f"the tokens of {saved.name} and old" in page
    assert str(saved.parent) not in page
    assert "ශ්‍රී ලංකාව" in page.split("<textarea")[1].split("</textarea>")[0]  # it is for Sinhala first
    again = hf_sgpe("playground", str(saved), "--baseline", str(saved / "tokenizer.json"), "--out", str(site), "--name", "")
    assert again.returncode == 0 and "tokenizer.json" in (site / "index.html").read_text(encoding="utf-8")
    done = hf_sgpe("playground", str(saved), "--name", "a", "--baseline", f"a={saved}", "--out", str(site), code=None)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: two tokenizers would have one name on the page: name them by --name and --baseline"
    )
