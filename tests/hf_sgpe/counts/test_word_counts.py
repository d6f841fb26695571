import contextlib
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from support.texts import texts

from hf_sgpe import SGPEError, Splitting, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.counts.count_files import read_info, table_of, write
from hf_sgpe.counts.word_arrays import Words, bucket_of
from trainers.counting.counting_on_disk import add_files

pytestmark = pytest.mark.kernels


@given(st.lists(texts, max_size=6), st.integers(0, 6))
def test_counts_of_parts_add_up(parts, cut):
    config = TrainingConfig(vocab_size=999)
    whole = WordCounts.from_texts(parts, config)
    assert WordCounts.from_texts(parts[:cut], config) + WordCounts.from_texts(parts[cut:], config) == whole
    assert WordCounts.from_texts(parts[::-1], config).digest() == whole.digest()


def test_counts_survive_saving(tmp_path, sample, config):
    counts = WordCounts.from_texts(sample.values(), config)
    counts.save(tmp_path / "counts")
    assert WordCounts.load(tmp_path / "counts") == counts
    assert list(tmp_path.iterdir()) == [tmp_path / "counts"]
    first = (tmp_path / "counts").read_bytes()
    WordCounts.load(tmp_path / "counts").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == first
    empty = WordCounts.from_texts([], config)
    empty.save(tmp_path / "empty")
    assert WordCounts.load(tmp_path / "empty") == empty


def test_training_on_a_sum_gives_the_identical_tokenizer(sample, config):
    counts = [WordCounts.from_texts([text], config) for text in sample.values()]
    whole = WordCounts.from_texts(sample.values(), config)
    total = counts[3] + counts[1] + counts[0] + counts[2]
    assert train_from_counts(total, config).get_vocab() == train_from_counts(whole, config).get_vocab()


@pytest.mark.parametrize("damage", [b"", b"not Parquet", b"cut"])
def test_damaged_counts_are_named(tmp_path, damage, config):
    path = tmp_path / "counts"
    WordCounts.from_texts(["a b c"], config).save(path)
    path.write_bytes(path.read_bytes()[:200] if damage == b"cut" else damage)
    with pytest.raises(SGPEError, match=r"counts is damaged"):
        WordCounts.load(path)


def rewrite(path, change=lambda facts: facts, words=None, counts=None):
    """Writes a file of counts anew, with other facts about itself, words or counts."""
    table = pq.read_table(path)
    key = b"hf_sgpe.word_counts"
    facts = json.dumps(change(json.loads(pq.read_metadata(path).metadata[key])))
    columns = {
        "word": pa.array(words, pa.large_binary()) if words else table["word"],
        "count": pa.array(counts, pa.int64()) if counts else table["count"],
    }
    pq.write_table(pa.table(columns).replace_schema_metadata({key: facts.replace('"DEEP"', "[" * 9000 + "]" * 9000)}), path)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: None,
        lambda facts: [],
        lambda facts: 7,
        lambda facts: "text",
        lambda facts: {"DEEP": "DEEP"},
        lambda facts: {**facts, "sources": "DEEP"},
        *(
            lambda facts, name=name, value=value: {**facts, name: value}
            for name in (
                "counting",
                "distinct",
                "total",
                "digest",
                "sources",
                "versions",
                "dropped",
                "first_buckets",
                "more",
            )
            for value in (7, -1, 1.5, True, "x", [], [7], [[]], ["x"], {"a": 1}, {"a": []}, None)
        ),
        *(
            lambda facts, name=name: {key: facts[key] for key in facts if key != name}
            for name in ("counting", "digest", "total")
        ),
    ],
)
def test_whatever_a_file_says_of_itself_is_right_or_refused(tmp_path, config, change):
    path = tmp_path / "counts"
    counts = WordCounts.from_texts(["a b c"], config)
    counts.save(path)
    rewrite(path, change)
    with contextlib.suppress(SGPEError):
        facts = read_info(path)
        assert "words" in facts.summary() + facts.loss()
    with contextlib.suppress(SGPEError):
        assert sorted(WordCounts.load(path).items()) == sorted(counts.items())
    with contextlib.suppress(SGPEError):
        assert add_files([path], tmp_path / "sum").distinct == 3
    assert {file.name for file in tmp_path.iterdir()} <= {"counts", "sum"}


def test_words_that_are_no_utf8_are_refused(tmp_path, config):
    path = tmp_path / "counts"
    # One after another they are UTF-8.
    words = sorted([b"\xe0", b"\xb6\x9a"], key=lambda word: (bucket_of(word), word))
    WordCounts(dict.fromkeys(words, 1), config.splitting).save(path)
    for use in (WordCounts.load, lambda path: add_files([path, path], tmp_path / "sum")):
        with pytest.raises(SGPEError, match="counts is damaged"):
            use(path)


