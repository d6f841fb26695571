import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("counts info good.txt", r"good\.txt is damaged"),
        ("counts info nowhere", "nowhere: No such file"),
        ("counts add good.txt --out out", r"good\.txt is damaged"),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(arguments, message)
