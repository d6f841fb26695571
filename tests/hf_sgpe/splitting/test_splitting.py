import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from support.texts import indic, texts

from hf_sgpe import (
    SPLIT_PATTERNS,
    BPETokenizer,
    RegexPreTokenizer,
    SGPEError,
    Splitting,
    TrainingConfig,
    WordCounts,
    kernels,
)
from hf_sgpe.splitting.scripts.script import runs
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS, every_script

pytestmark = pytest.mark.kernels

OF_THE_DOCUMENT = [name for name, script in SCRIPTS.items() if script.document]
WITH_WORDS = [name for name, script in every_script().items() if script.own_words]


def scripts_of(recipe):
    names = [*OF_THE_DOCUMENT, "hi"] if recipe == "sgpe" else [*SCRIPTS, *WITH_WORDS, "all", "hi"]
    return st.tuples(st.just(recipe), st.lists(st.sampled_from(names), min_size=1, max_size=4).map(tuple))


splittings = st.builds(
    lambda recipe_and_scripts, **others: Splitting(*recipe_and_scripts, **others),
    st.sampled_from(["hybrid", "sgpe", "bpe"]).flatmap(scripts_of),
    pattern=st.sampled_from([*SPLIT_PATTERNS, r"\s+|\S+", r"\d|[a-c]+"]),
    normalization=st.sampled_from([None, "none", "nfc"]),
    special_tokens=st.none() | st.lists(st.sampled_from(["<|x|>", "[CLS]", "<s>"]), unique=True).map(tuple),
)


@given(splittings)
def test_survives_json_and_pickle(splitting):
    assert Splitting.from_dict(json.loads(json.dumps(splitting.to_dict()))) == splitting
    assert pickle.loads(pickle.dumps(splitting)) == splitting
    assert not splitting.difference(splitting)


@given(splittings, texts | indic)
def test_regexes_say_all_of_it(splitting, text):
    read = Splitting.from_regexes(splitting.regexes, splitting.normalization, splitting.special_tokens)
    assert (read.recipe, read.scripts, read.regexes) == (splitting.recipe, splitting.scripts, splitting.regexes)
    assert RegexPreTokenizer.of(read).split(text) == RegexPreTokenizer.of(splitting).split(text)


@pytest.mark.parametrize("recipe", ["hybrid", "bpe", "sgpe"])
def test_a_saved_tokenizer_says_how_it_cuts(tmp_path, sample, recipe):
    from hf_sgpe import train_from_counts

    config = TrainingConfig(3000, recipe, ("tamil", "sinhala"), "llama3")
    tokenizer = train_from_counts(WordCounts.from_texts([sample["si"], sample["ta"]], config), config)
    tokenizer.save(tmp_path)
    assert BPETokenizer.from_pretrained(tmp_path).splitting == config.splitting == tokenizer.splitting


def test_settings_that_make_no_difference_are_left_out():
    assert Splitting("bpe", ("tamil",), "gpt2") == Splitting("bpe", ("all",), "gpt2")
    assert Splitting("sgpe", pattern="gpt2") == Splitting("sgpe", pattern="o200k")
    assert Splitting(special_tokens=("<a>", "<b>")) == Splitting(special_tokens=("<b>", "<a>"))
    assert Splitting(scripts=("si",), normalization="nfc") == Splitting()


@pytest.mark.parametrize(
    ("one", "other", "setting"),
    [
        ({}, {"recipe": "bpe"}, "recipe"),
        ({}, {"scripts": ("tamil",)}, "scripts"),
        ({}, {"pattern": "gpt2"}, "pattern"),
        ({}, {"normalization": "none"}, "normalization"),
        ({}, {"special_tokens": ()}, "special_tokens"),
    ],
)
def test_the_first_difference_is_named(one, other, setting):
    assert Splitting(**one).difference(Splitting(**other)) == setting


