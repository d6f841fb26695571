import pytest
from harness import Records
from reporting import write_pages
from support.command import benchmark

from hf_sgpe import SGPEError


def test_a_table_is_written_into_its_page(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured: x -->\nold\n<!-- end -->\nafter\n", encoding="utf-8")
    tables = {"x": ("page.md", "of {}".format)}
    write_pages(tables, 3, tmp_path)
    assert capsys.readouterr().out == "page.md: tables written\n"
    assert page.read_text(encoding="utf-8") == "before\n<!-- measured: x -->\n\nof 3\n\n<!-- end -->\nafter\n"
    with pytest.raises(SGPEError, match="measured: y"):
        write_pages({"y": ("page.md", str)}, 3, tmp_path)


def test_records_are_reported_again(tmp_path):
    result = {"tokens": 10, "own seconds": 1.0, "seconds": 2.0, "ratio": 0.5, "least": 0.4, "greatest": 0.6}
    Records(tmp_path / "engine_loops.jsonl").add("mlx (1)", result)
    done = benchmark("reporting.py", "engine_loops.jsonl", cwd=tmp_path)
    assert "5.0 tokens a second, by its own loop     10.0: 50.0% of it (40.0% to 60.0%)" in done.stdout
    (tmp_path / "none.jsonl").touch()
    done = benchmark("reporting.py", "none.jsonl", cwd=tmp_path, code=2)
    assert done.stderr == "error: none.jsonl has no records: give a file that a benchmark wrote\n"
