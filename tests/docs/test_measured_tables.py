"""The tables of the documentation and the record of the script that measures them: the same figures in both."""

import json
import runpy
import shutil
import sys

import pytest
from support.data import DATA, needs_data
from support.paths import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "measure_tokenizers.py"), run_name="script")


@pytest.fixture(scope="module")
def record():
    if not SCRIPT["RECORD"].exists():
        pytest.skip("nothing was measured yet: python scripts/measure_tokenizers.py")
    return json.loads(SCRIPT["RECORD"].read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SCRIPT["TABLES"])
def test_a_page_has_the_figures_of_the_record(name, record):
    page, write = SCRIPT["TABLES"][name]
    text = (ROOT / page).read_text(encoding="utf-8")
    table = text.partition(f"<!-- measured: {name} -->\n")[2].partition("\n<!-- end -->")[0]
    assert table.strip() == write(SCRIPT["Figures"](record))


def test_the_record_says_how_each_tokenizer_was_made(record):
    assert list(record["tokenizers"]) == list(SCRIPT["RECIPES"])
    for name, recipe in SCRIPT["RECIPES"].items():
        tokenizer = record["tokenizers"][name]
        assert list(tokenizer["measures"]) == list(recipe.languages)
        assert {"date", "commit"} <= set(tokenizer)
        if not recipe.corpora:
            continue
        assert tokenizer["settings"].items() >= json.loads(json.dumps(dict(recipe.settings))).items()
        assert list(tokenizer["corpora"]) == list(recipe.corpora)
        for code, megabytes in recipe.corpora.items():
            corpus = tokenizer["corpora"][code]
            counted_as = corpus["bytes"] * corpus["weight"]
            assert counted_as == pytest.approx(corpus["bytes"] if megabytes is None else megabytes * 1e6, rel=1e-3)


def test_ratios_of_the_record_are_those_of_its_sums(record):
    for tokenizer in record["tokenizers"].values():
        for measures in tokenizer["measures"].values():
            if measures["tokens_per_word"] is not None:
                assert measures["tokens_per_word"] == measures["tokens"] / measures["words"]
            assert measures["lines"] == 1000


@needs_data
@pytest.mark.slow
def test_a_small_run_writes_a_record_and_keeps_the_rest(tmp_path, monkeypatch, capsys):
    folders = {"--corpora": DATA / "corpora", "--held-out": DATA / "eval", "--vocabularies": DATA / "suites" / "vocabs"}
    options = [str(part) for pair in folders.items() for part in pair]
    options += ["--megabytes", "0.05", "--lines", "3", "--record", "tokens.json", "--no-pages"]
    monkeypatch.chdir(tmp_path)
    for names in (["cl100k"], ["si-o200k-hybrid"]):
        monkeypatch.setattr(sys, "argv", ["measure_tokenizers.py", *options, "--only", *names])
        assert SCRIPT["main"]() == 0
    record = json.loads((tmp_path / "tokens.json").read_text(encoding="utf-8"))
    assert list(record["tokenizers"]) == ["cl100k", "si-o200k-hybrid"]
    made = record["tokenizers"]["si-o200k-hybrid"]
    assert made["settings"]["scripts"] == ["sinhala"]
    assert set(made["corpora"]) == {"si", "en"}
    assert made["measures"]["si"]["lines"] == 3
    assert str(DATA) not in json.dumps(record)
    for wrong, message in (
        (options[:-1], "--megabytes and --lines are for trying"),
        ([*options[:6], *options[10:12], "--only", "cl100k"], r"tokens.json: the pages need gpt2, llama3, o200k"),
    ):
        monkeypatch.setattr(sys, "argv", ["measure_tokenizers.py", *wrong])
        assert SCRIPT["main"]() == 2
        assert message in capsys.readouterr().err


def test_tables_are_written_between_their_marks(tmp_path, record):
    pages = {page for page, _ in SCRIPT["TABLES"].values()}
    for page in pages:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    assert {str(page.relative_to(tmp_path)) for page in SCRIPT["write_pages"](tmp_path, record)} == pages
    for page in pages:
        assert (tmp_path / page).read_text(encoding="utf-8") == (ROOT / page).read_text(encoding="utf-8")
