import pytest
from support.command import hf_sgpe


@pytest.mark.parametrize(
    "line", ['{"ids": "x"}', "[" * 100_000, "1_0", '{"tokens": []}', "[1.5]", "[1, [2]]", "1 2 x", "[1"]
)
def test_lines_that_are_no_ids(saved, line):
    done = hf_sgpe("decode", "-t", saved, stdin=f"1 2\n{line}\n", code=2)
    assert (
        done.stderr == "error: stdin, line 2: expected token ids such as '12 345', a JSON list or a JSON object with ids\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("decode -t tok 99999", "id 99999 at position 0"),
        ("decode -t tok -- -5", "id -5"),
        ("decode -t tok twelve", "arguments: expected token ids"),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(arguments, message)
