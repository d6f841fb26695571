"""Corpora on a Hub, over HTTP: the texts that the files have, whatever happens to the connection on the way."""

import gzip
import json
import re

import pytest
from huggingface_hub import HfFileSystem
from support.hub import WRITE, running

from hf_sgpe import SGPEError, WordCounts
from hf_sgpe.corpora import hub_files
from hf_sgpe.files import hub
from trainers import TrainingConfig, find_files, read_texts, size_of

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

CONFIG = TrainingConfig(vocab_size=999, scripts=["sinhala"])
RESOLVE = r"^GET /datasets/me/corpus/resolve/"


@pytest.fixture
def texts(sample):
    lines = sample["si"].splitlines()
    return {f"part-{number}": lines[number::4] for number in range(4)}


@pytest.fixture
def files(texts, tmp_path):
    """Path in the repository → content."""
    found = {"README.md": b"# A corpus", "a.txt": "\n".join(texts["part-0"]).encode() * 5}
    found["data/b.jsonl.gz"] = gzip.compress("".join(json.dumps({"text": line}) + "\n" for line in texts["part-1"]).encode())
    for part in ("part-2", "part-3"):
        pq.write_table(pa.table({"number": range(len(texts[part])), "text": texts[part]}), tmp_path / part, row_group_size=9)
        found[f"data/deep/{part}.parquet"] = (tmp_path / part).read_bytes()
    return found


@pytest.fixture
def server(files, tmp_path, monkeypatch):
    monkeypatch.setattr(hub_files, "_RANGE_BYTES", 2_000)  # so that there are several
    monkeypatch.setattr(hub.time, "sleep", lambda seconds: None)
    HfFileSystem.clear_instance_cache()
    with running(tmp_path / "home") as found:
        found.add("datasets/me/corpus", files)
        found.patch(monkeypatch)
        yield found
    HfFileSystem.clear_instance_cache()


def read(*addresses):
    return [text for file in find_files(addresses) for text in read_texts(file)]


def test_files_folders_and_globs_are_found_with_the_commit_they_are_of(server, files):
    commit = server.repositories["datasets/me/corpus"].at().sha
    everything = [f"hf://datasets/me/corpus@{commit}/{path}" for path in sorted(files) if path != "README.md"]
    for address, found in {
        "hf://datasets/me/corpus": everything,
        "hf://datasets/me/corpus@main": everything,
        "hf://datasets/me/corpus/data": everything[1:],
        "hf://datasets/me/corpus/data/*.gz": everything[1:2],
        "hf://datasets/me/corpus/**/*.parquet": everything[2:],
        "hf://datasets/me/corpus/a.txt": everything[:1],
    }.items():
        assert [str(file) for file in find_files([address])] == found
    assert [size_of(file) for file in find_files(["hf://datasets/me/corpus/a.txt"] * 2)] == [len(files["a.txt"])]


def test_their_texts_are_those_of_files_here(server, files, texts, tmp_path):
    for path, content in files.items():
        (tmp_path / "here" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / path).write_bytes(content)
    assert read("hf://datasets/me/corpus") == read(tmp_path / "here")
    assert read("hf://datasets/me/corpus/data") == [*texts["part-1"], *texts["part-2"], *texts["part-3"]]


@pytest.mark.parametrize("how", [{"sent": 700}, {"sent": 0}, {}, {"status": 500}, {"status": 503}, {"status": 429}])
def test_reading_goes_on_where_the_connection_failed(server, how):
    undisturbed = read("hf://datasets/me/corpus")
    before = len(server.requests)
    for name in ("a.txt", "b.jsonl", "part-2", "part-3"):
        server.fail(RESOLVE + rf".*/{name}", times=8, **how)  # more often than the client itself tries
    assert read("hf://datasets/me/corpus") == undisturbed
    assert [fault.times for fault in server.faults] == [0] * 4
    assert len(server.requests) - before > 4 * 8


def test_files_that_cannot_be_found_on_the_hub_end_in_one_line(server):
    for address, message in {
        "hf://datasets/me/nothing": "no such file, folder or repository on the Hub",
        "hf://datasets/me/corpus/none": "no such file, folder or repository on the Hub",
        "hf://datasets/me/corpus@old": "no such file, folder or repository on the Hub",
        "hf://datasets/me/corpus/*.none": "no files of a known kind",
        "hf://datasets/me/corpus/README.md": "no files of a known kind",
        "hf://me": "Repository id must be|namespace/name",
    }.items():
        with pytest.raises(SGPEError, match=rf"^{re.escape(address)}: .*({message})"):
            find_files([address])
    file = find_files(["hf://datasets/me/corpus/a.txt"])[0]
    server.fail(RESOLVE, status=403)
    with pytest.raises(SGPEError, match=r"a\.txt: the token"):
        list(read_texts(file))
    server.faults.clear()
    server.fail(RESOLVE)
    with pytest.raises(SGPEError, match=r"a\.txt: the connection"):
        list(read_texts(file))


def counted(texts, *parts):
    return WordCounts.from_texts([line for part in parts for line in texts[part]], CONFIG)


def test_the_command_line_counts_what_is_on_the_hub(server, texts, tmp_path):
    server.fail(RESOLVE + ".*part-2", sent=300, times=3)
    done = server.hf_sgpe("count", "hf://datasets/me/corpus/data", "--out", tmp_path / "counts", "--script", "sinhala")
    assert done.returncode == 0, done.stderr
    assert WordCounts.load(tmp_path / "counts") == counted(texts, "part-1", "part-2", "part-3")
    commit = server.repositories["datasets/me/corpus"].at().sha
    assert WordCounts.load(tmp_path / "counts").sources[0]["name"] == f"hf://datasets/me/corpus@{commit}/data/b.jsonl.gz"


@pytest.mark.parametrize("how", [{"sent": 700}, {"status": 500}])
def test_a_streamed_dataset_goes_on_where_the_connection_failed(server, files, texts, tmp_path, how):
    pytest.importorskip("datasets", reason="reading datasets needs the package: pip install datasets")
    server.add("datasets/me/set", {path: content for path, content in files.items() if "deep" in path})
    server.fail(r"^GET /datasets/me/set/resolve/.*part-3", times=8, **how)
    done = server.hf_sgpe("count", "--dataset", "me/set", "--streaming", "--out", tmp_path / "counts", "--script", "sinhala")
    assert done.returncode == 0, done.stderr
    assert WordCounts.load(tmp_path / "counts") == counted(texts, "part-2", "part-3")
    assert server.faults[0].times == 0
    assert WRITE not in done.stdout + done.stderr
