import pytest
from hypothesis import given, strategies as st

from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.unit_choice import check_cut_cost, cover, most_valuable, worth_of_units
from hf_sgpe.splitting.syllables import LinguisTrie


def test_worth_is_what_a_token_saves():
    units = {"කා": 3, " කා": 2, "න්ද": 4, " න්ද": 1, "ක": 9, " ක": 5}
    worth = worth_of_units(units, LinguisTrie(), cut_cost=2)
    assert worth["කා"] == 5 * 3  # two tokens instead of one, and a cut
    assert worth["න්"] == 5 * 3
    assert worth["න්ද"] == 5 * 3  # two letters
    assert worth[" කා"] == 2 * 4
    assert worth[" ක"] == 5 * 4
    assert "ක" not in worth and "ද" not in worth  # characters have tokens anyway


def test_a_syllable_with_its_space_is_never_worth_more_than_without():
    worth = worth_of_units({" කා": 7}, LinguisTrie(), cut_cost=0)
    assert worth[" කා"] == worth["කා"] == 7


def test_more_letters_save_more_and_the_cost_counts_once():
    units = {"ස්ත්‍රී": 1}
    without, with_cost = (worth_of_units(units, LinguisTrie(), cost)["ස්ත්‍රී"] for cost in (0, 10))
    assert without == len(LinguisTrie().letters("ස්ත්‍රී")) - 1
    assert with_cost - without == 10


def test_units_outside_the_scripts_have_no_worth():
    assert worth_of_units({"a": 5, "\u200d": 3, " \u200d": 2, " ": 4}, LinguisTrie(), 1) == {}


numbers = st.integers(0, 20)


@given(st.dictionaries(st.text("abc", min_size=1), numbers), st.lists(numbers), st.integers(0, 30))
def test_the_best_fill_the_room(worth, gains, room):
    chosen = most_valuable(worth, gains, room)
    for unit, value in worth.items():
        before = sum(gain > value for gain in gains)
        before += sum((-other_value, other) < (-value, unit) for other, other_value in worth.items())
        assert (unit in chosen) == (before < room)


def test_coverage_ends_with_the_one_that_reaches_it():
    counts = {"b": 3, "c": 1, "a": 4}
    assert [cover(counts, share) for share in (0, 0.5, 0.51, 1)] == [[], ["a"], ["a", "b"], ["a", "b", "c"]]


@pytest.mark.parametrize("cost", [-1, float("inf"), float("nan"), "2", True])
def test_a_cut_cost_is_a_number_of_tokens(cost):
    with pytest.raises(SGPEError, match="cut_cost must be"):
        check_cut_cost(cost)
