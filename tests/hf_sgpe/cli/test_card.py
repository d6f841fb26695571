import pytest
from support.command import hf_sgpe


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("card tok --eval nowhere.txt --out in-the-way-index.html", r"index\.html is a folder"),
        ("card tok --eval nowhere.txt --out in-the-way-pictures", "pictures is a file"),
    ],
)
def test_obstacles_in_the_output_folder_are_found_before_measuring(refuses, arguments, message):
    refuses(arguments, message)


def test_a_licence_and_a_language_that_no_list_has_are_named_once(workplace):
    options = ["--license", "foo", "--language", "foo", "--language", "si", "--out", "card"]
    done = hf_sgpe("card", "tok", *options, cwd=workplace)
    licence, code = done.stderr.splitlines()
    assert "the licence foo is not in the list of SPDX" in licence
    assert "the language code foo is unknown to CLDR" in code
    known = ["--license", "cc-by-nc-4.0", "--language", "sin", "--language", "jv-Java", "--out", "card"]
    assert hf_sgpe("card", "tok", *known, cwd=workplace).stderr == ""
