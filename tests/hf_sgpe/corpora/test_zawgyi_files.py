import json

import pytest
from support.files import PACK

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.corpora.zawgyi_files import Converted, _share_in_zawgyi, convert_zawgyi, warn_of_zawgyi
from trainers import SGPEError, read_lines, read_texts

ZAWGYI, UNICODE = "ျမန္မာစာ ေက်ာင္း", "မြန်မာစာ ကျောင်း"


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def test_a_warning_names_the_file_and_what_to_do(tmp_path, caplog):
    files = [write(tmp_path / "a.txt", f"{UNICODE}\n" * 9), write(tmp_path / "b.txt", f"{ZAWGYI}\n{UNICODE}\nabc\n")]
    warn_of_zawgyi(Corpus(tuple(files)))
    expected = (
        f"{files[1]}: 50% of its lines in Burmese are in Zawgyi, not in Unicode: convert them with hf-sgpe convert-zawgyi"
    )
    assert caplog.messages == [expected]


def test_several_files_and_datasets_take_one_line(tmp_path, caplog):
    files = [write(tmp_path / f"{name}.txt", f"{ZAWGYI}\n") for name in "abc"]
    warn_of_zawgyi(*(Corpus((file,)) for file in files[:2]))
    warn_of_zawgyi(Corpus(tuple(files), ([ZAWGYI], [UNICODE], iter([ZAWGYI]))))
    assert [message.partition(": ")[2].partition(":")[0] for message in caplog.messages] == [
        "100% of its lines in Burmese are in Zawgyi, not in Unicode, and so are lines in 1 other source",
        "100% of its lines in Burmese are in Zawgyi, not in Unicode, and so are lines in 3 other sources",
    ]


def test_text_in_unicode_gives_no_warning(tmp_path, caplog):
    texts = ["", "one\n", f"{UNICODE}\n" * 30 + f"{ZAWGYI}\n", "ශ්‍රී ලංකාව\n"]
    files = [write(tmp_path / f"{number}.txt", text) for number, text in enumerate(texts)]
    warn_of_zawgyi(Corpus(tuple(files)), Corpus())
    assert caplog.messages == []


def test_only_the_beginning_is_looked_at(tmp_path, caplog):
    warn_of_zawgyi(Corpus((write(tmp_path / "a.txt", "one two\n" * 200_000 + f"{ZAWGYI}\n" * 100),)))
    assert caplog.messages == []
    assert _share_in_zawgyi(["one", "two\n"]) == 0


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


# Alone, these can be either.
OPEN, OPEN_CONVERTED = "အလုပ္သမား", "အလုပ်သမား"


def test_the_file_decides_what_a_line_leaves_open(tmp_path, caplog):
    source, out = (
        write(tmp_path / "a.txt", f"{OPEN}\n{ZAWGYI}\nကမာ\n\n{OPEN}\nabc\n{ZAWGYI}\n{UNICODE}\n"),
        tmp_path / "b.txt",
    )
    assert convert_zawgyi(source, out) == Converted(8, 4, 2, (1, 5), True)
    assert list(read_lines(out)) == [OPEN_CONVERTED, UNICODE, "ကမာ", "", OPEN_CONVERTED, "abc", UNICODE, UNICODE]
    named = f"{source}: 2 of its lines could be in either encoding (lines 1, 5), and"
    assert caplog.messages == [f"{named} were converted, because most other lines are in Zawgyi"]
    caplog.clear()
    # As much of one as of the other: nothing is decided.
    write(source, f"{OPEN}\n{ZAWGYI}\n" + f"{UNICODE}\n{OPEN}\n")
    assert convert_zawgyi(source, out) == Converted(4, 1, 2, (1, 4))
    assert list(read_lines(out)) == [OPEN, UNICODE, UNICODE, OPEN]
    assert caplog.messages[0].endswith("(lines 1, 4), and are unchanged: --all converts every line")
    assert convert_zawgyi(write(source, f"{OPEN}\n" * 30), out).first_undecided == tuple(range(1, 11))
    assert "(lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)" in caplog.messages[-1]
    caplog.clear()
    write(source, f"{OPEN}\n{ZAWGYI}\n" + f"{UNICODE}\n" * 2)
    assert convert_zawgyi(source, out) == Converted(4, 1, 1, (1,))
    assert caplog.messages[-1].endswith("(line 1), and are unchanged, because most other lines are in Unicode")
    caplog.clear()
    # What is in Unicode leaves no doubt.
    assert convert_zawgyi(write(source, f"{OPEN}\n" + f"{UNICODE}\n"), out) == Converted(2, 0, 1, (1,))
    assert out.read_bytes() == source.read_bytes()
    assert caplog.messages == []


