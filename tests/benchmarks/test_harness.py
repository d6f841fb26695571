import json

import pytest
from harness import Records, Sample, apart, beginning, compare, peak_bytes, read_records, take_turns, timed


def test_ways_take_turns_in_changing_order_until_one_takes_too_long():
    order = []

    def way(name, result):
        return lambda: order.append(name) or result

    taken = take_turns({"a": way("a", 1), "b": way("b", 9)}, 3, enough=lambda result: result > 5)
    assert taken == {"a": [1, 1, 1], "b": [9]}
    assert order == ["b", "a", "a", "b", "a", "a"]  # the first two warm up


def test_ways_are_compared_with_the_first():
    one, other = [Sample(2.0, 1.0)] * 3, [Sample(1.0, 0.5), Sample(4.0, 0.5), Sample(2.0, 0.5)]
    compared = compare({"one": one, "other": other})["other"]
    assert (compared.seconds, compared.cpu) == (2.0, 0.5)
    assert (compared.ratio, compared.least, compared.greatest) == (1.0, 0.5, 2.0)


def test_work_is_timed():
    sample = timed(lambda: sum(range(100_000)))()
    assert 0 < sample.seconds < 60
    assert 0 <= sample.cpu < 60


@pytest.mark.slow
def test_a_process_has_a_peak_of_its_own():
    assert 0 < apart(peak_bytes) <= peak_bytes()


def test_a_record_says_when_where_and_how(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/here/benchmarks/growth.py", "/there/si.txt", "--out", "x"])
    path = tmp_path / "growth.jsonl"
    records = Records(path)
    records.add("b", {"seconds": (1, 2)})
    records.add("a", 1, order=["a", "b"])
    assert Records(path, keep=True).results == records.results == {"a": 1, "b": {"seconds": [1, 2]}}
    first = read_records(path)[0]
    assert first["question"] == "growth"
    assert first["command"] == "python benchmarks/growth.py si.txt --out x"
    assert {"date", "commit", "machine", "load", "versions"} <= set(first)
    assert first["versions"]["numpy"]
    assert [json.loads(line)["about"] for line in path.read_text(encoding="utf-8").splitlines()] == ["a", "b"]


def test_records_are_kept_on_request(tmp_path):
    path = tmp_path / "x.jsonl"
    Records(path).add("a", 1)
    assert Records(path, keep=True).results == {"a": 1}
    assert Records(path).results == {}  # begun from nothing


def test_the_beginning_of_a_text_is_cut_by_megabytes():
    assert list(beginning(["ab", "cd", "ef"], 3e-6)) == ["ab", "cd"]
    assert list(beginning(["ab", "cd", "ef"], None)) == ["ab", "cd", "ef"]
