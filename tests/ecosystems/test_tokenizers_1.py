import json
import os
import sys

import pytest
from support.command import hf_sgpe, process
from support.corpora import held_out
from support.ecosystems import TOKENIZERS_1, needs_tokenizers_1
from support.paths import ROOT

from hf_sgpe import BPETokenizer, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.evaluation.runtimes import stated

LINE = "ශ්‍රී ලංකාව hello \u0958 ½ e\u0301\n"
NAMES = ("two", "one", "own", "counted", "more")
ALL_BUT_TRANSFORMERS = """
    --version
    train si.txt en.txt --out two --vocab-size 3000
    train hi.txt --out one --vocab-size 2000 --pattern bloom --json
    train en.txt --out own --vocab-size 900 --recipe bpe --pattern [a-z]+|.
    count si.txt --out si.parquet
    train --counts si.parquet --out counted --vocab-size 2000
    extend two ta.txt --out more --script tamil --new-tokens 300
    encode two
    encode one
    encode own
    encode counted
    encode more
    evaluate two si.txt hi.txt --baseline one=one --json
    tokenize si.txt --tokenizer two --out tokens --json
    card two --out card/README.md
"""


RUN = """
import json, sys
from support.command import hf_sgpe
commands, line = json.load(sys.stdin)
print(json.dumps([hf_sgpe(*command, stdin=line).stdout for command in commands]))
"""


def run_here(folder, commands):
    return [hf_sgpe(*command, cwd=folder, stdin=LINE).stdout for command in commands]


def run_with(modules):
    path = os.pathsep.join([str(modules), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])

    def run(folder, commands):
        done = process(sys.executable, "-c", RUN, cwd=folder, stdin=json.dumps([commands, LINE]), PYTHONPATH=path)
        return json.loads(done.stdout)

    return run


def everything(folder, sample, run):
    """What the command line prints and writes of all that needs no transformers."""
    for language, text in sample.items():
        (folder / f"{language}.txt").write_text(text, encoding="utf-8", newline="\n")
    said = run(folder, [line.split() for line in ALL_BUT_TRANSFORMERS.strip().splitlines()])
    said[-2] = json.loads(said[-2]) | {"seconds": 0}
    files = [*(folder / name / "tokenizer.json" for name in NAMES), *sorted((folder / "tokens").glob("*.bin"))]
    return said, [file.read_bytes() for file in files]


@pytest.fixture(scope="module")
def ours(sample, tmp_path_factory):
    return everything(tmp_path_factory.mktemp("ours"), sample, run_here)


@pytest.mark.slow
@pytest.mark.parametrize("version", [pytest.param("1.0", marks=needs_tokenizers_1), "none"])
def test_everything_else_is_the_same(version, ours, sample, tmp_path_factory):
    modules = TOKENIZERS_1
    if version == "none":
        modules = tmp_path_factory.mktemp("none")
        (modules / "tokenizers.py").write_text("raise ImportError('not installed')\n", encoding="utf-8", newline="\n")
    theirs = everything(tmp_path_factory.mktemp("theirs"), sample, run_with(modules))
    assert theirs[0][0].startswith("hf-sgpe")
    assert theirs == ours


@pytest.mark.text
@needs_tokenizers_1
def test_its_own_tokenizer_gives_the_ids_of_a_portable_one(tmp_path):
    lines = [held_out(language) for language in ("hi", "mr", "ne", "bn", "gu", "ta", "te", "kn", "en", "si")]
    scripts = ("devanagari", "bengali", "gujarati", "tamil", "telugu", "kannada")
    config = TrainingConfig(vocab_size=8000, recipe="portable", scripts=scripts)
    train_from_counts(WordCounts.from_texts([t for text in lines for t in text[::3]], config), config).save(
        tmp_path / "tokenizer"
    )
    code = "import json, sys, tokenizers; t = tokenizers.Tokenizer.from_file(sys.argv[1])\n"
    code += "assert tokenizers.__version__ >= '1'\n"
    code += "print(json.dumps([list(t.encode(line).ids) for line in json.load(sys.stdin)]))"
    texts = [line for text in lines for line in text]
    file = tmp_path / "tokenizer" / "tokenizer.json"
    done = process(sys.executable, "-c", code, file, stdin=json.dumps(texts), PYTHONPATH=str(TOKENIZERS_1))
    tokenizer = BPETokenizer.from_pretrained(tmp_path / "tokenizer")
    assert len(texts) == 10_000
    assert json.loads(done.stdout) == tokenizer.encode_batch(texts)


VERDICTS = {
    ("portable", "o200k"): "exact",
    ("bpe", "gpt2"): "exact",
    ("bpe", "llama3"): "exact",
    ("bpe", "qwen2"): "exact",
    ("bpe", "qwen35"): "refused",
    ("portable", "bloom"): "refused",
    ("hybrid", "o200k"): "refused",
}


@needs_tokenizers_1
def test_tokenizers_1_gives_the_predicted_verdicts(sample, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(sample.values()), encoding="utf-8", newline="\n")
    said = []
    for recipe, pattern in VERDICTS:
        config = TrainingConfig(vocab_size=2500, recipe=recipe, pattern=pattern, scripts=("sinhala", "devanagari"))
        tokenizer = train_from_counts(WordCounts.from_texts(sample.values(), config), config)
        tokenizer.save(tmp_path / f"{recipe} {pattern}")
        said.append(dict(stated(tokenizer))["tokenizers 1.0"].what)
    commands = [["check", f"{recipe} {pattern}", "text.txt", "--json"] for recipe, pattern in VERDICTS]
    checks = [json.loads(printed) for printed in run_with(TOKENIZERS_1)(tmp_path, commands)]
    found = [one for check in checks for one in check if one["name"] == "tokenizers 1.0"]
    assert {one["version"] for one in found} == {"1.0.0rc3"}
    assert [one["verdict"] for one in found] == said == list(VERDICTS.values())