def test_a_tokenizer_of_older_tables_cuts_as_it_was_trained_and_as_fast(tmp_path):
    older = replace(SCRIPTS["tamil"], others="0BD0", modifiers="")  # without the sign of visarga
    letters = runs(map(ord, older.letters_and_marks()))
    splitting = Splitting(scripts=("tamil",), letters=(letters,))
    counts = WordCounts.from_texts(["அஃது அஃது"], splitting)
    counts.save(tmp_path / "counts")
    words = RegexPreTokenizer.of(splitting).split("அஃது")
    assert words == ["அ", "ஃ", "து"] != RegexPreTokenizer.of(Splitting(scripts=("tamil",))).split("அஃது")
    read = Splitting.from_regexes(splitting.regexes, "nfc", splitting.special_tokens)
    assert read == splitting
    assert RegexPreTokenizer.of(read).split("அஃது") == words
    assert (RegexPreTokenizer.of(read).scanner is not None) == kernels.has_scanners()
    kept = WordCounts.load(tmp_path / "counts")
    assert kept == counts
    with pytest.raises(SGPEError, match="patterns"):
        kept + WordCounts.from_texts(["அஃது"], Splitting(scripts=("tamil",)))


@pytest.mark.parametrize("scripts", [("thai",), ("thai", "hebrew"), ("all",)])
def test_a_tokenizer_of_older_joiners_cuts_as_it_was_trained(scripts):
    today = Splitting(scripts=scripts)
    older = replace(today, joiners=tuple(((0x200C, 0x200D),) for _ in today.scripts))
    assert RegexPreTokenizer.of(older).split("กา\u0301ก") == ["กา", "\u0301", "ก"]
    assert RegexPreTokenizer.of(today).split("กา\u0301ก") == ["กา\u0301ก"]
    read = Splitting.from_regexes(older.regexes, "nfc", older.special_tokens)
    assert read == older != today
    assert pickle.loads(pickle.dumps(read)) == read == Splitting.from_dict(read.to_dict())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"recipe": "x"}, "recipe 'x'"),
        ({"scripts": ()}, "needs a script"),
        ({"scripts": "si"}, "scripts must be a list"),
        ({"scripts": ("klingon",)}, "unknown script 'klingon'"),
        ({"pattern": "gpt5"}, "unknown split pattern 'gpt5'"),
        ({"pattern": "("}, "not a valid regex"),
        ({"normalization": "nfkc"}, "unknown normalization 'nfkc'"),
        ({"pattern": ()}, r"pattern .* \(\)"),
        ({"pattern": None}, "pattern .* None"),
        ({"recipe": ["bpe"]}, r"unknown recipe \['bpe'\]"),
        ({"special_tokens": ("<a>", 1)}, "special tokens must be strings, not 1"),
        ({"recipe": "bpe", "pattern": (3,)}, r"pattern .* \(3,\)"),
        ({"special_tokens": ("<a>", "<a>")}, "a special token occurs twice: <a>, <a>"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(SGPEError, match=message):
        Splitting(**settings)


def test_another_script_with_some_of_the_letters_changes_no_saved_tokenizer(monkeypatch):
    hindi = Splitting(scripts=("devanagari",))
    vedic = replace(SCRIPTS["devanagari"], name="vedic", consonants="1CE9-1CEC 0950", vowels="", signs="", modifiers="")
    monkeypatch.setitem(SCRIPTS, "vedic", vedic)
    assert Splitting.from_regexes(hindi.regexes, "nfc", hindi.special_tokens) == hindi


def test_a_script_that_another_process_does_not_know_is_named(monkeypatch):
    with monkeypatch.context() as there:
        there.setitem(SCRIPTS, "mine", replace(SCRIPTS["tamil"], name="mine"))
        sent = pickle.dumps(Splitting(scripts=("mine",)))
    with pytest.raises(SGPEError, match="unknown script 'mine'"):
        pickle.loads(sent)


def test_one_native_scanner_serves_all_special_tokens():
    one, other = (RegexPreTokenizer.of(Splitting(special_tokens=(name,))) for name in ("<a>", "<b>"))
    assert one.scanner is other.scanner


@pytest.mark.parametrize(
    "damage",
    [
        {"recipe": "bpe"},
        {"patterns": ["x"]},
        {"scripts": None},
        {"pattern": 5},
        {"normalization": []},
        {"special_tokens": 1},
    ],
)
def test_damaged_settings_are_named(damage):
    with pytest.raises(SGPEError):
        Splitting.from_dict({**Splitting().to_dict(), **damage})
