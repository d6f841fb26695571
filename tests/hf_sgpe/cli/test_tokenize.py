import json
import re

import numpy as np
import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer
from hf_sgpe.learning.tokenizing_config import TokenizingConfig
from trainers.token_files.layouts import TOKEN_FORMATS


@pytest.fixture
def workplace(workplace, sample):
    lines = "".join(json.dumps({"text": line}) + "\n" for line in sample["en"].splitlines())
    (workplace / "en.jsonl").write_text(lines, encoding="utf-8", newline="\n")
    return workplace


def test_a_corpus_becomes_a_folder_of_tokens(workplace, sample):
    tokenizer = BPETokenizer.from_pretrained(workplace / "tok")
    done = hf_sgpe("tokenize", "en.jsonl", "si.txt", "--tokenizer", "tok", "--out", "new/tokens", cwd=workplace)
    said = (
        r"new/tokens: 2\d\d documents, [\d,]+ tokens as uint16 in 1 shard \(nanogpt\), "
        r"\d\.\d\d bytes per token, [\d.]+ MB/s\n"
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
    assert last.stdout.endswith(" bytes per token, all shards existed already\n")
    assert hf_sgpe("tokenize", "si.txt", "-t", "tok", "-o", "quiet", "--quiet", cwd=workplace).stdout == ""


@pytest.mark.parametrize("form", TOKEN_FORMATS)
def test_every_format_is_written_and_named_by_the_help(workplace, form):
    hf_sgpe("tokenize", "si.txt", "-t", "tok", "-o", "out", "--format", form, "--lines", cwd=workplace)
    endings = {file.name.removeprefix("00000-00000") for file in (workplace / "out").iterdir()} - {"manifest.json"}
    assert endings == set(TOKEN_FORMATS[form].endings)
    described = " ".join(str(TokenizingConfig.__doc__).split())
    assert f"{form}: {TOKEN_FORMATS[form].holds}" in described


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--out out", "nothing to tokenize: name files of text"),
        ("nowhere.txt --out out", r"nowhere\.txt: no such file or folder"),
        ("latin1.txt --out new/out", r"latin1\.txt is not UTF-8 at byte offset 3"),
        ("empty.txt --out out", r"empty\.txt: no text to tokenize"),
        ("en.jsonl --out out --text-field body", r"en\.jsonl, line 1: no field 'body'"),
        ("si.txt --out si.txt", r"si\.txt is a file: give a folder"),
        ("si.txt --out si.txt/x", r"si\.txt"),
        ("si.txt --out tok", "tok has other files"),
        ("si.txt --out ''", "the name of the output folder is empty"),
        ("si.txt --out out --format x", "unknown format 'x'"),
        ("si.txt --out out --end-token x", "no special token 'x' to end documents"),
        ("si.txt --out out --end-token x --no-end-token", "--end-token and --no-end-token"),
        ("si.txt --out out --no-end-token", "format nanogpt"),
        ("si.txt --out out --shard-tokens 0", "--shard-tokens must be at least 1, not 0"),
        ("si.txt --out out --workers 0", "--workers .* 0"),
        ("si.txt --out /proc/nothing/out", "/proc/nothing"),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(f"tokenize {arguments} --tokenizer tok", message)
