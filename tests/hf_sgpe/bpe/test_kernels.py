"""The native kernels of training and merging against the readable ones."""

import pytest
from hypothesis import given, strategies as st
from support.corpora import corpus
from support.kernels import needs_native, readable_only
from support.naive import apply_merges_by_rescan

from hf_sgpe import TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.bpe.merging import MergeTable, merge_words
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.bpe.unit_tier import BYTES, build_unit_tier

pytestmark = pytest.mark.kernels


@needs_native
@pytest.mark.parametrize(("characters", "vocab_size"), [(20_000, 1600), pytest.param(250_000, 6000, marks=pytest.mark.data)])
@pytest.mark.parametrize("recipe", ["hybrid", "sgpe", "bpe"])
def test_both_kernels_train_the_same_tokenizer(recipe, characters, vocab_size):
    texts = [corpus(language, characters) for language in ("si", "hi", "en", "bn")]
    config = TrainingConfig(vocab_size, recipe, scripts=("sinhala", "devanagari", "bengali"))
    counts = WordCounts.from_texts(texts, config)
    tokenizer = train_from_counts(counts, config)
    with readable_only():
        same = WordCounts.from_texts(texts, config)
        assert same == counts
        readable = train_from_counts(same, config)
    assert readable.vocab == tokenizer.vocab
    assert readable.merges == tokenizer.merges
    assert readable.metadata == tokenizer.metadata


@needs_native
@given(st.lists(st.text(st.sampled_from("කරි්\u200daé "), min_size=1, max_size=6).map(str.encode), max_size=8))
def test_the_native_unit_tier_is_the_readable_one(units):
    merges = build_unit_tier(units)
    left = [list(word) for word in merge_words(units, merges)]
    with readable_only():
        assert build_unit_tier(units) == merges
        assert [list(word) for word in merge_words(units, merges)] == left


def test_counts_of_64_bits():
    huge = 3 << 40
    assert learn_merges([b"ab", b"cd"], [huge, huge + 1], vocabulary=BYTES, num_merges=2) == [(99, 100), (97, 98)]


@needs_native
def test_an_error_of_a_callback_comes_through():
    def stop(*step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_merges([b"abab"], [1], vocabulary=BYTES, num_merges=2, on_merge=stop)


@st.composite
def merge_lists(draw):
    """Merges of bytes of a few characters, any of which may be learned within characters or across them."""
    alphabet = list("aක්é".encode())
    merges = []
    for number in range(draw(st.integers(0, 14))):
        tokens = alphabet + [256 + earlier for earlier in range(number)]
        pair = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if pair not in merges:
            merges.append(pair)
    return merges


@needs_native
@given(merge_lists(), st.lists(st.text(st.sampled_from("aaක්éb"), min_size=1, max_size=40), max_size=4))
def test_native_merging_equals_the_rescan(merges, words):
    table = MergeTable((pair, 256 + rank) for rank, pair in enumerate(merges))
    encoded = [word.encode() for word in words]
    assert [list(ids) for ids in merge_words(encoded, merges)] == [apply_merges_by_rescan(word, table) for word in encoded]


@needs_native
def test_objects_that_change_while_they_are_read_do_no_harm():
    class Clears:
        def __index__(self):
            counts.clear()
            words.clear()
            return 3

    words = [b"ab", b"cd", b"ef"]
    counts = [Clears(), 2, 1]
    assert learn_merges(words, counts, vocabulary=BYTES, num_merges=3, min_frequency=1)[0] == (97, 98)


@needs_native
def test_counts_beyond_all_bounds_are_refused():
    with pytest.raises(ValueError, match="counts of more than"):
        learn_merges([b"ab", b"ab"], [1 << 61, 1 << 61], vocabulary=BYTES, num_merges=1)
