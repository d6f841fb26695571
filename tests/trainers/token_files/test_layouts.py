import struct
from contextlib import closing
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, strategies as st

from trainers import SGPEError
from trainers.token_files import layouts
from trainers.token_files.layouts import TOKEN_FORMATS, TokenFormat, add_token_format, token_format

DOCUMENTS = [[5, 65_535, 0], [7], [], [1, 2, 3, 4, 5], [9]]


def write(folder, name, documents, dtype="uint16", blocks=(), stem="shard"):
    tokens = np.array([id for document in documents for id in document], dtype)
    ends = np.cumsum([len(document) for document in documents], dtype=np.int64)
    writer, start, first = TOKEN_FORMATS[name].writer(folder / stem, dtype), 0, 0
    with closing(writer):
        for stop in (*blocks, len(tokens)):
            last = len(ends) if stop == len(tokens) else int(np.searchsorted(ends, stop, "right"))
            writer.write(tokens[start:stop], ends[first:last] - start)
            start, first = stop, last
        writer.finish()
    return {ending: (folder / f"{stem}{ending}") for ending in TOKEN_FORMATS[name].endings}


def megatron(files):
    """Documents of Megatron-LM's files, read as its documentation describes them."""
    index = files[".idx"].read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    letter, width = {8: ("H", 2), 4: ("i", 4)}[code]
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    pointers = struct.unpack_from(f"<{sequences}q", index, 34 + 4 * sequences)
    starts = struct.unpack_from(f"<{documents}q", index, 34 + 12 * sequences)
    assert len(index) == 34 + 12 * sequences + 8 * documents
    assert list(starts) == list(range(sequences + 1))
    tokens = files[".bin"].read_bytes()
    assert len(tokens) == width * sum(lengths)
    return [
        list(struct.unpack_from(f"<{length}{letter}", tokens, pointer))
        for length, pointer in zip(lengths, pointers, strict=True)
    ]


def datatrove(files, letter="H"):
    """Documents of datatrove's files: tokens, and the number of them up to each document's end."""
    tokens, index = files[".ds"].read_bytes(), files[".ds.index"].read_bytes()
    ids = struct.unpack(f"<{len(tokens) // struct.calcsize(letter)}{letter}", tokens)
    ends = struct.unpack(f"<{len(index) // 8}Q", index)
    assert ends[-1] == len(ids)
    return [list(ids[start:stop]) for start, stop in zip((0, *ends), ends, strict=False)]


def parquet(files):
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow: pip install pyarrow")
    table = pq.read_table(files[".parquet"])
    assert table.column_names == ["input_ids"]
    return table["input_ids"].to_pylist()


def test_each_layout_is_read_back(tmp_path):
    assert megatron(write(tmp_path, "megatron", DOCUMENTS)) == DOCUMENTS
    assert datatrove(write(tmp_path, "datatrove", DOCUMENTS)) == DOCUMENTS
    assert parquet(write(tmp_path, "parquet", DOCUMENTS)) == DOCUMENTS
    flat = write(tmp_path, "nanogpt", DOCUMENTS)[".bin"]
    assert np.memmap(flat, "<u2", "r").tolist() == list(chain(*DOCUMENTS))
    wide = [[70_000, 1], [(1 << 31) - 1]]
    assert megatron(write(tmp_path, "megatron", wide, "int32")) == wide
    assert datatrove(write(tmp_path, "datatrove", wide, "uint32"), "I") == wide
    assert parquet(write(tmp_path, "parquet", wide, "uint32")) == wide
    assert np.memmap(write(tmp_path, "nanogpt", wide, "uint32")[".bin"], "<u4", "r").tolist() == list(chain(*wide))


def test_datatroves_own_reader_gives_the_tokens_and_their_places(tmp_path):
    dataset = pytest.importorskip("datatrove.utils.dataset", reason="datatrove reads its own: pip install datatrove")
    pytest.importorskip("torch", reason="datatrove's datasets are of PyTorch: pip install torch")
    documents = [[1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    for dtype, size in (("uint16", 2), ("uint32", 4)):
        path = write(tmp_path, "datatrove", documents, dtype)[".ds"]
        read = dataset.DatatroveFileDataset(str(path), seq_len=4, token_size=size, return_positions=True)
        assert len(read) == 2
        assert [read[0]["input_ids"].tolist(), read[1]["input_ids"].tolist()] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
        assert read[0]["positions"].tolist() == [0, 1, 2, 0, 1]


def test_datasets_reads_rows(tmp_path):
    datasets = pytest.importorskip("datasets", reason="rows are read by datasets: pip install datasets")
    path = write(tmp_path, "parquet", DOCUMENTS)[".parquet"]
    read = datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
    assert read["input_ids"][:] == DOCUMENTS


@given(documents=st.lists(st.lists(st.integers(0, 99), max_size=9), min_size=1), data=st.data())
def test_no_byte_depends_on_where_blocks_end(documents, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    total = sum(map(len, documents))
    blocks = sorted(data.draw(st.lists(st.integers(0, total - 1), max_size=4))) if total else []
    for name in ("megatron", "datatrove", "parquet"):
        if name == "parquet":
            pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install pyarrow")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layouts, "_ROW_GROUP_TOKENS", 7)
            whole = write(folder, name, documents, stem="whole")
            cut = write(folder, name, documents, blocks=blocks, stem="cut")
        for one, other in zip(whole.values(), cut.values(), strict=True):
            assert one.read_bytes() == other.read_bytes()


def test_rows_are_grouped_by_whole_documents(tmp_path, monkeypatch):
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow: pip install pyarrow")
    monkeypatch.setattr(layouts, "_ROW_GROUP_TOKENS", 4)
    path = write(tmp_path, "parquet", DOCUMENTS)[".parquet"]
    about = pq.ParquetFile(path).metadata
    assert [about.row_group(group).num_rows for group in range(about.num_row_groups)] == [2, 2, 1]


def test_a_document_too_long_for_megatron_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(layouts, "_MOST_IN_DOCUMENT", 4)
    with pytest.raises(SGPEError, match=r"5 tokens, .* Megatron-LM"):
        write(tmp_path, "megatron", DOCUMENTS)


@pytest.mark.parametrize(("name", "wide"), [("nanogpt", "uint32"), ("megatron", "int32"), ("parquet", "uint32")])
def test_two_bytes_are_enough_for_65536_ids(name, wide):
    assert [TOKEN_FORMATS[name].dtype(ids) for ids in (300, 65_536, 65_537)] == ["uint16", "uint16", wide]


def test_adding_a_layout_is_adding_a_record(monkeypatch):
    monkeypatch.setattr(layouts, "TOKEN_FORMATS", dict(TOKEN_FORMATS))
    mine = TokenFormat("mine", (".bin",), "as mine", layouts.FlatFile)
    add_token_format(mine)
    assert token_format("mine") is mine
    with pytest.raises(SGPEError, match="already a token format"):
        add_token_format(mine)
    add_token_format(TokenFormat("lacking", (), "", layouts.FlatFile, packages=("no_such_package",)))
    with pytest.raises(SGPEError, match="pip install no_such_package"):
        token_format("lacking")
