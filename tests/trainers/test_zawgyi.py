"""Files in Zawgyi are named in a warning, and converted."""

import json

import pytest
from support.files import PACK

from trainers import SGPEError, read_lines, read_texts
from trainers.zawgyi import Converted, convert_zawgyi, share_in_zawgyi, warn_of_zawgyi

ZAWGYI, UNICODE = "ျမန္မာစာ ေက်ာင္း", "မြန်မာစာ ကျောင်း"


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def test_a_warning_names_the_file_and_what_to_do(tmp_path, caplog):
    files = [write(tmp_path / "a.txt", f"{UNICODE}\n" * 9), write(tmp_path / "b.txt", f"{ZAWGYI}\n{UNICODE}\nabc\n")]
    warn_of_zawgyi(files)
    expected = (
        f"{files[1]}: 50% of its lines in Burmese are in Zawgyi, not in Unicode: convert them by hf-sgpe convert-zawgyi"
    )
    assert caplog.messages == [expected]


def test_several_files_and_datasets_take_one_line(tmp_path, caplog):
    files = [write(tmp_path / f"{name}.txt", f"{ZAWGYI}\n") for name in "abc"]
    warn_of_zawgyi(files[:2])
    warn_of_zawgyi(files, {"user/name": [ZAWGYI], "other/name": [UNICODE]})
    assert [message.partition(": ")[2].partition(":")[0] for message in caplog.messages] == [
        "100% of its lines in Burmese are in Zawgyi, not in Unicode, and more in 1 other",
        "100% of its lines in Burmese are in Zawgyi, not in Unicode, and more in 3 others",
    ]


def test_nothing_is_said_of_other_text(tmp_path, caplog):
    texts = ["", "one\n", f"{UNICODE}\n" * 30 + f"{ZAWGYI}\n", "ශ්‍රී ලංකාව\n"]
    warn_of_zawgyi([write(tmp_path / f"{number}.txt", text) for number, text in enumerate(texts)])
    warn_of_zawgyi([])
    assert caplog.messages == []


def test_only_the_beginning_is_looked_at(tmp_path, caplog):
    warn_of_zawgyi([write(tmp_path / "a.txt", "one two\n" * 200_000 + f"{ZAWGYI}\n" * 100)])
    assert caplog.messages == []
    assert share_in_zawgyi(["one", "two\n"]) == 0


@pytest.mark.parametrize("packing", PACK)
def test_text_is_converted_line_by_line(tmp_path, packing):
    source, out = tmp_path / f"a.txt{packing}", tmp_path / f"new/b.txt{packing}"
    source.write_bytes(PACK[packing](f"{ZAWGYI}\n\nabc\n{UNICODE}".encode()))
    assert convert_zawgyi(source, out) == Converted(lines=4, in_zawgyi=1)
    assert list(read_lines(out)) == [UNICODE, "", "abc", UNICODE]
    assert [file.name for file in out.parent.iterdir()] == [out.name]
    first = out.read_bytes()
    assert convert_zawgyi(out, tmp_path / f"c.txt{packing}") == Converted(lines=4, in_zawgyi=0)
    assert (tmp_path / f"c.txt{packing}").read_bytes() == first


def test_other_fields_of_json_lines_stay(tmp_path):
    records = [{"n": 1, "body": f"{ZAWGYI}\n{UNICODE}"}, {"body": None}, {"body": "x\ud800", "t": ZAWGYI}]
    write(tmp_path / "a.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    assert convert_zawgyi(tmp_path / "a.jsonl", tmp_path / "b.jsonl", text_field="body") == Converted(3, 1)
    written = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text(encoding="utf-8").splitlines()]
    assert written == [{"n": 1, "body": f"{UNICODE}\n{UNICODE}"}, *records[1:]]
    assert next(iter(read_texts(tmp_path / "b.jsonl", text_field="body"))) == f"{UNICODE}\n{UNICODE}"


def test_what_cannot_be_converted_is_refused(tmp_path):
    source = write(tmp_path / "a.txt", ZAWGYI)
    (tmp_path / "a.parquet").touch()
    (tmp_path / "latin1.txt").write_bytes(b"abc\ncaf\xe9")
    for path, out, message in (
        (source, "a.txt", "is the file that is converted"),
        (source, "b.jsonl", r"ends in \.txt"),
        (source, "b", r"ends in \.txt"),
        (tmp_path / "a.parquet", "b.parquet", "only text and JSON Lines"),
        (tmp_path / "none.txt", "b.txt", "no such file"),
        (tmp_path, "b.txt", "names 2 files|3 files"),
        (tmp_path / "latin1.txt", "b.txt", "not UTF-8 at byte offset 7"),
    ):
        with pytest.raises(SGPEError, match=message):
            convert_zawgyi(path, tmp_path / out)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.parquet", "a.txt", "latin1.txt"]
    assert source.read_text(encoding="utf-8") == ZAWGYI
