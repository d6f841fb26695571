import json
import shutil

import bases
import extensions
import pytest
import tokens
from harness import read_records
from reporting import write_pages
from support.command import benchmark
from support.corpora import write_folders
from support.paths import ROOT


@pytest.fixture(scope="module")
def records():
    return {record["about"]: record for record in read_records(tokens.RECORD)}


@pytest.fixture(scope="module")
def results(records):
    return {name: record["result"] for name, record in records.items()}


def table_in(page, name):
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"<!-- measured: {name} -->\n")[2].partition("\n<!-- end -->")[0].strip()


@pytest.mark.parametrize("name", tokens.TABLES)
def test_a_page_has_the_figures_of_the_records(name, results):
    page, write = tokens.TABLES[name]
    assert table_in(page, name) == write(results)


@pytest.mark.parametrize("name", bases.TABLES)
def test_a_page_has_the_figures_of_the_bases(name):
    page, write = bases.TABLES[name]
    assert table_in(page, name) == write({record["about"]: record["result"] for record in read_records(bases.RECORD)})


def test_a_page_has_the_figures_of_the_ways_to_extend():
    ((name, (page, write)),) = extensions.TABLES.items()
    assert table_in(page, name) == write({one["about"]: one["result"] for one in read_records(extensions.RECORD)})


def test_the_records_say_how_each_tokenizer_was_made(records):
    assert list(records) == list(tokens.RECIPES)
    for name, recipe in tokens.RECIPES.items():
        assert {"date", "commit", "command"} <= set(records[name])
        tokenizer = records[name]["result"]
        assert list(tokenizer["measures"]) == list(recipe.languages)
        if not recipe.corpora:
            continue
        assert tokenizer["settings"].items() >= json.loads(json.dumps(dict(recipe.settings))).items()
        assert list(tokenizer["corpora"]) == list(recipe.corpora)
        for code, megabytes in recipe.corpora.items():
            corpus = tokenizer["corpora"][code]
            counted_as = corpus["bytes"] * corpus["weight"]
            assert counted_as == pytest.approx(corpus["bytes"] if megabytes is None else megabytes * 1e6, rel=1e-3)


def test_ratios_of_the_records_are_those_of_their_sums(results):
    for tokenizer in results.values():
        for measures in tokenizer["measures"].values():
            if measures["tokens_per_word"] is not None:
                assert measures["tokens_per_word"] == measures["tokens"] / measures["words"]
            assert measures["lines"] == 1000


@pytest.mark.slow
def test_a_small_run_writes_records_and_keeps_the_rest(tmp_path):
    write_folders(tmp_path, ["si", "en"], ["si", "en"])
    options = ["--corpora", "corpora", "--held-out", "eval", "--vocabularies", "vocabularies"]
    options += ["--megabytes", "0.05", "--lines", "3", "--record", "tokens.jsonl", "--no-pages"]
    for name in ("si-o200k-hybrid", "cl100k"):
        done = benchmark("tokens.py", *options, "--only", name, cwd=tmp_path, code=None)
        if "cannot download" in done.stderr:
            pytest.skip(done.stderr)
    records = read_records(tmp_path / "tokens.jsonl")
    assert [record["about"] for record in records] == ["cl100k", "si-o200k-hybrid"]
    made = records[1]["result"]
    assert made["settings"]["scripts"] == ["sinhala"]
    assert set(made["corpora"]) == {"si", "en"}
    assert made["measures"]["si"]["lines"] == 3
    assert str(tmp_path) not in json.dumps(records)
    for wrong, message in (
        (options[:-1], "--megabytes and --lines are only for trials"),
        ([*options[:6], *options[10:12], "--only", "cl100k"], r"tokens.jsonl has no results for gpt2, llama3, o200k"),
    ):
        assert message in benchmark("tokens.py", *wrong, cwd=tmp_path, code=2).stderr


def test_tables_are_written_between_their_marks(tmp_path, results):
    pages = {page for page, _ in tokens.TABLES.values()}
    for page in pages:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    write_pages(tokens.TABLES, results, tmp_path)
    for page in pages:
        assert (tmp_path / page).read_text(encoding="utf-8") == (ROOT / page).read_text(encoding="utf-8")
