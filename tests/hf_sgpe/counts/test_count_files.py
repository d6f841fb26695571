import json

import pytest
from hypothesis import given
from support.texts import COUNTS

from hf_sgpe import SGPEError, TrainingConfig, WordCounts
from hf_sgpe.counts import count_files
from hf_sgpe.counts.word_arrays import bucket_of

pytestmark = pytest.mark.kernels

pa = pytest.importorskip("pyarrow", reason="files of counts are Parquet: pip install pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

BPE = TrainingConfig(vocab_size=300, recipe="bpe", pattern="gpt2", special_tokens=())


def saved(path, counts):
    info = WordCounts(counts, BPE.splitting).save(path)
    return path, info


def words_of(path):
    return {
        word: count
        for _, table in count_files.read(path)
        for word, count in zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True)
    }


@given(counts=COUNTS)
def test_counts_come_back(tmp_path_factory, counts):
    path, info = saved(tmp_path_factory.mktemp("counts") / "a", counts)
    assert words_of(path) == counts
    assert count_files.read_info(path) == info
    assert (info.distinct, info.total) == (len(counts), sum(counts.values()))
    assert info.digest == WordCounts(counts, BPE.splitting).digest()
    buckets = [number for number, _ in count_files.read(path)]
    assert buckets == sorted(set(buckets))


def test_parts_by_bucket_are_the_whole(tmp_path, sample, config):
    counts = WordCounts.from_texts(sample.values(), config)
    counts.save(tmp_path / "counts")
    halves = [range(512), range(512, 1024)]
    found = {}
    for buckets in halves:
        for number, table in count_files.read(tmp_path / "counts", buckets):
            assert number in buckets
            for word, count in zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True):
                assert bucket_of(word) == number
                found[word] = count
    assert found == dict(counts.items())


def test_no_more_is_read_than_the_buckets_need(tmp_path, monkeypatch):
    monkeypatch.setattr(count_files, "_ROWS", 10)
    counts = {str(number).encode(): number + 1 for number in range(500)}
    path, _ = saved(tmp_path / "counts", counts)
    taken = []
    columns = count_files.columns
    monkeypatch.setattr(count_files, "columns", lambda table: taken.append(len(table)) or columns(table))
    found = {}
    for start in range(0, 1024, 64):
        taken.clear()
        for _, table in count_files.read(path, range(start, start + 64)):
            found |= zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True)
        assert sum(taken) < 100
    assert found == counts
    assert list(count_files.read(path, range(0))) == []


def test_a_bucket_that_begins_inside_a_group_of_rows_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(count_files, "_ROWS", 10)
    counts = {str(number).encode(): number + 1 for number in range(5000)}
    path, _ = saved(tmp_path / "counts", counts)
    whole = {number: table.to_pylist() for number, table in count_files.read(path)}
    for number in range(0, 1024, 50):
        alone = {bucket: table.to_pylist() for bucket, table in count_files.read(path, range(number, number + 1))}
        assert alone == {number: whole[number]}


def test_native_counters_write_the_same_file(tmp_path, sample, config):
    from hf_sgpe.counts.counters import WordCounter, make_word_counter

    counters = [make_word_counter(config), WordCounter(config)]
    for number, counter in enumerate(counters):
        counter.add([*sample.values(), "word" * 30, "\ud800"] * 2)
        expected = WordCounts.of_counter(counter, config)
        count_files.write(tmp_path / str(number), (table for _, table in counter.take()), config.splitting)
        assert WordCounts.load(tmp_path / str(number)) == expected
        assert not WordCounts.of_counter(counter, config)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def test_sources_come_along_and_make_no_other_counts(tmp_path):
    one = WordCounts({b"a": 1}, BPE.splitting, sources=[{"name": "si.txt", "bytes": 5}])
    two = WordCounts({b"a": 1}, BPE.splitting, sources=[{"name": "en.txt", "bytes": 7}])
    assert one == two and one.digest() == two.digest()
    (one + two).save(tmp_path / "sum")
    assert [source["name"] for source in count_files.read_info(tmp_path / "sum").sources] == ["si.txt", "en.txt"]
    assert WordCounts.load(tmp_path / "sum").sources == ({"name": "si.txt", "bytes": 5}, {"name": "en.txt", "bytes": 7})


def rewritten(path, change=lambda words, counts: (words, counts), **metadata):
    """The file with other words, counts or metadata."""
    table = pq.read_table(path)
    said = json.loads(pq.read_metadata(path).metadata[b"hf_sgpe.word_counts"])
    words, counts = change(table["word"].to_pylist(), table["count"].to_pylist())
    columns = {"word": pa.array(words, pa.large_binary()), "count": pa.array(counts, pa.int64())}
    made = pa.table(columns).replace_schema_metadata({"hf_sgpe.word_counts": json.dumps(said | metadata)})
    pq.write_table(made, path)


@pytest.mark.parametrize(
    ("change", "metadata", "reason"),
    [
        (lambda words, counts: (words, [*counts[:-1], counts[-1] + 1]), {}, "its words do not match its digest"),
        (lambda words, counts: (words[:-1], counts[:-1]), {}, "its words do not match its digest"),
        (lambda words, counts: (words[::-1], counts), {}, "its words are out of order"),
        (lambda words, counts: (words, [0, *counts[1:]]), {}, "it has an empty word, or a count below 1"),
        (lambda words, counts: ([b"", *words[1:]], counts), {}, "it has an empty word, or a count below 1"),
        (lambda words, counts: (words, counts), {"format": 99}, "it has a later format"),
        (lambda words, counts: (words, counts), {"counting": 5}, "its metadata is invalid"),
        (lambda words, counts: (words, counts), {"more": 5}, "unexpected keyword argument 'more'"),
    ],
)
def test_files_that_cannot_be_are_named(tmp_path, change, metadata, reason):
    path, _ = saved(tmp_path / "counts", {b"a": 1, b"b": 2, b"c": 3, b"d": 4})
    rewritten(path, change, **metadata)
    with pytest.raises(SGPEError, match=rf"counts is damaged .*{reason}"):
        words_of(path)


def test_files_of_other_kinds_are_named(tmp_path):
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "text.parquet")
    with pytest.raises(SGPEError, match=r"text\.parquet .* does not record how"):
        count_files.read_info(tmp_path / "text.parquet")
    path, _ = saved(tmp_path / "counts", {b"a": 1})
    said = {"hf_sgpe.word_counts": pq.read_metadata(path).metadata[b"hf_sgpe.word_counts"]}
    pq.write_table(pa.table({"word": ["a"], "count": [1]}).replace_schema_metadata(said), path)
    with pytest.raises(SGPEError, match="its columns are not word and count"):
        count_files.read_info(path)
    with pytest.raises(FileNotFoundError):
        count_files.read_info(tmp_path / "nothing")
