import multiprocessing
import subprocess
import sys
from contextlib import nullcontext

import pytest
from support.corpora import corpus
from support.kernels import readable_only

from hf_sgpe.counts.counters import make_word_counter
from trainers import SGPEError, TrainingConfig, WordCounts, count_files, count_texts, find_files

pytestmark = pytest.mark.kernels

CONFIG = TrainingConfig(vocab_size=1000, special_tokens=["<|endoftext|>"])


@pytest.mark.parametrize("recipe", ["hybrid", "sgpe", "bpe"])
def test_files_are_counted_as_their_whole_text(tmp_path, recipe):
    config = TrainingConfig(vocab_size=1000, recipe=recipe)
    text = corpus("si", 400_000) + "<|endoftext|>" + corpus("en", 400_000)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8", newline="")
    whole = WordCounts.from_texts([text], config)
    for workers in (1, 3):
        assert count_files([tmp_path / "a.txt"], config, workers=workers) == whole
    with readable_only():
        assert count_files([tmp_path / "a.txt"], config, workers=2) == whole


@pytest.mark.parametrize("chosen", [nullcontext, readable_only])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_number_of_workers_counts_the_same(sample, workers, chosen):
    texts = [*sample.values(), "of<|endoftext|>two", "e\u0301", "\ud800"] * 20
    whole = WordCounts.from_texts(texts, CONFIG)
    with chosen():
        assert count_texts(iter(texts), CONFIG, workers=workers) == whole


def test_a_process_of_a_pool_which_can_have_no_children_counts_alone(sample):
    config = TrainingConfig(999, "bpe", pattern=r"\p{L}+|.")
    assert not make_word_counter(config).is_native
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        counts = pool.apply(count_texts, (list(sample.values()), config), {"workers": 2})
    assert counts == WordCounts.from_texts(sample.values(), config)


@pytest.mark.parametrize("chosen", [nullcontext, readable_only])
def test_errors_of_a_file_come_through_the_workers(tmp_path, chosen):
    (tmp_path / "a.txt").write_bytes(b"fine\n" * 900_000 + b"\xff")
    with chosen(), pytest.raises(SGPEError, match=r"a\.txt .* byte offset 4500000"):
        count_files([tmp_path / "a.txt"], CONFIG, workers=2)


MEMORY = """
import resource, sys
from trainers import TrainingConfig, count_texts
text = "the same few words again and again, " * 30_000
config = TrainingConfig(vocab_size=999, recipe="bpe", pattern="bloom")
count_texts((text for _ in range(int(sys.argv[1]))), config, workers=2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_corpus():
    few, many = (
        int(subprocess.run([sys.executable, "-c", MEMORY, count], check=True, capture_output=True, text=True).stdout)
        for count in ("5", "60")
    )
    assert many < few * 1.3  # held all at once, the texts alone would take 60 MB


def test_wrong_texts_and_workers_are_refused():
    with pytest.raises(SGPEError, match="not a single string"):
        count_texts("hello", CONFIG, workers=2)
    with pytest.raises(SGPEError, match=r"item 1 .* int"):
        count_texts(["a", 5], CONFIG)
    with pytest.raises(SGPEError, match="workers must be a number from 1 to 1024"):
        count_texts(["a"], CONFIG, workers=-1)


def test_progress_is_silent_off_a_terminal_and_shown_when_asked(sample, capsys):
    count_texts(sample.values(), CONFIG)
    assert capsys.readouterr().err == ""
    count_texts(sample.values(), CONFIG, progress=True)
    assert "Reading" in capsys.readouterr().err


def test_files_are_weighted_by_the_first_name_that_fits(tmp_path):
    for name, text in {"a.txt": "one", "b.txt": "two", "c.txt": "three"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = {"vocab_size": 300, "recipe": "bpe", "pattern": "gpt2"}
    kept = tmp_path / "kept"
    WordCounts({b"four": 2}, TrainingConfig(**options).splitting).save(kept)
    config = TrainingConfig(**options, weights={"b.txt": 2, str(tmp_path / "[bc].txt"): 0.5, "kept*": 5})
    counts = count_files(find_files([tmp_path]), config, counts=[kept])
    assert {word: count / counts.scale for word, count in counts.items()} == {
        b"one": 1,
        b"two": 2,
        b"three": 0.5,
        b"four": 10,
    }
    (tmp_path / "q[1].txt").write_text("one", encoding="utf-8")  # a name that is no glob of itself
    config = TrainingConfig(**options, weights={"q[1].txt": 3})
    assert count_files(find_files([tmp_path / "q[1].txt"]), config).total() == 3
    (tmp_path / "q[1].txt").unlink()
    with pytest.raises(SGPEError, match=r"weights: 'd\.txt'"):
        count_files(find_files([tmp_path]), TrainingConfig(**options, weights={"d.txt": 2}))
