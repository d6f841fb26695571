from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.examples import few_examples
from support.kernels import readable_only

from hf_sgpe import TrainingConfig, WordCounts, kernels
from hf_sgpe.bpe.merging import merge_words
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.counts import word_arrays
from hf_sgpe.counts.word_arrays import BUCKETS, Words, added, bucket_of, in_order
from hf_sgpe.splitting.syllables import LinguisTrie

pytestmark = pytest.mark.kernels

BYTES = [bytes([byte]) for byte in range(256)]
SPLITTING = TrainingConfig(vocab_size=300, recipe="bpe", pattern="gpt2", special_tokens=()).splitting
# Zero bytes and words that only differ far behind are what an order of bytes goes wrong with.
words = st.one_of(
    st.text("a\0ක", max_size=4), st.text(max_size=6), st.sampled_from(["x" * 40, "x" * 40 + "\0", "x" * 41])
).map(lambda text: text.encode(errors="replace"))
counted = st.dictionaries(words, st.integers(1, 9), max_size=40)


def as_arrays(counts):
    ordered = in_order(counts)
    return Words.from_sorted(ordered), np.array([counts[word] for word in ordered], np.int64)


@given(counted, st.integers(0, 40), st.integers(0, 40))
def test_words_are_a_sequence_in_the_order_of_a_file(counts, first, last):
    ordered = in_order(counts)
    made = Words.from_sorted(ordered)
    assert list(made) == ordered
    assert [made[place] for place in range(len(made))] == ordered
    assert list(made[first:last]) == ordered[first:last]
    assert made[first:last] == Words.from_sorted(ordered[first:last])
    assert made.joined_bytes() == b"".join(ordered)
    assert made.lengths().tolist() == list(map(len, ordered))
    if ordered:
        assert made[-1] == ordered[-1]
        assert made != Words.from_sorted(ordered[1:])


@given(counted, st.lists(words, max_size=9))
def test_words_are_found_as_in_a_dictionary(counts, others):
    made, times = as_arrays(counts)
    value = WordCounts(counts, SPLITTING)
    for word in [*counts, *others]:
        place = made.find(word)
        assert (place is not None) == (word in made) == (word in counts)
        assert place is None or (made[place] == word and times[place] == counts[word])
        assert value[word] == counts.get(word, 0)
        assert ((word, counts.get(word, 0)) in value.items()) == (word in counts)
    assert dict(value.items()) == counts
    assert len(value.items()) == len(value) == len(counts)
    assert value.total() == sum(value.values()) == sum(counts.values())
    starts = made.bucket_starts().tolist()
    assert [bucket_of(word) for word in made] == [
        bucket for bucket in range(BUCKETS) for _ in range(starts[bucket], starts[bucket + 1])
    ]


@pytest.mark.parametrize("rows", [1 << 16, 2])
@given(parts=st.lists(counted, max_size=4))
@few_examples
def test_sums_are_those_of_dictionaries(rows, parts):
    expected = Counter()
    for part in parts:
        expected.update(part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_arrays, "_ROWS", rows)
        total, times = added([as_arrays(part) for part in parts])
        assert list(total) == in_order(expected)
        assert times.tolist() == [expected[word] for word in total]
        assert all(total.find(word) is not None for word in expected)


def test_sums_beyond_64_bits_are_exact():
    big = np.array([1 << 70], object)
    total, times = added([(Words.from_sorted([b"a"]), big), (Words.from_sorted([b"a"]), np.array([1]))])
    assert (list(total), times.tolist()) == ([b"a"], [(1 << 70) + 1])
    half = WordCounts({b"a": (1 << 59) + 1}, SPLITTING) * 0.5
    assert half + half == WordCounts({b"a": (1 << 59) + 1}, SPLITTING)


def test_words_cannot_be_changed():
    made = Words.from_sorted([b"a"])
    counts = WordCounts({b"a": 1}, SPLITTING)
    for values in (*made.arrays(), counts.values()):
        with pytest.raises((ValueError, TypeError)):
            values[0] = 5
    with pytest.raises(ValueError, match="so that they stay in order"):
        made[::-1]
    with pytest.raises(TypeError):
        hash(made)


@given(counted)
@few_examples
def test_kernels_give_the_same_for_word_arrays_and_lists(counts):
    made, times = as_arrays(counts)
    listed, values = list(made), times.tolist()
    trie = LinguisTrie()
    merges = [(0xE0, 0xB6), (256, 0x9A)]
    assert trie.count_units(made, times.data) == trie.count_units(iter(listed), values)
    assert trie.count_scripts(made, times.data) == trie.count_scripts(listed, values)
    assert list(map(list, merge_words(made, merges))) == list(map(list, merge_words(listed, merges)))
    options = {"vocabulary": BYTES, "num_merges": 20}
    assert learn_merges(made, times.data, **options) == learn_merges(listed, values, **options)
    options["vocabulary"] = [*BYTES, "\u0d80".encode()[:2], "ක".encode()]
    in_units = learn_merges(merge_words(made, merges), times.data, **options)
    with readable_only():
        assert in_units == learn_merges(merge_words(listed, merges), values, **options)


@pytest.mark.skipif(not kernels.is_native(), reason="without native kernels nothing reads the arrays")
@pytest.mark.parametrize("starts", [[0, 3], [-1, 1], [1, 0], []])
def test_arrays_that_cannot_be_are_refused(starts):
    made = Words(np.zeros(2, np.uint8), np.array(starts, np.int64))
    with pytest.raises(ValueError, match="words must begin one after another"):
        learn_merges(made, [1], vocabulary=BYTES, num_merges=1)
    with pytest.raises(ValueError, match="words must begin one after another"):
        LinguisTrie().count_units(made, [1])
