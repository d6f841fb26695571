from hypothesis import given, strategies as st
from support.naive import apply_merges_by_rescan
from support.operations import calls_in

from hf_sgpe.bpe.merging import MergeTable, apply_merges

small = st.integers(0, 5)


@st.composite
def tables(draw):
    """Merges over a few tokens, any of which may be the result of another."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
    return MergeTable((pair, 6 + number % 4) for number, pair in enumerate(pairs))


@given(st.lists(small, max_size=40), tables())
def test_heap_equals_rescan(ids, table):
    assert apply_merges(ids, table) == apply_merges_by_rescan(ids, table)


def test_overlaps_merge_from_the_left():
    table = MergeTable([((1, 1), 2), ((2, 2), 3)])
    assert apply_merges([1] * 7, table) == [3, 2, 1]


def test_lowest_rank_goes_first_wherever_it_stands():
    table = MergeTable([((2, 3), 10), ((1, 2), 11)])
    assert apply_merges([1, 2, 3], table) == [1, 10]


def test_of_two_equal_rules_the_later_rank_counts():
    table = MergeTable([((1, 2), 10), ((2, 3), 11), ((1, 2), 10)])
    assert apply_merges([1, 2, 3], table) == [1, 11]


def test_work_grows_linearly_on_one_endless_word():
    table = MergeTable([((1, 1), 2), ((2, 2), 3), ((3, 3), 4)])
    assert apply_merges([1] * 20_000, table) == [4] * 2500
    fewer, more = (calls_in(lambda size=size: apply_merges([1] * size, table)) for size in (2000, 20_000))
    assert more < 10.5 * fewer
