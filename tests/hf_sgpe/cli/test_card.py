"""``hf-sgpe card``."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("card tok --eval nowhere.txt --out in-the-way-index.html", r"index\.html is a folder"),
        ("card tok --eval nowhere.txt --out in-the-way-pictures", "pictures is a file"),
    ],
)
def test_what_is_in_the_way_is_found_before_anything_is_measured(refuses, arguments, message):
    refuses(arguments, message)
