import json
import lzma
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.files import PACK

from trainers import SGPEError, find_files, read_lines, read_texts

TEXTS = ["ශ්‍රී ලංකාව\n", "line one\r\nline two", "x" * 3000, "é \u2028 😀"]


def parquet(texts, column="text"):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({column: texts, "n": list(range(len(texts)))}), sink)
    return sink.getvalue().to_pybytes()


def json_lines(texts, field="text"):
    return "\n".join(json.dumps({"n": 1, field: text}) for text in texts).encode()


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("kind", [".txt", ".jsonl", ".parquet"])
def test_every_kind_in_every_packing(tmp_path, kind, packing):
    content = {".txt": "".join(TEXTS).encode(), ".jsonl": json_lines(TEXTS), ".parquet": parquet(TEXTS)}[kind]
    path = tmp_path / f"corpus{kind}{packing}"
    path.write_bytes(PACK[packing](content))
    progress = []
    texts = list(read_texts(path, on_progress=progress.append))
    assert "".join(texts) == "".join(TEXTS)
    if kind != ".txt":
        assert texts == TEXTS
    assert sum(progress) == path.stat().st_size
    assert find_files([tmp_path]) == [path]


def test_a_large_text_file_comes_in_parts(tmp_path):
    path = tmp_path / "a.txt"
    text = "ශ්‍රී ලංකාව and more\n" * 200_000
    path.write_text(text, encoding="utf-8", newline="")
    parts = list(read_texts(path))
    assert len(parts) > 3
    assert "".join(parts) == text


def test_lines_of_text_and_of_json_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo \n\nthree")
    assert list(read_lines(tmp_path / "a.txt")) == ["one", "two ", "", "three"]
    (tmp_path / "a.jsonl").write_bytes(json_lines(["a\nb\n", "c"]))
    assert list(read_lines(tmp_path / "a.jsonl")) == ["a", "b", "c"]


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffහ".encode())
    assert list(read_texts(tmp_path / "a.txt")) == ["හ"]
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + json_lines(["x"]))
    assert list(read_texts(tmp_path / "a.jsonl")) == ["x"]


def test_nothing_below_a_folder_is_left_out_in_silence(tmp_path, monkeypatch):
    corpus = tmp_path / "corpus"
    (corpus / "sub").mkdir(parents=True)
    (corpus / "a.txt").write_text("a")
    (corpus / "sub" / "b.txt").write_text("b")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c.txt").write_text("c")
    (corpus / "linked").symlink_to(tmp_path / "elsewhere")
    (corpus / "sub" / "above").symlink_to(corpus)
    assert [file.name for file in find_files([corpus])] == ["a.txt", "c.txt", "b.txt"]
    (corpus / "d.txt").symlink_to("nowhere.txt")
    for name in (corpus, f"{corpus}/*.txt"):
        with pytest.raises(SGPEError, match=r"d\.txt is a broken link"):
            find_files([name])
    (corpus / "d.txt").unlink()
    if hasattr(os, "mkfifo"):
        os.mkfifo(corpus / "d.txt")
        for name in (corpus, f"{corpus}/*.txt", corpus / "d.txt"):
            with pytest.raises(SGPEError, match=r"d\.txt is not a regular file"):
                find_files([name])
        (corpus / "d.txt").unlink()
    scandir = os.scandir

    def refused(path):
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(SGPEError, match=r"sub: .*Permission denied"):
        find_files([corpus])


