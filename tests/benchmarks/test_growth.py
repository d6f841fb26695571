import growth
import pytest
from harness import read_records
from support.command import benchmark
from support.paths import ROOT


def test_heaps_law_is_found():
    fit = growth._heaps([{"words": 10**n, "distinct": 3 * 10 ** (n / 2)} for n in range(2, 7)])
    assert (fit["k"], fit["beta"]) == (pytest.approx(3), pytest.approx(0.5))
    assert growth._at(fit, 1e8) == (pytest.approx(3e4), pytest.approx(1))
    assert growth._heaps([{"words": 1, "distinct": 1}] * 2) == {}


def test_made_up_words_are_letters():
    assert growth._spelled(growth.np.array([1, 26, 27])) == "e z ee "


def test_the_page_has_what_was_measured(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    growth.report({record["about"]: record["result"] for record in read_records(ROOT / "docs" / "growth.jsonl")}, tmp_path)
    shown = capsys.readouterr().out
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    for row in ("| si | 1 | 0.07 | 11 | 46 | 1 | 0.8 | 117 |", "| mixed | 314 | 33.46 | 2,007 | 56 | 206 | 18.4 | 1,304 |"):
        assert row in shown
        assert row.partition(" | ")[2] in page
    assert (tmp_path / "growth.svg").exists()


@pytest.mark.slow
def test_growth_is_measured(tmp_path, sample):
    for language in ("si", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8")
    done = benchmark("growth.py", "si.txt", "en.txt", "--synthetic", 1, "--vocab-size", 1000, cwd=tmp_path)
    records = {record["about"]: record["result"] for record in read_records(tmp_path / "growth" / "growth.jsonl")}
    assert list(records) == ["si", "en", "mixed", "adding up", "made up"]
    assert records["mixed"][-1]["words"] == records["si"][-1]["words"] + records["en"][-1]["words"]
    assert done.stdout.count("\n| made up | 1 |") == 1
    threads = benchmark("growth.py", "si.txt", "--cores", 2, cwd=tmp_path).stdout.splitlines()
    assert [line.partition(":")[0] for line in threads] == ["1 thread", "2 threads", "2 processes, each all texts"]
