import gzip
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from support.kernels import readable_only

from hf_sgpe import BPETokenizer
from hf_sgpe.corpora.text_files import read_documents
from hf_sgpe.files.resuming import alone_in
from trainers import SGPEError, tokenize_corpus
from trainers.token_files import token_shards, tokenizing

pytestmark = pytest.mark.kernels

END = "<|endoftext|>"


@pytest.fixture
def small(monkeypatch):
    """Parts, batches and blocks of files that are so small that all of them have several."""
    monkeypatch.setattr(token_shards, "_PART_BYTES", 20_000)
    monkeypatch.setattr(token_shards, "_BATCH_CHARACTERS", 700)


@pytest.fixture(scope="module")
def corpus(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    documents = []
    odd = ["", f"text with {END} in it", "\ud800 alone", "e\u0301", "x" * 3000, "  \n"]
    for number, (language, text) in enumerate(sorted(sample.items())):
        lines = [*text.splitlines()[:300], *odd]
        written = "".join(json.dumps({"text": line, "number": 1}) + "\n" for line in [*lines, None])
        (folder / f"{number}-a.jsonl").write_text(written, encoding="utf-8")
        documents += filter(None, lines)
        (folder / f"{number}-b.txt.gz").write_bytes(gzip.compress(text.encode()))
        documents.append(text)
        (folder / f"{number}-empty-{language}.txt").touch()
    return folder, documents


def written(out):
    """All files of a folder, hidden ones included."""
    return {str(file.relative_to(out)): file.read_bytes() for file in sorted(out.rglob("*")) if file.is_file()}


def ids_of(out, dtype="<u2"):
    return np.concatenate([np.fromfile(file, dtype) for file in sorted(out.glob("*.bin"))])


@pytest.mark.parametrize("chosen", [nullcontext, readable_only])
def test_the_ids_are_those_of_encode(corpus, tokenizer, tmp_path, small, chosen):
    folder, documents = corpus
    with chosen():
        same = BPETokenizer.of(tokenizer.data)
        done = tokenize_corpus(folder, same, tmp_path / "out", shard_tokens=5000, workers=1)
    expected = [id for text in documents for id in (*tokenizer.encode(text), tokenizer.eos_token_id)]
    assert ids_of(tmp_path / "out").tolist() == expected
    assert (done.documents, done.tokens, done.dtype) == (len(documents), len(expected), "uint16")
    assert done.text_bytes == done.new_text_bytes == sum(len(text.encode("utf-8", "surrogatepass")) for text in documents)
    assert done.shards == len(list((tmp_path / "out").glob("*.bin"))) > 3
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["complete"] and manifest["tokens"] == len(expected)
    assert sum(shard["documents"] for shard in manifest["shards"]) == len(documents)
    assert [source["name"] for source in manifest["settings"]["sources"]] == list(map(str, sorted(folder.iterdir())))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("form", ["nanogpt", "megatron", "datatrove", "parquet"])
def test_any_number_of_workers_gives_the_same_bytes(corpus, tokenizer, tmp_path, small, form):
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install pyarrow")
    folder, _ = corpus
    options = {"format": form, "shard_tokens": 3000, "progress": False}
    for workers in (1, 2, 5):
        tokenize_corpus(folder, tokenizer, tmp_path / str(workers), workers=workers, **options)
    assert written(tmp_path / "1") == written(tmp_path / "2") == written(tmp_path / "5")
    assert not any(name.startswith(".") for name in written(tmp_path / "1"))


def test_threads_share_the_only_part(corpus, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(token_shards, "_BATCH_CHARACTERS", 700)
    for workers in (1, 4):
        tokenize_corpus(corpus[0], tokenizer, tmp_path / str(workers), workers=workers)
    assert written(tmp_path / "1") == written(tmp_path / "4")


def test_lines_of_text_files_can_be_documents(tokenizer, tmp_path):
    (tmp_path / "a.txt").write_bytes("one two\r\n\nශ්‍රී ලංකාව\nlast".encode())
    (tmp_path / "a.jsonl").write_text(json.dumps({"body": "two\nlines"}))
    files = [tmp_path / "a.txt", tmp_path / "a.jsonl"]
    tokenize_corpus(files, tokenizer, tmp_path / "out", lines=True, text_field="body")
    documents = ["one two", "ශ්‍රී ලංකාව", "last", "two\nlines"]
    expected = [id for text in documents for id in (*tokenizer.encode(text), tokenizer.eos_token_id)]
    assert ids_of(tmp_path / "out").tolist() == expected


def test_a_long_document_without_a_place_to_cut_keeps_its_ids(tokenizer, tmp_path, monkeypatch):
    """However long a stretch is in which the reader sees no place where words are sure to end."""
    monkeypatch.setattr("hf_sgpe.corpora.text_files._BLOCK_BYTES", 100)
    text = "ab" * 400 + "word, " * 50 + "漢" * 300 + "\n \n" * 100 + "क्षि" * 200
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    parts = list(read_documents(tmp_path / "a.txt"))
    assert len(parts) > 2 and [ends for _, ends in parts] == [False] * (len(parts) - 1) + [True]
    tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "out")
    assert ids_of(tmp_path / "out").tolist() == [*tokenizer.encode(text), tokenizer.eos_token_id]


def test_a_pattern_of_ones_own_never_sees_a_cut(sample, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_sgpe.corpora.text_files._BLOCK_BYTES", 100)
    mine = BPETokenizer.train_from_iterator([sample["en"]], 600, pattern=r"\w+ \w+|\s+|.", special_tokens=[END])
    (tmp_path / "a.txt").write_text(sample["en"][:5000], encoding="utf-8")
    assert list(read_documents(tmp_path / "a.txt", whole=True)) == [(sample["en"][:5000], True)]
    tokenize_corpus(tmp_path / "a.txt", mine, tmp_path / "out")
    assert ids_of(tmp_path / "out").tolist() == [*mine.encode(sample["en"][:5000]), mine.eos_token_id]


def test_added_tokens_are_found_and_never_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_sgpe.corpora.text_files._BLOCK_BYTES", 100)
    plain = BPETokenizer.train_from_iterator(["thinking"], 300, special_tokens=[END])
    added = BPETokenizer(
        plain.vocab, plain.merges, splitting=plain.splitting, special_tokens={END: 400}, added_tokens={"a word": 401}
    )
    text = "this is a word of a word " * 30
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    tokenize_corpus(tmp_path / "a.txt", added, tmp_path / "out")
    assert ids_of(tmp_path / "out").tolist() == [*added.encode(text), 400]
    assert 401 in ids_of(tmp_path / "out")


@pytest.mark.parametrize(("ids", "dtype"), [(65_536, "uint16"), (65_537, "uint32")])
def test_ids_take_two_bytes_up_to_65535(tmp_path, ids, dtype):
    plain = BPETokenizer.train_from_iterator(["low"], 260)
    wide = BPETokenizer(plain.vocab, plain.merges, splitting=plain.splitting, special_tokens={END: ids - 1})
    (tmp_path / "a.txt").write_text("low")
    assert tokenize_corpus(tmp_path / "a.txt", wide, tmp_path / "out").dtype == dtype
    assert ids_of(tmp_path / "out", dtype).tolist() == [*wide.encode("low"), ids - 1]


def test_the_token_that_ends_a_document_can_be_chosen(tmp_path):
    plain = BPETokenizer.train_from_iterator(["low"], 262, special_tokens=["<a>", "<b>"])
    (tmp_path / "a.txt").write_text("low")
    with pytest.raises(SGPEError, match=r"no eos token .* \(<a>, <b>\)"):
        tokenize_corpus(tmp_path / "a.txt", plain, tmp_path / "out")
    tokenize_corpus(tmp_path / "a.txt", plain, tmp_path / "out", end_token="<b>")
    assert ids_of(tmp_path / "out").tolist() == [*plain.encode("low"), plain.special_tokens["<b>"]]
    with pytest.raises(SGPEError, match=r"'<c>' .* <a>, <b>"):
        tokenize_corpus(tmp_path / "a.txt", plain, tmp_path / "other", end_token="<c>")
    with pytest.raises(SGPEError, match="nanogpt"):
        tokenize_corpus(tmp_path / "a.txt", plain, tmp_path / "other", end_token=False)
    tokenize_corpus(tmp_path / "a.txt", plain, tmp_path / "none", end_token=False, format="megatron")
    assert ids_of(tmp_path / "none").tolist() == plain.encode("low")
    assert not (tmp_path / "other").exists()


def test_existing_shards_are_not_written_again(corpus, tokenizer, tmp_path, small, monkeypatch):
    folder, _ = corpus
    first = tokenize_corpus(folder, tokenizer, tmp_path / "out", shard_tokens=5000)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir() if file.suffix == ".bin"}
    monkeypatch.setattr(token_shards, "read_documents", None)  # nothing is read
    again = tokenize_corpus(folder, tokenizer, tmp_path / "out", shard_tokens=5000, workers=1)
    assert (again.tokens, again.new_text_bytes) == (first.tokens, 0)
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir() if file.suffix == ".bin"}


