import json

import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.auto_tokenizer import may_be_overridden, read_with_auto_tokenizer
from hf_sgpe.evaluation.runtimes import DIFFERS, EXACT, REFUSED, check_runtimes, warn_of_class

TEXT = "x = 1234567 23202320\n\n  it's é  "


@pytest.fixture(scope="module")
def tokenizer():
    """A tokenizer with words of several letters and spaces, which no class of transformers keeps whole."""
    return BPETokenizer.train_from_iterator([TEXT] * 9, 290, pattern=r"[^\n]+|\n+")


def of_class(name, tokenizer, folder):
    tokenizer.save(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text()) | {"tokenizer_class": name}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def checked(tokenizer, folder, texts=(TEXT,)):
    [check] = check_runtimes(tokenizer, texts, names=["transformers"], saved=folder)
    return check


# Classes that transformers 5 builds with a split of their own, and classes that read tokenizer.json.
OTHERS = [
    "GPT2TokenizerFast",
    "GPT2Tokenizer",
    "Qwen2TokenizerFast",
    "RobertaTokenizer",
    "CodeGenTokenizer",
    "GPTNeoXTokenizer",
]
GENERIC = ["LlamaTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend", "NoSuchTokenizer"]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", OTHERS)
def test_a_class_that_overrides_the_tokenizer_is_named(name, tokenizer, tmp_path):
    check = checked(tokenizer, of_class(name, tokenizer, tmp_path / "base"))
    assert (check.verdict.what, check.same, check.different) == (DIFFERS, 0, TEXT)
    assert f"its class {name.removesuffix('Fast')}, not from tokenizer.json" in check.verdict.why
    assert "hf-sgpe export" in check.verdict.why


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", GENERIC)
def test_a_class_that_reads_the_file_is_exact(name, tokenizer, tmp_path):
    check = checked(tokenizer, of_class(name, tokenizer, tmp_path / "base"))
    assert (check.verdict.what, check.same, check.different) == (EXACT, 1, None)


def test_a_model_in_the_same_folder_can_override(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    assert checked(tokenizer, tmp_path).verdict.what == DIFFERS
    tokenizer.save(tmp_path)  # now next to the config.json
    assert checked(tokenizer, tmp_path).verdict.what == EXACT


def test_a_folder_that_takes_too_long_is_refused(tokenizer, tmp_path, monkeypatch):
    tokenizer.save(tmp_path)
    monkeypatch.setattr("hf_sgpe.evaluation.auto_tokenizer._SECONDS", 0.01)
    with pytest.raises(SGPEError, match="did not finish within 0 seconds"):
        read_with_auto_tokenizer(tmp_path, ["a"])


def test_a_folder_that_does_not_load_is_refused(tokenizer, tmp_path):
    folder = of_class("GPT2Tokenizer", tokenizer, tmp_path / "base")
    (folder / "tokenizer.json").write_text("{}")
    assert checked(tokenizer, folder).verdict.what == REFUSED
    with pytest.raises(SGPEError, match=r"\w"):
        read_with_auto_tokenizer(folder, ["a"])


def test_a_refusal_is_read_whatever_the_encoding_of_the_system(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    with pytest.raises(SGPEError, match="modèle"):
        read_with_auto_tokenizer(tmp_path / "modèle", ["a"])


def test_the_commands_say_so_and_export_repairs(tokenizer, tmp_path):
    folder = of_class("GPT2Tokenizer", tokenizer, tmp_path / "base")
    (tmp_path / "text.txt").write_text(TEXT)
    assert "its class GPT2Tokenizer, not from tokenizer.json" in hf_sgpe("check", folder, "text.txt", cwd=tmp_path).stdout
    for command in (["info", folder], ["trim", folder, "--drop-script", "greek", "--out", "trimmed"]):
        done = hf_sgpe(*command, cwd=tmp_path, code=None)
        assert "its class GPT2Tokenizer, not from tokenizer.json, and its ids differ" in done.stderr
    hf_sgpe("export", folder, "--out", "exported", cwd=tmp_path)
    row = json.loads(hf_sgpe("check", "exported", "--json", cwd=tmp_path).stdout)[0]
    assert (row["name"], row["verdict"]) == ("transformers", "exact")
    assert hf_sgpe("info", "exported", cwd=tmp_path).stderr == ""


def test_texts_with_line_ends_are_tested_too(tmp_path):
    """A normalizer of a class can change line ends."""
    tokenizer = BPETokenizer.train_from_iterator(["a\nb\n\nc"] * 9, 260)
    tokenizer.save(tmp_path / "base")
    (tmp_path / "text.txt").write_text("a\nb\n\nc\n")
    row = json.loads(hf_sgpe("check", "base", "text.txt", "--json", cwd=tmp_path).stdout)[0]
    assert row["lines"] == row["same"] > 3


def test_no_warning_where_nothing_differs(tokenizer, tmp_path, caplog):
    tokenizer.save(tmp_path / "own")
    assert not may_be_overridden(tmp_path / "own")
    folder = of_class("NoSuchTokenizer", tokenizer, tmp_path / "base")
    assert may_be_overridden(folder)
    warn_of_class(folder, tokenizer.data)
    assert caplog.text == ""
