import random

import pytest
from hypothesis import given, strategies as st
from support.kernels import readable_only
from support.naive import learn_by_recount

from hf_sgpe.bpe.trainer import TIE_BREAKS, Word, learn_merges
from hf_sgpe.errors import SGPEError

pytestmark = pytest.mark.kernels

LETTERS = [b"b", b"a", b"\xff", b"c"]
corpora = st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 5)), min_size=1, max_size=12)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@given(corpus=corpora, num_merges=st.integers(0, 25), min_frequency=st.integers(1, 4))
def test_equals_a_naive_recount(tie_break, corpus, num_merges, min_frequency):
    words, counts = zip(*corpus, strict=True)
    options = {"vocabulary": LETTERS, "num_merges": num_merges, "tie_break": tie_break, "min_frequency": min_frequency}
    assert learn_merges(words, counts, **options) == learn_by_recount(words, counts, **options)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@pytest.mark.parametrize("text", ["aaaa", "aaaaa", "abab", "ababab", "aabaab", "a" * 33])
def test_overlapping_pairs_are_counted_as_in_a_naive_recount(tie_break, text):
    vocabulary = [bytes([byte]) for byte in range(256)]
    options = {"vocabulary": vocabulary, "num_merges": 20, "tie_break": tie_break}
    words = [list(text.encode())]
    assert learn_merges(words, [1], **options) == learn_by_recount(words, [1], **options)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@given(
    corpus=st.lists(
        st.tuples(
            st.one_of(
                st.builds(lambda unit, times: unit * times, st.lists(st.integers(0, 2), max_size=4), st.integers(0, 50)),
                st.lists(st.integers(0, 1), min_size=60, max_size=70),  # the native kernel treats longer words otherwise
            ),
            st.sampled_from([0, 1, 2, 40, 1000, 10**6]),  # far apart, so that it counts pairs several times
        ),
        min_size=1,
        max_size=8,
    ),
    num_merges=st.integers(0, 60),
)
def test_long_words_and_counts_far_apart(tie_break, corpus, num_merges):
    words, counts = zip(*corpus, strict=True)
    options = {"vocabulary": LETTERS, "num_merges": num_merges, "tie_break": tie_break}
    steps = [[], []]
    found = learn_merges(words, counts, **options, on_merge=lambda *step: steps[0].append(step))
    with readable_only():
        assert found == learn_merges(words, counts, **options, on_merge=lambda *step: steps[1].append(step))
    assert steps[0] == steps[1]


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_order_and_spread_of_the_words_make_no_difference(tie_break):
    generator = random.Random(7)
    words = [generator.choices(range(4), k=generator.randint(1, 10)) for _ in range(60)]
    counts = [generator.randint(1, 9) for _ in words]
    options = {"vocabulary": LETTERS, "num_merges": 40, "tie_break": tie_break}
    expected = learn_merges(words, counts, **options)
    spread = [(word, 1) for word, count in zip(words, counts, strict=True) for _ in range(count)]
    generator.shuffle(spread)
    assert learn_merges(*zip(*spread, strict=True), **options) == expected


@given(st.lists(st.integers(0, 2), max_size=20), st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_merge_pair_reports_exactly_how_counts_change(ids, pair):
    word = Word(list(ids))
    before = list(word.pairs())
    changes = word.merge_pair(pair, 9)
    after = list(word.pairs())
    for candidate in {*before, *after, *(changed for changed, _ in changes)}:
        change = sum(amount for changed, amount in changes if changed == candidate)
        assert after.count(candidate) - before.count(candidate) == change


def test_tie_rules_by_example():
    # Every pair of "ab", "cd", "bc" occurs once.
    words = [list(b"ab"), list(b"cd"), list(b"bc")]
    vocabulary = [bytes([255 - byte]) for byte in range(256)]  # ids and bytes run against each other
    first = {rule: learn_merges(words, [1] * 3, vocabulary=vocabulary, num_merges=1, tie_break=rule) for rule in TIE_BREAKS}
    assert first == {
        "smallest-pair-id": [tuple(b"ab")],
        "greatest-pair-id": [tuple(b"cd")],
        "greatest-pair-bytes": [tuple(b"ab")],
    }


def test_a_longer_byte_string_is_greater_than_its_beginning():
    words = [[0, 1], [2, 1]]
    vocabulary = [b"a", b"x", b"ab"]
    options = {"vocabulary": vocabulary, "num_merges": 1, "tie_break": "greatest-pair-bytes"}
    assert learn_merges(words, [1, 1], **options) == [(2, 1)]


def test_reports_each_merge_and_stops_when_nothing_is_left():
    seen = []
    merges = learn_merges(
        [[0, 1, 0, 1]], [3], vocabulary=[b"a", b"b"], num_merges=9, on_merge=lambda *step: seen.append(step)
    )
    assert merges == [(0, 1), (2, 2)]
    assert seen == [(2, (0, 1), 6), (3, (2, 2), 3)]


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@given(corpus=corpora, stop=st.integers(0, 25), min_frequency=st.integers(1, 4))
def test_learning_goes_on_where_it_stopped(tie_break, corpus, stop, min_frequency):
    words, counts = zip(*corpus, strict=True)
    options = {"vocabulary": LETTERS, "tie_break": tie_break, "min_frequency": min_frequency}
    whole = learn_merges(words, counts, num_merges=25, **options)
    merged = learn_merges(words, counts, num_merges=stop, **options)
    assert merged + learn_merges(words, counts, num_merges=25 - stop, merged=merged, **options) == whole


@pytest.mark.parametrize("merged", [[(0, 2)], [(0, 1), (0, 1)], [(4, 0)], [(0, 1), (1, 0)]])
def test_merges_of_other_words_cannot_be_done_again(merged):
    with pytest.raises(SGPEError, match=r"merge \d was not learned from these words"):
        learn_merges([[0, 1, 0, 1]], [1], vocabulary=LETTERS, num_merges=3, merged=merged)


def test_words_given_are_not_changed():
    words = [[0, 1]]
    learn_merges(words, [1], vocabulary=[b"a", b"b"], num_merges=1)
    assert words == [[0, 1]]


def test_an_unknown_tie_rule_is_named():
    with pytest.raises(SGPEError, match=r"'coin'.* smallest-pair-id"):
        learn_merges([], [], vocabulary=[], num_merges=1, tie_break="coin")
