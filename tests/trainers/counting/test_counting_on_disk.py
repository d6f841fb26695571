"""Counting into a file: the same file whatever the limit and the number of workers, and no more memory than the limit."""

import random
import subprocess
import sys
from contextlib import nullcontext
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from support.kernels import readable_only

from hf_sgpe import kernels, train_from_counts
from hf_sgpe.learning.observer import Observer
from trainers import SGPEError, TrainingConfig, WordCounts, add_files, count_to_file
from trainers.counting import counting_on_disk
from trainers.counting.counting_on_disk import RareWords

pytest.importorskip("pyarrow", reason="files of counts are Parquet: pip install pyarrow")

pytestmark = pytest.mark.kernels

CONFIG = TrainingConfig(vocab_size=1000, special_tokens=["<|endoftext|>"])
BPE = TrainingConfig(vocab_size=999, recipe="bpe", pattern="gpt2", special_tokens=())


@pytest.fixture
def crowded(monkeypatch):
    """Room for so little that words go to disk after each batch, and so few files at a time that they are merged twice."""
    monkeypatch.setattr(counting_on_disk, "_BATCH_CHARACTERS", 10_000)
    monkeypatch.setattr(counting_on_disk, "_room", lambda limit, workers: 0)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chosen", [nullcontext, readable_only])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_file_is_that_of_all_words_in_memory(sample, tmp_path, workers, chosen, crowded):
    texts = [
        *sample.values(),
        "of<|endoftext|>two",
        "e\u0301",
        "\ud800",
        *(line for text in sample.values() for line in text.splitlines()[::3]),
    ]
    expected = WordCounts.from_texts(texts, CONFIG).save(tmp_path / "expected")
    with chosen():
        info = count_to_file(iter(texts), tmp_path / "counts", CONFIG, workers=workers)
    assert info == expected
    assert (tmp_path / "counts").read_bytes() == (tmp_path / "expected").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["counts", "expected"]


def test_sources_are_saved_with_the_counts(tmp_path):
    sources = [{"name": "si.txt", "bytes": 5}]
    assert count_to_file(["a b"], tmp_path / "counts", BPE, sources=sources).sources == tuple(sources)
    assert WordCounts.load(tmp_path / "counts").sources == tuple(sources)


def test_no_text_gives_no_words(tmp_path):
    assert count_to_file([], tmp_path / "counts", BPE).distinct == 0
    assert WordCounts.load(tmp_path / "counts") == WordCounts({}, BPE.splitting)


def test_an_error_leaves_nothing(tmp_path, crowded):
    def texts():
        yield "some words " * 1000
        raise SGPEError("damaged")

    for workers in (1, 2):
        with pytest.raises(SGPEError, match=r"^damaged$"):
            count_to_file(texts(), tmp_path / "new" / "counts", BPE, workers=workers)
        assert list(tmp_path.iterdir()) == []