def test_folders_globs_and_files(tmp_path):
    for name in ("a.txt", "sub/b.jsonl.gz", "sub/c.md", ".hidden/d.txt", "e.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    names = [str(file.relative_to(tmp_path)) for file in find_files([tmp_path])]
    assert names == ["a.txt", "e.parquet", "sub/b.jsonl.gz"]
    assert find_files([f"{tmp_path}/**/*.gz", tmp_path / "a.txt", tmp_path / "a.txt"]) == [
        tmp_path / "sub" / "b.jsonl.gz",
        tmp_path / "a.txt",
    ]


def test_another_text_field_can_be_read(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines(["x", None], "content"))
    (tmp_path / "a.parquet").write_bytes(parquet(["x", None], "content"))
    for kind in ("jsonl", "parquet"):
        assert list(read_texts(tmp_path / f"a.{kind}", text_field="content")) == ["x"]


def test_a_character_cut_off_at_the_end_or_across_blocks_is_found(tmp_path):
    whole = b"a" * ((1 << 20) - 1) + "හ".encode()
    (tmp_path / "a.txt").write_bytes(whole)
    assert "".join(read_texts(tmp_path / "a.txt")) == whole.decode()
    (tmp_path / "a.txt").write_bytes(whole[:-1])
    with pytest.raises(SGPEError, match=f"byte offset {(1 << 20) - 1}"):
        list(read_texts(tmp_path / "a.txt"))
    (tmp_path / "a.txt").write_bytes(whole[:-1] + b"x")
    with pytest.raises(SGPEError, match=f"byte offset {(1 << 20) - 1}"):
        list(read_texts(tmp_path / "a.txt"))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        *(
            ("a.txt", b"a" * offset + b"\xff rest", f" .* byte offset {offset}: ")
            for offset in (0, 5, (1 << 20) - 1, (1 << 20) + 3)
        ),
        *(
            ("a.jsonl", b'{"text": "fine"}\n' + line + b"\n", f", line 2: {message}")
            for line, message in (
                (b"{", "not valid JSON"),
                (b"[" * 200_000, "not valid JSON"),
                (b'{"body": "x"}', r"no field 'text' \(it has 'body'\)"),
                (b"[1]", "not a JSON object"),
                (b'{"text": 5}', "field 'text' .* int"),
                (b'{"text": "\xff"}', "not UTF-8"),
            )
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_text_names_file_and_place(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SGPEError, match=rf"{name}{message}"):
        list(read_texts(tmp_path / name))


def test_bad_parquet_names_the_file(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(SGPEError, match=r"a\.parquet is damaged"):
        list(read_texts(tmp_path / "a.parquet"))
    (tmp_path / "a.parquet").write_bytes(parquet(["x"], "body"))
    with pytest.raises(SGPEError, match=r"no column 'text' \(it has 'body', 'n'\)"):
        list(read_texts(tmp_path / "a.parquet"))
    not_utf8 = pa.array([b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"text": not_utf8}), tmp_path / "b.parquet")
    with pytest.raises(SGPEError, match=r"b\.parquet is damaged"):
        list(read_texts(tmp_path / "b.parquet"))
    with pytest.raises(SGPEError, match="column 'n' must contain strings, not int"):
        list(read_texts(tmp_path / "a.parquet", text_field="n"))


def test_paths_that_name_nothing(tmp_path):
    with pytest.raises(SGPEError, match=r"nowhere\.txt: no such file or folder"):
        find_files([tmp_path / "nowhere.txt"])
    with pytest.raises(SGPEError, match="no files of a known kind"):
        find_files([tmp_path])
    (tmp_path / "a.pdf").write_bytes(b"")
    with pytest.raises(SGPEError, match=r"a\.pdf: unknown kind of file"):
        find_files([tmp_path / "a.pdf"])
    with pytest.raises(SGPEError, match="no files of a known kind"):
        find_files([f"{tmp_path}/*.pdf"])


@pytest.mark.parametrize("packing", PACK)
def test_several_streams_in_a_file_are_one_text(tmp_path, packing):
    path, pack = tmp_path / f"corpus.txt{packing}", PACK[packing]
    path.write_bytes(pack(b"one ") + pack(b"") + pack(b"two"))
    assert "".join(read_texts(path)) == "one two"
    if packing == ".xz":  # it may be padded
        path.write_bytes(lzma.compress(b"one ") + bytes(4 << 18) + lzma.compress(b"two") + bytes(8))
        assert "".join(read_texts(path)) == "one two"


@pytest.mark.parametrize("packing", [".gz", ".xz", ".bz2", ".zst"])
@pytest.mark.parametrize("junk", [b"x", b"junk behind the last stream", b"\0\0\0\0junk", b"<html>" * 300_000])
def test_junk_behind_the_last_stream_is_an_error(tmp_path, packing, junk):
    path = tmp_path / f"corpus.txt{packing}"
    path.write_bytes(PACK[packing](b"some text") + junk)
    with pytest.raises(SGPEError, match=rf"corpus\.txt\{packing} is damaged"):
        list(read_texts(path))


@pytest.mark.parametrize("packing", [".gz", ".xz", ".bz2", ".zst"])
def test_a_file_that_is_cut_off_or_not_packed_is_an_error(tmp_path, packing):
    path, packed = tmp_path / f"corpus.txt{packing}", PACK[packing](bytes(range(32, 127)) * 9)
    long = PACK[packing](bytes(range(128)) * 500)
    beginnings = (packed[:size] for size in range(1, len(packed)))
    for data in (b"plain text, plain text", long[: len(long) // 2], *beginnings):
        path.write_bytes(data)
        with pytest.raises(SGPEError, match=rf"corpus\.txt\{packing} is damaged or cut off"):
            list(read_texts(path))


@pytest.mark.parametrize("packing", PACK)
def test_no_text_comes_in_parts_longer_than_a_block(tmp_path, packing):
    path = tmp_path / f"corpus.txt{packing}"
    path.write_bytes(PACK[packing](b"ab c" + b"\0" * (5 << 20) + b"d e"))
    parts = list(read_texts(path))
    assert "".join(parts) == "ab c" + "\0" * (5 << 20) + "d e"
    assert max(map(len, parts)) == 1 << 20


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_sgpe.corpora.text_files._LONGEST_LINE", 3 << 20)
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(json_lines(["x" * (2 << 20)]))
    assert list(map(len, read_texts(path))) == [2 << 20]
    path.write_bytes(json_lines(["x" * (5 << 20)]))
    with pytest.raises(SGPEError, match=r"corpus\.jsonl: more than 3 MiB"):
        list(read_texts(path))
