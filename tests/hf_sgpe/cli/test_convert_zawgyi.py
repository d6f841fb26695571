import json

import pytest
from support.command import hf_sgpe

from trainers import read_lines

ZAWGYI, UNICODE = "ျမန္မာစာ ေက်ာင္း", "မြန်မာစာ ကျောင်း"


@pytest.fixture
def workplace(tmp_path, saved):
    (tmp_path / "tok").symlink_to(saved)
    (tmp_path / "my.txt").write_text(f"{ZAWGYI}\n" * 20 + "one two\n", encoding="utf-8", newline="\n")
    (tmp_path / "unicode.txt").write_text(f"{UNICODE}\n" * 20, encoding="utf-8", newline="\n")
    return tmp_path


def test_a_file_is_converted(workplace):
    done = hf_sgpe("convert-zawgyi", "my.txt", "--out", "new/my.txt.xz", cwd=workplace)
    assert (done.stdout, done.stderr) == ("new/my.txt.xz: 20 of 21 lines were converted from Zawgyi\n", "")
    assert list(read_lines(workplace / "new" / "my.txt.xz")) == [UNICODE] * 20 + ["one two"]
    again = hf_sgpe("convert-zawgyi", "new/my.txt.xz", "-o", "again.txt", "--json", cwd=workplace)
    facts = {"undecided": 0, "first_undecided": [], "undecided_are_converted": False, "without_text": 0}
    assert json.loads(again.stdout) == {"out": "again.txt", "lines": 21, "in_zawgyi": 0, **facts}
    assert hf_sgpe("convert-zawgyi", "my.txt", "-o", "again.txt", "--overwrite", "--quiet", cwd=workplace).stdout == ""


def test_lines_that_can_be_either_are_named(workplace):
    (workplace / "words.txt").write_bytes("သမ႓\r\nအလုပ္သမား\r\n".encode())
    done = hf_sgpe("convert-zawgyi", "words.txt", "-o", "new.txt", cwd=workplace)
    assert done.stdout == "new.txt: 0 of 2 lines were converted from Zawgyi\n"
    stay = "words.txt: 2 of its lines could be in either encoding (lines 1, 2), and are unchanged: --all converts every line"
    assert done.stderr == f"warning: {stay}\n"
    done = hf_sgpe("convert-zawgyi", "words.txt", "-o", "all.txt", "--all", cwd=workplace)
    assert (done.stdout, done.stderr) == ("all.txt: 2 of 2 lines were converted from Zawgyi\n", "")
    assert (workplace / "all.txt").read_bytes() == "သမ္ဘ\r\nအလုပ်သမား\r\n".encode()
    (workplace / "a.jsonl").write_text('{"a": 1}\n{"text": "ကမ႓ာ"}\n', encoding="utf-8")
    done = hf_sgpe("convert-zawgyi", "a.jsonl", "-o", "b.jsonl", cwd=workplace)
    assert done.stdout == "b.jsonl: 1 of 2 lines were converted from Zawgyi; 1 have no text in the field text\n"


def test_wrong_files_are_one_line(workplace):
    for arguments, message in (
        (("my.txt", "--out", "my.txt"), "my.txt is the file to convert: give another name"),
        (
            ("my.txt", "--out", "my.jsonl"),
            "my.jsonl must be the same kind of file as my.txt: give a name that ends in .txt",
        ),
        (("none.txt", "--out", "a.txt"), "none.txt: no such file or folder"),
    ):
        assert hf_sgpe("convert-zawgyi", *arguments, cwd=workplace, code=2).stderr == f"error: {message}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        "count {} --out counts.parquet --recipe bpe",
        "train {} --out new --recipe bpe --vocab-size 280",
        "train unicode.txt --balance {} unicode.txt --out new --recipe bpe --vocab-size 280",
        "extend tok {} --out new --script si --new-tokens 1",
        "evaluate tok {}",
        "card tok --eval my={} --out new",
    ],
)
def test_commands_warn_of_files_in_zawgyi(workplace, arguments):
    """Of Sinhala's tokenizer nothing is to be had from Burmese, so what else commands say differs."""
    share = "100% of its lines in Burmese are in Zawgyi, not in Unicode: convert them with hf-sgpe convert-zawgyi"
    for file, warnings in (("my.txt", [f"warning: my.txt: {share}"]), ("unicode.txt", [])):
        done = hf_sgpe(*arguments.format(file).split(), cwd=workplace, code=None)
        assert [line for line in done.stderr.splitlines() if "Zawgyi" in line] == warnings, done.stderr
    done = hf_sgpe(*arguments.format("my.txt").split(), "--quiet", cwd=workplace, code=None)
    assert "warning" not in done.stderr


def test_converting_every_line_of_a_file_in_unicode_warns(tmp_path):
    (tmp_path / "my.txt").write_text("မြန်မာနိုင်ငံ\nကျောင်းသား\n", encoding="utf-8", newline="\n")
    done = hf_sgpe("convert-zawgyi", "my.txt", "--all", "--out", "new.txt", cwd=tmp_path)
    assert "2 of its lines are in Unicode and 0 in Zawgyi, and --all damages the lines in Unicode" in done.stderr