MEMORY = r"""
import re, sys
from pathlib import Path
from trainers import TrainingConfig, count_to_file
config = TrainingConfig(vocab_size=999, recipe="bpe", pattern="gpt2", special_tokens=())
limit, numbers, workers = map(int, sys.argv[2:])
letters = str.maketrans("0123456789", "ghijklmnop")
texts = (" ".join(f"{number * 2654435761 % 2**32:08x}" for number in range(start, start + 20_000)).translate(letters)
         for start in range(0, numbers, 20_000))
print(count_to_file(texts, sys.argv[1], config, memory_limit=limit, workers=workers).digest)
# Not getrusage, which knows the memory of the process that started this one.
print(1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read as Linux tells it")
@pytest.mark.skipif(kernels.describe() != "native", reason="memory is bounded by the native kernels")
def test_memory_stays_within_the_limit(tmp_path):
    def count(limit, workers):
        command = [sys.executable, "-c", MEMORY, tmp_path / "counts", limit, 4_000_000, workers]
        done = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
        digest, peak = done.stdout.split()
        return digest, int(peak)

    plenty, most = count(4_000_000_000, 2)
    for limit, workers in ((350_000_000, 2), (250_000_000, 1)):
        digest, peak = count(limit, workers)
        assert digest == plenty
        assert peak < 1.15 * limit  # on a busy machine some megabytes more than on a quiet one
    assert most > 400_000_000  # as much as it takes where there is room


def test_too_small_a_limit_says_what_would_do(tmp_path):
    with pytest.raises(SGPEError, match=r"limit of 1 MB .* (2 workers|1 worker): give at least [\d,]+ MB"):
        count_to_file(["a"], tmp_path / "counts", BPE, memory_limit=1_000_000, workers=2)
    assert list(tmp_path.iterdir()) == []


def saved(folder, *parts):
    for number, text in enumerate(parts):
        counts = dict(WordCounts.from_texts([text], BPE).items())
        WordCounts(counts, BPE.splitting, sources=[{"name": str(number)}]).save(folder / str(number))
    return [folder / str(number) for number in range(len(parts))]


def test_count_files_are_added_up(tmp_path):
    files = saved(tmp_path, "a b a", "b c", "d")
    info = add_files([*files, files[0]], tmp_path / "sum")
    assert [source["name"] for source in info.sources] == ["0", "1", "2", "0"]
    assert WordCounts.load(tmp_path / "sum") == WordCounts.from_texts(["a b a", "b c", "d", "a b a"], BPE)
    add_files(files, files[0])
    assert WordCounts.load(files[0]) == WordCounts.from_texts(["a b a", "b c", "d"], BPE)


def test_counts_that_cannot_be_added_are_refused(tmp_path):
    files = saved(tmp_path, "a b a")
    WordCounts.from_texts(["a"], TrainingConfig(vocab_size=999)).save(tmp_path / "other")
    with pytest.raises(SGPEError, match=r'"hybrid", .* "bpe"'):
        add_files([*files, tmp_path / "other"], tmp_path / "sum")
    with pytest.raises(SGPEError, match="nothing to add up"):
        add_files([], tmp_path / "sum")
    with pytest.raises(SGPEError, match="min_count must be at least 1, not 0"):
        add_files(files, tmp_path / "sum", min_count=0)
    assert not (tmp_path / "sum").exists()


@given(st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 5), max_size=30), st.integers(1, 6))
def test_no_pair_loses_more_than_is_said(tmp_path_factory, counts, least):
    folder = tmp_path_factory.mktemp("rare")
    whole = WordCounts({word.encode(): count for word, count in counts.items()}, BPE.splitting)
    whole.save(folder / "whole")
    info = add_files([folder / "whole"], folder / "kept", min_count=least)
    kept = WordCounts.load(folder / "kept")
    assert dict(kept.items()) == {word: count for word, count in whole.items() if count >= least}
    lost = {word: count for word, count in whole.items() if count < least}
    if least == 1:
        assert info.dropped is None
        return
    assert (info.dropped["distinct"], info.dropped["total"]) == (len(lost), sum(lost.values()))
    pairs = {}
    for word, count in lost.items():
        for pair in pairwise(word):
            pairs[pair] = pairs.get(pair, 0) + count
    assert info.dropped["pair"] == max(pairs.values(), default=0)


def test_no_pair_of_bytes_joins_two_words_of_a_table():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"word": pa.array([b"ab", b"cd"], pa.large_binary()), "count": [1, 4]})
    rare = RareWords(6)
    assert [kept.num_rows for kept in rare.left_out_of([table])] == [0]
    assert rare.report() == {"min_count": 6, "distinct": 2, "total": 5, "pair": 4}


def test_merges_whose_lead_is_greater_stay_the_same(sample, tmp_path):
    config = TrainingConfig(vocab_size=400, recipe="bpe", pattern="gpt2", special_tokens=())
    whole = WordCounts.from_texts(sample.values(), config)
    whole.save(tmp_path / "whole")
    info = add_files([tmp_path / "whole"], tmp_path / "kept", min_count=2)
    counts = []
    watching = Observer(merged=lambda tokens, pair, count: counts.append(count))
    expected = train_from_counts(whole, config, observer=watching).merges
    found = train_from_counts(WordCounts.load(tmp_path / "kept"), config).merges
    same = next((n for n, (one, other) in enumerate(zip(expected, found, strict=False)) if one != other), len(expected))
    # Where the first one differs, its pair led by no more than was lost; so did it by its own count.
    assert same == len(expected) or counts[same] - counts[same + 1] <= info.dropped["pair"]
    assert same > 0


def test_any_order_of_texts_gives_the_same_file(sample, tmp_path, crowded):
    lines = [line for text in sample.values() for line in text.splitlines()]
    files = []
    for seed in range(2):
        random.Random(seed).shuffle(lines)
        files.append(tmp_path / str(seed))
        count_to_file(lines, files[-1], CONFIG, workers=2)
    assert len({file.read_bytes() for file in files}) == 1
