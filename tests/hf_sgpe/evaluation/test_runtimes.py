import json
from functools import cache

import pytest
from support.character_tokenizers import NORMALIZATIONS, character_tokenizer
from support.command import hf_sgpe

from hf_sgpe import TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.evaluation.runtimes import (
    DIFFERS,
    EXACT,
    NFC_ONLY,
    REFUSED,
    RUNTIMES,
    Runtime,
    Verdict,
    check_runtimes,
    sample_lines,
    stated,
)
from hub_cards.cards.facts import Facts

CONFIGURATIONS = {
    "hybrid": {},
    "portable": {"recipe": "portable"},
    "portable bloom": {"recipe": "portable", "pattern": "bloom"},
    "bpe gpt2": {"recipe": "bpe", "pattern": "gpt2"},
    "bpe qwen35": {"recipe": "bpe", "pattern": "qwen35"},
    "nfc": {"recipe": "bpe", "normalization": "nfc"},
    "own": {"recipe": "bpe", "pattern": "[a-z]+"},
    "sgpe": {"recipe": "sgpe", "letter_coverage": 1, "syllable_coverage": 1},
}


@pytest.fixture(scope="session")
def made(sample):
    @cache
    def make(name):
        config = TrainingConfig(vocab_size=2000, scripts=("sinhala", "devanagari", "tamil"), **CONFIGURATIONS[name])
        return train_from_counts(WordCounts.from_texts(sample.values(), config), config)

    return make


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_rules_are_what_is_found(sample, made, name):
    """Or better than they say, where few lines are no proof."""
    lines = [*sample_lines(), *(line for text in sample.values() for line in text.splitlines()[:30])]
    tokenizer = made(name)
    said = dict(stated(tokenizer))
    tried = [check for check in check_runtimes(tokenizer, lines) if check.version is not None]
    for check in tried:
        rule = said[check.name].what
        if check.name == "OpenVINO Tokenizers" and rule == NFC_ONLY:
            assert check.verdict.what in (EXACT, NFC_ONLY)
            continue
        assert check.verdict.what == rule, (check.name, check.verdict, check.different)
        assert check.lines == len(lines)
        assert (check.same == check.lines) == (check.different is None) or rule == REFUSED
        if rule == EXACT:
            assert check.same == check.lines
    assert {"transformers", "tiktoken"} <= {check.name for check in tried}


def test_verdicts_need_no_installed_runtime(made):
    said = {name: {runtime: verdict.what for runtime, verdict in stated(made(name))} for name in CONFIGURATIONS}
    assert set(said["portable"].values()) == {EXACT}
    assert said["hybrid"]["llama.cpp"] == DIFFERS
    assert said["hybrid"]["tokenizers 1.0"] == said["hybrid"]["gigatoken"] == REFUSED
    assert said["portable bloom"]["llama.cpp"] == EXACT
    assert said["portable bloom"]["tokenizers 1.0"] == REFUSED
    assert said["nfc"]["llama.cpp"] == said["nfc"]["tiktoken"] == NFC_ONLY
    assert all(of[name] == EXACT for of in said.values() for name in ("transformers", "transformers.js", "fastokens"))
    rows = dict(Facts(made("hybrid")).table())
    assert "llama.cpp" in rows["Other ids, or refused, in"]
    assert "transformers" in rows["Same ids in"]


def test_a_runtime_that_fails_is_refused_in_its_own_words(made, monkeypatch):
    def failing(tokenizer, folder):
        raise ValueError("no such thing\nin line 2")

    runtimes = (Runtime("pytest", ("pytest",), lambda tokenizer: Verdict(EXACT), failing), *RUNTIMES[:1])
    monkeypatch.setattr("hf_sgpe.evaluation.runtimes.RUNTIMES", runtimes)
    refused, exact = check_runtimes(made("portable"), ["a"])
    assert str(refused.verdict) == "refused: no such thing"
    assert exact.verdict.what == EXACT
    assert refused.to_dict()["why"] == "no such thing"


def test_lines_that_no_program_need_take_alike_are_left_out(made):
    tokenizer = made("portable")
    tried = [one for one in check_runtimes(tokenizer, ["a", "b <|endoftext|> c", "d \ud800 e"]) if one.version]
    assert tried
    assert all((one.verdict.what, one.same, one.lines) == (EXACT, 2, 2) for one in tried)


def test_a_line_that_fails_counts_as_different(made, monkeypatch):
    def failing_at_b(tokenizer, folder):
        def encode(text):
            if text == "b":
                raise ValueError("no b here")
            return tokenizer.encode(text)

        return encode

    runtime = Runtime("pytest", ("pytest",), lambda tokenizer: Verdict(EXACT), failing_at_b)
    monkeypatch.setattr("hf_sgpe.evaluation.runtimes.RUNTIMES", (runtime,))
    (check,) = check_runtimes(made("portable"), ["a", "b"])
    assert (str(check.verdict), check.same, check.different) == ("not exact: no b here", 1, "b")


def test_only_named_runtimes_are_checked(made):
    names = ("llama.cpp", "transformers")
    assert [check.name for check in check_runtimes(made("portable"), ["a"], names=names)] == ["transformers", "llama.cpp"]
    assert list(check_runtimes(made("portable"), ["a"], names=())) == []


def test_the_command_line_shows_a_table(made, tmp_path):
    made("hybrid").save(tmp_path / "tokenizer")
    (tmp_path / "text.txt").write_text("ශ්‍රී ලංකාව\n\u0958\n", encoding="utf-8", newline="\n")
    (tmp_path / "empty.txt").touch()

    def check(*arguments, code=0):
        done = hf_sgpe("check", "tokenizer", *arguments, cwd=tmp_path, code=code)
        return done.stdout or done.stderr

    table = check("text.txt")
    assert "3 of 3" in table
    assert "exact except for text that is not in the form NFC" in table
    found = {one["name"]: one for one in json.loads(check("text.txt", "--json"))}
    assert (found["tiktoken"]["same"], found["tiktoken"]["lines"]) == (1, 3)
    assert found["tiktoken"]["different"] == "\u0958"
    assert found["tokenizers 1.0"]["version"] is None
    assert check("empty.txt", code=2) == "error: empty.txt: no text to test on\n"


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_merges_of_characters_run_where_they_were_tried(normalization, sample):
    tokenizer = character_tokenizer([sample["en"], sample["si"]], normalization)
    verdicts = dict(stated(tokenizer))
    assert verdicts["tiktoken"].why.startswith("this tokenizer merges characters")
    assert verdicts.pop("tiktoken").what == REFUSED
    others = {"llama.cpp": DIFFERS, "fastokens": REFUSED} if normalization in ("metaspace-always", "metaspace-first") else {}
    assert {name: verdict.what for name, verdict in verdicts.items()} == dict.fromkeys(verdicts, EXACT) | others
    checks = check_runtimes(tokenizer, ["The  kettle", " ශ්‍රී é"])
    assert {check.same for check in checks if check.version and check.verdict.what == EXACT} == {2}