def test_files_that_were_lost_or_cut_are_made_again(corpus, tokenizer, tmp_path, small):
    folder, _ = corpus
    tokenize_corpus(folder, tokenizer, tmp_path / "out", shard_tokens=3000)
    whole = written(tmp_path / "out")
    one, *_, other = sorted((tmp_path / "out").glob("*.bin"))
    one.write_bytes(b"")
    other.unlink()
    assert tokenize_corpus(folder, tokenizer, tmp_path / "out", shard_tokens=3000).new_text_bytes > 0
    assert written(tmp_path / "out") == whole


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_keeps_complete_shards_and_another_run_goes_on(corpus, tokenizer, tmp_path, small, monkeypatch, workers):
    folder, _ = corpus
    options = {"shard_tokens": 3000, "format": "megatron", "workers": workers}
    tokenize_corpus(folder, tokenizer, tmp_path / "whole", **options)
    for _ in range(3):
        left = [12]
        encode = token_shards.TokenizingJob._encode

        def failing(job, batch, left=left, encode=encode):
            left[0] -= 1
            if left[0] < 0:
                raise SGPEError("no more")
            return encode(job, batch)

        with monkeypatch.context() as patch, pytest.raises(SGPEError, match="no more"):
            patch.setattr(token_shards.TokenizingJob, "_encode", failing)
            tokenize_corpus(folder, tokenizer, tmp_path / "out", **options)
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["complete"] is False
    last = tokenize_corpus(folder, tokenizer, tmp_path / "out", **options)
    assert 0 < last.new_text_bytes < last.text_bytes
    assert written(tmp_path / "out") == written(tmp_path / "whole")


