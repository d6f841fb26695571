"""tokenizers 1.0, which shows none of its parts, and none at all: everything but transformers' own classes works."""

import json
import os
import subprocess
import sys

import pytest
from support.data import DATA, needs_data
from support.ecosystems import TOKENIZERS_1, needs_tokenizers_1

from hf_sgpe import BPETokenizer, TrainingConfig, WordCounts, train_from_counts
from hub_cards.runtimes import stated


@pytest.fixture
def no_tokenizers(tmp_path):
    folder = tmp_path / "none"
    folder.mkdir()
    (folder / "tokenizers.py").write_text("raise ImportError('not installed')\n", encoding="utf-8", newline="\n")
    return folder


def run(folder, modules, *arguments, text=""):
    """The command's output where ``modules`` come first."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(modules), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "hf_sgpe", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, input=text, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def everything(folder, modules, sample):
    """What the command line prints and writes of all that needs no transformers."""
    folder.mkdir()
    for language, text in sample.items():
        (folder / f"{language}.txt").write_text(text, encoding="utf-8", newline="\n")
    line = "ශ්‍රී ලංකාව hello \u0958 ½ e\u0301\n"
    said = [
        run(folder, modules, "train", "si.txt", "en.txt", "--out", "two", "--vocab-size", 3000),
        run(folder, modules, "train", "hi.txt", "--out", "one", "--vocab-size", 2000, "--pattern", "bloom", "--json"),
        run(
            folder,
            modules,
            "train",
            "en.txt",
            "--out",
            "own",
            "--vocab-size",
            900,
            "--recipe",
            "bpe",
            "--pattern",
            "[a-z]+|.",
        ),
        run(folder, modules, "count", "si.txt", "--out", "si.parquet"),
        run(folder, modules, "train", "--counts", "si.parquet", "--out", "counted", "--vocab-size", 2000),
        run(folder, modules, "extend", "two", "ta.txt", "--out", "more", "--script", "tamil", "--new-tokens", 300),
        *(run(folder, modules, "encode", name, text=line) for name in ("two", "one", "own", "counted", "more")),
        run(folder, modules, "evaluate", "two", "si.txt", "hi.txt", "--baseline", "one=one", "--json"),
        run(folder, modules, "tokenize", "si.txt", "--tokenizer", "two", "--out", "tokens", "--json"),
        run(folder, modules, "card", "two", "--out", "card/README.md"),
    ]
    said[-2] = json.loads(said[-2]) | {"seconds": 0}
    written = sorted(
        path for name in ("two", "one", "own", "counted", "more") for path in (folder / name).glob("tokenizer.json")
    )
    return said, [path.read_bytes() for path in (*written, *sorted((folder / "tokens").glob("*.bin")))]


@pytest.mark.slow
@pytest.mark.parametrize("version", [pytest.param("1.0", marks=needs_tokenizers_1), "none"])
def test_everything_else_is_the_same(version, sample, no_tokenizers, tmp_path):
    modules = no_tokenizers if version == "none" else TOKENIZERS_1
    there = run(tmp_path, modules, "--version")
    assert there.startswith("hf-sgpe")
    theirs = everything(tmp_path / "theirs", modules, sample)
    assert theirs == everything(tmp_path / "ours", tmp_path, sample)


@needs_data
@needs_tokenizers_1
def test_its_own_tokenizer_gives_the_ids_of_a_portable_one(tmp_path):
    lines = {
        language: (DATA / "eval" / f"ntrex_{language}.txt").read_text(encoding="utf-8").splitlines()
        for language in ("hi", "mr", "ne", "bn", "gu", "ta", "te", "kn", "en", "si")
    }
    scripts = ("devanagari", "bengali", "gujarati", "tamil", "telugu", "kannada")
    config = TrainingConfig(vocab_size=8000, recipe="portable", scripts=scripts)
    train_from_counts(WordCounts.from_texts([t for text in lines.values() for t in text[::3]], config), config).save(
        tmp_path / "tokenizer"
    )
    code = "import json, sys, tokenizers; t = tokenizers.Tokenizer.from_file(sys.argv[1])\n"
    code += "assert tokenizers.__version__ >= '1'\n"
    code += "print(json.dumps([list(t.encode(line).ids) for line in json.load(sys.stdin)]))"
    texts = [line for text in lines.values() for line in text]
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "tokenizer" / "tokenizer.json"],
        env={**os.environ, "PYTHONPATH": str(TOKENIZERS_1)},
        input=json.dumps(texts),
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    tokenizer = BPETokenizer.from_pretrained(tmp_path / "tokenizer")
    assert len(texts) == 10_000
    assert json.loads(done.stdout) == tokenizer.encode_batch(texts)


@needs_tokenizers_1
@pytest.mark.parametrize(
    ("recipe", "pattern", "verdict"),
    [
        ("portable", "o200k", "exact"),
        ("bpe", "gpt2", "exact"),
        ("bpe", "llama3", "exact"),
        ("bpe", "qwen2", "exact"),
        ("bpe", "qwen35", "refused"),
        ("portable", "bloom", "refused"),
        ("hybrid", "o200k", "refused"),
    ],
)
def test_it_gives_what_is_said_of_it(recipe, pattern, verdict, sample, tmp_path):
    config = TrainingConfig(vocab_size=2500, recipe=recipe, pattern=pattern, scripts=("sinhala", "devanagari"))
    tokenizer = train_from_counts(WordCounts.from_texts(sample.values(), config), config)
    tokenizer.save(tmp_path / "tokenizer")
    (tmp_path / "text.txt").write_text("\n".join(sample.values()), encoding="utf-8", newline="\n")
    checks = json.loads(run(tmp_path, TOKENIZERS_1, "check", "tokenizer", "text.txt", "--json"))
    (found,) = [one for one in checks if one["name"] == "tokenizers 1.0"]
    assert found["version"] == "1.0.0rc3"
    assert (found["verdict"], dict(stated(tokenizer))["tokenizers 1.0"].what) == (verdict, verdict)