def test_sums_beyond_64_bits_are_refused_wherever_they_are_made(tmp_path, config):
    path, half = tmp_path / "counts", 1 << 59
    counts = WordCounts({b"a": half - 1, b"b": 1}, config.splitting)
    counts.save(path)
    assert add_files([path, path], tmp_path / "sum").total == 1 << 60
    table = table_of(Words.from_sorted([b"a", b"b"]), np.array([2**62, 2**62]))
    for use in (
        lambda: add_files([path] * 3, tmp_path / "more"),
        lambda: add_files([tmp_path / "sum", path], tmp_path / "more"),
        lambda: counts + counts + counts,
        lambda: counts * 3,
        lambda: train_from_counts(WordCounts.load(tmp_path / "sum") + counts, config),
        lambda: write(tmp_path / "more", [table], config.splitting),
    ):
        with pytest.raises(SGPEError, match="too many"):
            use()
    assert not (tmp_path / "more").exists()
    # What says less of itself than it holds.
    rewrite(path, counts=[(1 << 63) - 1, 1])
    for use in (WordCounts.load, lambda path: add_files([path, path], tmp_path / "more")):
        with pytest.raises(SGPEError, match=r"counts is damaged .*its words"):
            use(path)


def test_any_damage_to_counts_is_named(tmp_path, sample, config):
    import random

    path = tmp_path / "counts"
    counts = WordCounts.from_texts([sample["si"]], config)
    counts.save(path)
    whole, generator = path.read_bytes(), random.Random(3)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        path.write_bytes(damaged)
        try:
            assert WordCounts.load(path) == counts  # where nothing that matters was hit
        except SGPEError as error:
            assert str(error).startswith(f"{path} is damaged or not a file of word counts")


def test_counts_of_different_cuts_do_not_add_or_train():
    one, other = TrainingConfig(vocab_size=999), TrainingConfig(vocab_size=999, pattern="gpt2")
    counts = WordCounts.from_texts(["a"], one)
    with pytest.raises(SGPEError, match="cannot be added"):
        counts + WordCounts.from_texts(["a"], other)
    with pytest.raises(SGPEError, match=r"'o200k', .* 'gpt2'"):
        train_from_counts(counts, other)


BPE = TrainingConfig(vocab_size=300, recipe="bpe", pattern="gpt2", special_tokens=())
WEIGHTS = st.sampled_from([1, 2, 3, 0.5, 0.25, 0.3, 1.7, 0.000001])


@given(st.lists(st.tuples(st.text("ab c", max_size=8), WEIGHTS), max_size=5))
def test_weighted_counts_are_exact(parts):
    total = WordCounts({}, BPE.splitting)
    expected = {}
    for text, weight in parts:
        counts = WordCounts.from_texts([text], BPE)
        total += counts * weight
        for word, count in counts.items():
            expected[word] = expected.get(word, 0) + count * Fraction(str(weight))
    assert {word: Fraction(count, total.scale) for word, count in total.items()} == expected
    assert total.total() == pytest.approx(float(sum(expected.values())))


def test_equal_counts_are_equal_however_they_were_weighted(tmp_path):
    counts = WordCounts.from_texts(["a b a"], BPE)
    for same in (counts * 0.5 * 2, counts * 0.3 + counts * 0.7, 4 * (0.25 * counts)):
        assert same == counts
        assert same.digest() == counts.digest()
    assert counts * 0.3 != counts
    with pytest.raises(SGPEError, match="weighted counts cannot be saved"):
        (counts * 0.3).save(tmp_path / "counts")
    assert not (tmp_path / "counts").exists()


def test_a_whole_weight_is_that_many_copies_of_the_text():
    one, other = ["low low lower"], ["newest widest wider"]
    copies = WordCounts.from_texts(one * 3 + other, BPE)
    weighted = WordCounts.from_texts(one, BPE) * 3 + WordCounts.from_texts(other, BPE)
    assert weighted == copies


def test_scaling_all_weights_and_the_least_frequency_changes_no_merge(sample):
    counts = [WordCounts.from_texts([text], BPE) for text in sample.values()]
    plain = train_from_counts(counts[0] + counts[1] * 3, replace(BPE, vocab_size=700, min_frequency=5))
    halved = train_from_counts(counts[0] * 0.2 + counts[1] * 0.6, replace(BPE, vocab_size=700, min_frequency=1))
    assert halved.merges == plain.merges
    assert len(plain.merges) > 200


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), 1e-7, 0.1234567, "2", None])
def test_weights_that_cannot_be_are_named(weight):
    with pytest.raises(SGPEError, match=r"above 0 .* six decimals"):
        WordCounts({b"a": 1}, BPE.splitting) * weight
    with pytest.raises(SGPEError, match=r"weights\['si\.txt'\]: a weight must be"):
        TrainingConfig(vocab_size=999, weights={"si.txt": weight})
    with pytest.raises(SGPEError, match="too many"):
        WordCounts({b"a": 1 << 50}, BPE.splitting) * 1_000_000


def test_words_are_bytes():
    counts = WordCounts.from_texts(["a b"], Splitting("bpe", pattern="gpt2"))
    assert b"a" in counts and b"c" not in counts and counts[b"c"] == 0
    with pytest.raises(TypeError, match=r"bytes, not str"):
        counts["a"]
    with pytest.raises(TypeError, match="words must be bytes"):
        "a" in counts  # noqa: B015
    with pytest.raises(TypeError, match="unsupported operand"):
        counts + 1