def test_a_failure_between_a_shard_and_its_note_blocks_no_other_run(tokenizer, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("one two")

    def failing(job, part, progress):
        raise OSError("the disk is full")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(token_shards.TokenizingJob, "_save_progress", failing)
        tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "out")
    assert tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "out").documents == 1
    assert sorted(written(tmp_path / "out")) == ["00000-00000.bin", "manifest.json"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_kill_9_loses_only_what_was_not_complete(sample, saved, tmp_path, workers):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(sample["si"] * 60 + sample["en"] * 60, encoding="utf-8")
    code = "import sys; from trainers import tokenize_corpus; from trainers.token_files import token_shards;"
    code += "token_shards._PART_BYTES = 1 << 20;"
    code += f"tokenize_corpus(sys.argv[3:], sys.argv[1], sys.argv[2], lines=True, shard_tokens=50_000, workers={workers})"
    files = [str(tmp_path / f"{number}.txt") for number in range(3)]

    def start(out):
        return subprocess.Popen([sys.executable, "-c", code, str(saved), str(tmp_path / out), *files])

    def bins():
        return len(list((tmp_path / "out").glob("*.bin")))

    assert start("whole").wait() == 0
    source, killed = random.Random(1), 0
    for _ in range(6):
        before = bins()
        process = start("out")
        while process.poll() is None and bins() == before:  # until it has got on
            time.sleep(0.002)
        time.sleep(source.uniform(0, 0.05))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed and bins()
    assert start("out").wait() == 0
    assert written(tmp_path / "out") == written(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc to look at")
def test_workers_end_with_the_process_that_started_them(sample, saved, tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.txt").write_text(sample["en"] * 4000, encoding="utf-8")
    code = "import sys; from trainers import tokenize_corpus; from trainers.token_files import token_shards;"
    code += "token_shards._PART_BYTES = 1 << 20;"
    code += "tokenize_corpus(sys.argv[3:], sys.argv[1], sys.argv[2], workers=2)"
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", code, saved, out, tmp_path / "0.txt", tmp_path / "1.txt"])
    children, wanted = [], time.monotonic() + 60
    while len(children) < 2 and process.poll() is None and time.monotonic() < wanted:
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:  # noqa: PTH123
            children = file.read().split()
        time.sleep(0.01)
    process.kill()
    process.wait()
    wanted = time.monotonic() + 10
    while any(map(_runs, children)) and time.monotonic() < wanted:
        time.sleep(0.05)
    assert len(children) == 2
    assert not any(map(_runs, children))


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"format": "megatron"}, 'with format "nanogpt", but "megatron" is requested'),
        ({"end_token": "<|x|>"}, r"with end_token_id \d+, but \d+ is requested"),
        ({"shard_tokens": 7}, "with shard_tokens 100, but 7 is requested"),
        ({"lines": True}, "with lines false, but true is requested"),
        ({"files": "b.txt"}, r"of another corpus \(b.txt is another file, or has changed\)"),
        ({"tokenizer": None}, "with another tokenizer"),
    ],
)
def test_a_folder_of_other_settings_is_refused(tmp_path, monkeypatch, changed, said):
    monkeypatch.chdir(tmp_path)
    mine = BPETokenizer.train_from_iterator(["low"], 262, special_tokens=[END, "<|x|>"])
    other = BPETokenizer.train_from_iterator(["high"], 262, special_tokens=[END, "<|x|>"])
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("low lower")
    options = {"files": "a.txt", "tokenizer": mine, "shard_tokens": 100}
    tokenize_corpus(out="out", **options)
    before = written(tmp_path / "out")
    changed = {"tokenizer": other} if "tokenizer" in changed else changed
    with pytest.raises(SGPEError, match=rf"^out has tokens made {said}: give another --out, or remove this folder$"):
        tokenize_corpus(out="out", **(options | changed))
    assert written(tmp_path / "out") == before
    for files in ("*.txt", ["b.txt", "a.txt"]):
        with pytest.raises(SGPEError, match=r"of another corpus \(b.txt was not in the corpus before\)"):
            tokenize_corpus(out="out", **(options | {"tokenizer": mine, "files": files}))
    tokenize_corpus(out="both", **(options | {"files": ["a.txt", "b.txt"]}))
    with pytest.raises(SGPEError, match=r"of another corpus \(b.txt is no longer in the corpus\)"):
        tokenize_corpus(out="both", **options)
    os.utime(tmp_path / "a.txt", ns=(1, 1))
    with pytest.raises(SGPEError, match=r"of another corpus \(a.txt is another file, or has changed\)"):
        tokenize_corpus(out="out", **options)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_before_the_first_shard_leaves_nothing(tokenizer, tmp_path, small, workers):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_bytes(b"caf\xe9" * 10_000)
    with pytest.raises(SGPEError, match=r"\d\.txt is not UTF-8 at byte offset 3"):
        tokenize_corpus(tmp_path, tokenizer, tmp_path / "new" / "out", workers=workers)
    (tmp_path / "empty.txt").touch()
    with pytest.raises(SGPEError, match=r"empty\.txt: no text to tokenize"):
        tokenize_corpus(tmp_path / "empty.txt", tokenizer, tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()
    (tmp_path / "here").mkdir()
    with pytest.raises(SGPEError, match="not UTF-8"):
        tokenize_corpus(tmp_path / "0.txt", tokenizer, tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


def test_folders_of_others_are_left_alone(tokenizer, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(SGPEError, match="out has other files"):
        tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "out")
    with pytest.raises(SGPEError, match="out is the corpus, or contains all of it"):
        tokenize_corpus(tmp_path / "out" / "mine.txt", tokenizer, tmp_path / "out")
    with pytest.raises(NotADirectoryError, match=r"a\.txt is a file"):
        tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "a.txt")
    (tmp_path / "out" / "mine.txt").rename(tmp_path / "out" / "manifest.json")
    with pytest.raises(SGPEError, match=r"manifest\.json: not valid JSON"):
        tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text('{"settings": 5}')
    with pytest.raises(SGPEError, match=r"manifest\.json is damaged"):
        tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "out")


