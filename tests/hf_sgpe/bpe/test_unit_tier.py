from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given, strategies as st
from support.corpora import conjunct_words, corpus
from support.naive import apply_merges_by_rescan
from support.texts import indic

from hf_sgpe import LinguisTrie
from hf_sgpe.bpe.merging import MergeTable, apply_merges
from hf_sgpe.bpe.unit_tier import BYTES, build_unit_tier, order_units
from hf_sgpe.learning.unit_choice import choose_units
from hf_sgpe.splitting.scripts.script import ZWJ, ZWNJ
from hf_sgpe.splitting.scripts.script_registry import resolve_script

pytestmark = pytest.mark.kernels


def units_of(counts, trie, **options):
    chosen = choose_units(counts, trie, **options)
    return order_units(chosen, trie, characters={character for unit in counts for character in unit})


def table_and_tokens(units):
    merges = build_unit_tier(unit.encode() for unit in units)
    tokens = list(BYTES)
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return MergeTable((pair, 256 + rank) for rank, pair in enumerate(merges)), tokens


def check(units):
    table, tokens = table_and_tokens(units)
    for unit in units:
        assert [tokens[id] for id in apply_merges_by_rescan(list(unit.encode()), table)] == [unit.encode()]
    assert len(set(tokens)) == len(tokens)
    assert len(table.ranks) == len(table.results)
    return table, tokens


@given(st.lists(st.text("abc", min_size=1, max_size=6), max_size=20))
def test_units_come_out_whole_and_nothing_occurs_twice_whatever_the_units(units):
    check(units)


@given(st.lists(indic, min_size=1, max_size=20))
def test_chosen_syllables_come_out_whole(words):
    trie = LinguisTrie(["sinhala", "devanagari"])
    counts = Counter(unit for word in words for unit in trie.tokenize(word, leading_space=True))
    units = units_of(counts, trie, letter_coverage=1, syllable_coverage=1)
    assert set(counts) <= {*units, ""}
    check(units)


def test_no_merge_crosses_a_syllable_in_any_word():
    trie = LinguisTrie()
    words = conjunct_words()
    counts = Counter(unit for word in words[:5000] for unit in trie.tokenize(f" {word}", leading_space=True))
    units = units_of(counts, trie, letter_coverage=0.999, syllable_coverage=0.99)
    table, tokens = check(units)
    for word in words[:2000] + words[-2000:]:
        text = f" {word}"
        ends = set(accumulate(len(tokens[id]) for id in apply_merges_by_rescan(list(text.encode()), table)))
        boundaries = set(accumulate(len(unit.encode()) for unit in trie.tokenize(text, leading_space=True)))
        assert boundaries <= ends, word


def test_coverage_takes_the_most_frequent_of_each_script():
    trie = LinguisTrie(["sinhala", "devanagari"])
    counts = {"කා": 98, "ගා": 2, "का": 1, "a": 1}
    chosen = units_of(counts, trie, letter_coverage=0.98, syllable_coverage=0.98)
    assert "කා" in chosen
    assert "ගා" not in chosen
    assert {"का", "a"} <= set(chosen)
    assert {"ග", "ා"} <= set(chosen)  # every character that occurs


def test_min_unit_frequency_in_place_of_coverage():
    chosen = units_of({"කා": 3, "ගා": 2}, LinguisTrie(), letter_coverage=1, syllable_coverage=1, min_unit_frequency=3)
    assert "කා" in chosen
    assert "ගා" not in chosen


def test_order_is_characters_half_forms_letters_syllables_spaced():
    chosen = units_of({" න්ද්‍රි": 1}, LinguisTrie(), letter_coverage=1, syllable_coverage=1)
    assert chosen.index("ර") < chosen.index("ද්") < chosen.index("ද්\u200d") < chosen.index("ද්‍රි") < chosen.index("න්ද්‍රි")
    assert chosen[-1] == " න්ද්‍රි"


def test_equally_frequent_units_are_chosen_in_the_same_order_every_time():
    trie = LinguisTrie()
    forward = {"කා": 1, "ගා": 1, "චා": 1}
    backward = dict(reversed(forward.items()))
    options = {"letter_coverage": 0.5, "syllable_coverage": 0.5}
    assert units_of(forward, trie, **options) == units_of(backward, trie, **options)


@pytest.mark.parametrize("characters", [25_000, pytest.param(100_000, marks=pytest.mark.data)])
def test_scripts_side_by_side_leave_each_others_words_as_they_were(characters):
    texts = {"si": "sinhala", "hi": "devanagari", "bn": "bengali", "gu": "gujarati", "ta": "tamil"}
    texts |= {"te": "telugu", "kn": "kannada", "ml": "malayalam"}
    together = LinguisTrie(texts.values())
    words = {language: corpus(language, characters).split() for language in texts}
    counted = {
        language: Counter(unit for word in words[language] for unit in together.tokenize(f" {word}", leading_space=True))
        for language in texts
    }
    options = {"letter_coverage": 0.999, "syllable_coverage": 0.99}

    def pieces(units):
        table, tokens = table_and_tokens(units)
        return lambda word: [tokens[id] for id in apply_merges(f" {word}".encode(), table)]

    def of(script, units):
        return Counter({unit: count for unit, count in units.items() if together.script_of(unit) == script})

    everything = sum((of(script, counted[language]) for language, script in texts.items()), Counter())
    all_together = pieces(units_of(everything, together, **options))
    for language, script in texts.items():
        alone = pieces(units_of(of(script, counted[language]), LinguisTrie([script]), **options))
        own = resolve_script(script).letters_and_marks() | {ZWJ, ZWNJ}
        inside = [word for word in words[language] if own.issuperset(word) and together.script_of(word)]
        assert len(inside) > characters / 20
        for word in inside:
            assert all_together(word) == alone(word), word
