"""Starts of models: what is refused; `tests/trainers/model_rows/test_row_starts.py` trains from each."""

import pytest
from model_starts import _at, _Texts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--starts", "omp"], "--donor"),
        (["--batch", "100"], "--length 512, not 100"),
        (["--steps", "0"], "--steps must be at least 1, not 0"),
    ],
)
def test_bad_input_ends_in_one_line(arguments, message, refused):
    pytest.importorskip("accelerate")
    refused("model_starts.py", ["bare", "padding", "si.txt", "--eval", "30-si.txt", *arguments], message)


def test_texts_are_mixed_by_their_bytes():
    documents = _Texts(["a" * 8], ["b" * 2], {}, 0.2).documents(1)
    assert "".join(next(documents)[0] for _ in range(12)) in ("ababababab" + "ab", "aababababab" + "a")


def test_points_are_joined_by_straight_lines():
    points = [{"bytes": size, "bits_per_byte": {"si": bits}} for size, bits in ((0, 3.0), (100, 1.0))]
    assert (_at(points, 50, "si"), _at(points, None, "si")) == (2.0, 1.0)