def test_a_folder_inside_the_corpus_is_not_part_of_it(tokenizer, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install pyarrow")
    (tmp_path / "a.txt").write_text("a b c")
    first = tokenize_corpus(tmp_path, tokenizer, tmp_path / "out", format="parquet")
    assert tokenize_corpus(tmp_path, tokenizer, tmp_path / "out", format="parquet").tokens == first.tokens


def test_one_run_at_a_time(tokenizer, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(tokenizing, "alone_in", partial(alone_in, patience=0.2))
    with alone_in(tmp_path / "out"), pytest.raises(OSError, match="another process writes to this folder"):
        tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "out")
    tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "out")


def test_inside_a_pool_one_process_does_it(corpus, saved, tmp_path, small):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        inside = pool.apply(tokenize_corpus, (corpus[0], saved, tmp_path / "a"), {"workers": 2})
    assert inside.tokens == tokenize_corpus(corpus[0], saved, tmp_path / "b", workers=1).tokens


def test_a_worker_that_is_killed_is_said_in_one_line(corpus, tokenizer, tmp_path, small, monkeypatch):
    monkeypatch.setattr(token_shards.TokenizingJob, "_encode", lambda job, batch: os.kill(os.getpid(), signal.SIGKILL))
    monkeypatch.setattr(tokenizing, "process_context", lambda: multiprocessing.get_context("fork"))
    with pytest.raises(SGPEError, match="a worker ended early"):
        tokenize_corpus(corpus[0], tokenizer, tmp_path / "out", workers=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_tasks_of_datatrove_write_the_same_folder(corpus, saved, tmp_path, small):
    pytest.importorskip("datatrove", reason="working on a cluster needs datatrove: pip install datatrove")
    from datatrove.executor import LocalPipelineExecutor

    from trainers.cluster import TokenizeFiles

    options = {"format": "megatron", "shard_tokens": 3000}
    tokenize_corpus(corpus[0], saved, tmp_path / "whole", **options)
    step = TokenizeFiles(corpus[0], saved, tmp_path / "out", **options)
    assert step.parts > 3
    for _ in range(2):  # the second time there is nothing to do
        executor = LocalPipelineExecutor([step], tasks=3, logging_dir=str(tmp_path / "logs"), skip_completed=False)
        executor.run()
    assert tokenize_corpus(corpus[0], saved, tmp_path / "out", **options).new_text_bytes == 0
    assert written(tmp_path / "out") == written(tmp_path / "whole")


def test_a_corpus_that_is_no_file_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer = BPETokenizer.train_from_iterator(["low"], 258, special_tokens=[END])
    with pytest.raises(SGPEError, match=r"nothing to tokenize"):
        tokenize_corpus([], tokenizer, "out")
    if hasattr(os, "mkfifo"):
        os.mkfifo("pipe.txt")
        with pytest.raises(SGPEError, match=r"^pipe\.txt is not a regular file"):
            tokenize_corpus("pipe.txt", tokenizer, "out")
    assert not (tmp_path / "out").exists()
