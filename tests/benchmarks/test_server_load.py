import pytest
import server_load
from support.command import benchmark


def test_answers_and_speeds_are_reported(capsys):
    load = {"clients": 4, "minutes": 1.0, "answered": 9, "broken off": 3, "wrong": 0, "megabytes": [1, 2, 3]}
    one = {"tokens": 10, "seconds": 1.0, "cpu": 0.5, "ratio": 1.0}
    server_load.report({"load": load, "speed": {"alone": one, "as a stream": one | {"cpu": 1.0, "ratio": 0.9}}})
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "4 clients, 1 minutes: 9 answered, 3 broken off, 0 wrong",
        "memory 1.0 MB at the start, 2.0 after a tenth of the time, 3.0 at the end",
        "alone 10.0 tokens a second, 100.0% of the engine alone; 50.00 ms of a processor for each, 100.0%",
        "as a stream 10.0 tokens a second, 90.0% of the engine alone; 100.00 ms of a processor for each, 200.0%",
    ]


@pytest.mark.slow
def test_a_server_is_measured(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("starlette")
    size = ["--layers", 1, "--width", 32, "--tokens", 4, "--turns", 1]
    done = benchmark("server_load.py", "--minutes", 0.02, "--clients", 2, *size, cwd=tmp_path)
    assert ", 0 wrong\n" in done.stdout
    assert done.stdout.count("of the engine alone") == 3