def test_all_lines_are_converted_on_demand(tmp_path, caplog):
    source = write(tmp_path / "a.txt", f"{OPEN}\n{ZAWGYI}\nabc\n")
    assert convert_zawgyi(source, tmp_path / "b.txt", convert_all=True) == Converted(3, 2)
    assert list(read_lines(tmp_path / "b.txt")) == [OPEN_CONVERTED, UNICODE, "abc"]
    assert caplog.messages == []


@pytest.mark.parametrize("packing", PACK)
def test_line_ends_stay(tmp_path, packing):
    source, out = tmp_path / f"a.txt{packing}", tmp_path / f"b.txt{packing}"
    text = f"{ZAWGYI}\r\n\r\nabc\r\n{OPEN}\n{ZAWGYI}\r{{}}"
    for end in ("", "\n", "\r\n"):
        source.write_bytes(PACK[packing](text.format(end).encode()))
        convert_zawgyi(source, out)
        same = tmp_path / "same.txt"
        convert_zawgyi(out, same)
        expected = text.format(end).replace(ZAWGYI, UNICODE).replace(OPEN, OPEN_CONVERTED)
        assert same.read_bytes().decode() == expected


def test_json_without_text_is_passed_on(tmp_path):
    given = [
        '{"a":  1.50, "text": "abc"}\r\n',
        "\n",
        '{"a": 1}\r\n',
        "[1,2]\n",
        f'{{"text": "{ZAWGYI}", "n": 1}}\r\n',
        '{"text": 7}\n',
        '{"text": null}\n',
        f'{{"text": "{OPEN}\\n{UNICODE}"}}',
    ]
    source, out = write(tmp_path / "a.jsonl", "".join(given)), tmp_path / "b.jsonl"
    # One line is in Zawgyi, and one in Unicode.
    assert convert_zawgyi(source, out) == Converted(8, 1, 1, (8,), False, 3)
    expected = "".join(given).replace(ZAWGYI, UNICODE)
    assert out.read_bytes().decode() == expected
    write(source, "".join(given) + f'\n{{"text": "{ZAWGYI}"}}')
    assert convert_zawgyi(source, out) == Converted(9, 3, 1, (8,), True, 3)
    assert OPEN_CONVERTED in out.read_text(encoding="utf-8")
    with pytest.raises(SGPEError, match="no line has text in the field 'body'"):
        convert_zawgyi(source, out, text_field="body")
    assert convert_zawgyi(write(source, ""), out) == Converted(0, 0)


def test_files_that_cannot_be_converted_are_refused(tmp_path):
    source = write(tmp_path / "a.txt", ZAWGYI)
    (tmp_path / "a.parquet").touch()
    (tmp_path / "latin1.txt").write_bytes(b"abc\ncaf\xe9")
    for path, out, message in (
        (source, "a.txt", "is the file to convert"),
        (source, "b.jsonl", r"ends in \.txt"),
        (source, "b", r"ends in \.txt"),
        (tmp_path / "a.parquet", "b.parquet", "is neither text nor JSON Lines"),
        (tmp_path / "none.txt", "b.txt", "no such file"),
        (tmp_path, "b.txt", "names 2 files|3 files"),
        (tmp_path / "latin1.txt", "b.txt", "not UTF-8 at byte offset 7"),
    ):
        with pytest.raises(SGPEError, match=message):
            convert_zawgyi(path, tmp_path / out)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.parquet", "a.txt", "latin1.txt"]
    assert source.read_text(encoding="utf-8") == ZAWGYI
