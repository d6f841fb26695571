from functools import cache

import pytest
import regex
from hypothesis import given
from support.corpora import corpus
from support.kernels import EVERY_KIND, needs_native, readable_only
from support.texts import indic, texts

from hf_sgpe import LinguisTrie, SGPEError, segment_into_words
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.scripts.script_tables import TEN
from hf_sgpe.splitting.syllables import is_boundary

pytestmark = pytest.mark.kernels

TEN_SCRIPTS = [script.name for script in TEN]

HAL, ZWJ = "\u0dca", "\u200d"
# The SGPE document's grammar as one regular expression, written from its section 2, not from the tables under test.
C, V, S, M = "[\u0d9a-\u0dc6]", "[\u0d85-\u0d96]", "[\u0dcf-\u0ddf\u0df2\u0df3]", "[\u0d82\u0d83]"
SYLLABLE = f"{C}(?:{HAL}{ZWJ}{C}|{HAL}{C})*(?:{HAL}{ZWJ})?(?:{S}|{HAL})?{M}?|{V}{M}?"
ORACLE = regex.compile(f"{SYLLABLE}|.", regex.DOTALL)
SPACED_ORACLE = regex.compile(rf" ?(?:{SYLLABLE}|[^ \t\n\r])|[ \t\n\r]")


def test_traced_example_of_the_document():
    units = LinguisTrie().tokenize("ශ්‍රී ලංකාව", leading_space=True)
    assert units == ["ශ්‍රී", " ලං", "කා", "ව"]
    assert segment_into_words(units) == [["ශ්‍රී"], [" ලං", "කා", "ව"]]


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("ක", ["ක"]),  # a consonant is the base
        (f"ක{HAL}{ZWJ}ර", [f"ක{HAL}{ZWJ}ර"]),  # hal as joiner + consonant
        (f"ක{HAL}ෂ", [f"ක{HAL}ෂ"]),  # hal + consonant, no joiner
        (f"ක{HAL}{ZWJ}", [f"ක{HAL}{ZWJ}"]),  # stray hal + joiner at the end …
        (f"ක{HAL}{ZWJ}a", [f"ක{HAL}{ZWJ}", "a"]),  # … and before something else
        (f"ක{HAL}{ZWJ}ි", [f"ක{HAL}{ZWJ}ි"]),  # stray, then a vowel sign is still absorbed
        (f"ක{HAL}{ZWJ}{HAL}ක", [f"ක{HAL}{ZWJ}{HAL}", "ක"]),  # stray, then a terminal hal ends the cluster
        (f"ක{HAL}", [f"ක{HAL}"]),  # terminal hal
        (f"ක{HAL}ං", [f"ක{HAL}ං"]),  # terminal hal + modifier
        (f"ක{HAL}{HAL}", [f"ක{HAL}", HAL]),  # second hal is an orphan
        (HAL, [HAL]),  # orphans
        ("ා", ["ා"]),
        ("ං", ["ං"]),
        (ZWJ, [ZWJ]),  # bare joiner is passed through
        (f"ක{ZWJ}ර", ["ක", ZWJ, "ර"]),
        ("කා", ["කා"]),  # vowel sign after cluster
        ("කාි", ["කා", "ි"]),  # only one
        ("කාං", ["කාං"]),
        ("කංඃ", ["කං", "ඃ"]),  # only one modifier
        ("කංා", ["කං", "ා"]),
        ("අං", ["අං"]),  # independent vowel with modifier
        ("අා", ["අ", "ා"]),
        ("a1.", ["a", "1", "."]),  # passed through
        ("\u0d81ක", ["\u0d81", "ක"]),  # candrabindu is in no class
        ("\u0db2\u0dd5", ["\u0db2\u0dd5"]),  # unassigned, but inside the document's ranges
        ("෦", ["෦"]),  # archaic digit
        ("ක ර", ["ක", " ", "ර"]),  # white space is passed through without leading_space
    ],
)
def test_character_handling_table(text, units):
    assert LinguisTrie().tokenize(text) == units


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("  \t ක", [" ", " ", "\t", " ක"]),
        ("\t\n ක", ["\t", "\n", " ක"]),
        ("\t\nක", ["\t", "\n", "ක"]),
        (" ක", [" ක"]),
        ("\tක", ["\t", "ක"]),
        ("ක ", ["ක", " "]),
        ("ක  ", ["ක", " ", " "]),
        (" a", [" a"]),
        (" ා", [" ා"]),
        (f" {ZWJ}", [f" {ZWJ}"]),
        ("\u00a0ක", ["\u00a0", "ක"]),  # no-break space is no white space here
        ("", []),
    ],
)
def test_white_space_table(text, units):
    assert LinguisTrie().tokenize(text, leading_space=True) == units


@given(texts)
def test_equals_the_documents_grammar_on_random_text(text):
    assert LinguisTrie().tokenize(text) == ORACLE.findall(text)
    assert LinguisTrie().tokenize(text, leading_space=True) == SPACED_ORACLE.findall(text)


@pytest.mark.parametrize("language", ["si", "pi_sinh", "si_noisy_pdf"])
def test_equals_the_documents_grammar_on_running_text(language):
    text = corpus(language, 300_000)
    assert LinguisTrie().tokenize(text) == ORACLE.findall(text)
    assert LinguisTrie().tokenize(text, leading_space=True) == SPACED_ORACLE.findall(text)


@cache
def tries():
    """Native and readable ones, in pairs."""
    which = ((EVERY_KIND, True), (EVERY_KIND, False), (("sinhala",), False))
    with readable_only():
        readable = [LinguisTrie(*one) for one in which]
    return [(LinguisTrie(*one), other) for one, other in zip(which, readable, strict=True)]


@needs_native
@given(text=texts | indic)
def test_linguis_trie_is_the_readable_one(text):
    for one, other in tries():
        for leading_space in (False, True):
            units = other.tokenize(text, leading_space)
            assert one.tokenize(text, leading_space) == units
            assert one.ends(text, leading_space).tolist() == other.ends(text, leading_space).tolist()
        words = [word.encode() for word in text.split("a") if word]
        for every_word in (False, True):
            expected = other.count_units(words, range(1, len(words) + 1), every_word=every_word)
            assert one.count_units(words, range(1, len(words) + 1), every_word=every_word) == expected
        assert one.count_scripts(words, [2] * len(words)) == other.count_scripts(words, [2] * len(words))


@pytest.mark.parametrize("name", [name for name in TEN_SCRIPTS if name != "sinhala"])
@given(text=texts)
def test_other_scripts_follow_the_general_grammar(name, text):
    classes = {}
    for character, letter in SCRIPTS[name].document_classes().items():
        classes[letter] = classes.get(letter, "") + character
    sets = (
        {letter: f"[{''.join(characters)}]" for letter, characters in classes.items()}
        | {"N": "(?!)", "R": "(?!)"}
        | {letter: f"[{characters}]" for letter, characters in classes.items()}
    )
    grammar = "(?:R?C|V)N?J?(?:S*HJ?CN?J?)*(?:S*HJ?|S+)?M*|R"
    pattern = regex.compile("".join(sets.get(letter, letter) for letter in grammar) + "|.", regex.DOTALL)
    assert LinguisTrie([name]).tokenize(text) == pattern.findall(text)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("स्त्री", ["स्त्री"]),
        ("क्ष", ["क्ष"]),
        ("क़ानून", ["क़ा", "नू", "न"]),
        ("हूँ", ["हूँ"]),
        ("अँग्रेज़ी", ["अँ", "ग्रे", "ज़ी"]),
        ("र्‍य", ["र्‍य"]),
        ("क्‌ष", ["क्‌ष"]),
        ("राम।", ["रा", "म", "।"]),
        ("ॐ", ["ॐ"]),
    ],
)
def test_devanagari_syllables(text, units):
    assert LinguisTrie(["devanagari"]).tokenize(text) == units
    assert LinguisTrie(["sinhala", "devanagari"]).tokenize(f"ශ්‍රී{text}") == ["ශ්‍රී", *units]


@given(texts)
def test_units_and_words_join_to_the_text(text):
    trie = LinguisTrie(SCRIPTS)
    units = trie.tokenize(text, leading_space=True)
    assert "".join(units) == text
    assert "".join(unit for word in segment_into_words(units, SCRIPTS) for unit in word) == text
    for unit in units:
        assert "".join(trie.letters(unit)) == unit.removeprefix(" ")


def test_letters_end_at_a_visible_virama():
    trie = LinguisTrie()
    assert trie.letters("න්ද්‍රි") == ["න්", "ද්‍රි"]
    assert trie.letters(" ක්‍ෂාං") == ["ක්‍ෂාං"]
    assert LinguisTrie(["devanagari"]).letters("क्षि") == ["क्षि"]


def test_words_group_around_boundaries():
    units = ["ක", "ා", "a", " ක", "\u200d", "ර", " ක", "\n", "ක"]
    assert segment_into_words(units) == [["ක", "ා"], ["a"], [" ක", "\u200d", "ර"], [" ක"], ["\n"], ["ක"]]
    assert segment_into_words([]) == []


def test_unknown_script_is_named_with_the_known_ones():
    with pytest.raises(SGPEError, match=r"script 'klingon'"):
        LinguisTrie(["klingon"])


@pytest.mark.parametrize("text", [None, b"ab", 5, ["a"]])
def test_arguments_that_are_no_text_are_refused_in_one_line(text):
    with pytest.raises(TypeError, match=f"tokenize .* {type(text).__name__}"):
        LinguisTrie().tokenize(text)
    with pytest.raises(TypeError, match=f"ends .* {type(text).__name__}"):
        LinguisTrie().ends(text)


@pytest.mark.parametrize("name", TEN_SCRIPTS)
def test_every_character_of_the_block_of_a_script_is_inside_a_word(name):
    first, last = SCRIPTS[name].block
    for point in range(first, last + 1):
        assert not is_boundary(f" {chr(point)}", [name])
    for outside in (" ", "a", chr(first - 1), chr(last + 1)):
        assert is_boundary(outside, [name])
    assert segment_into_words([f" {chr(last)}", chr(last), " a", f" {chr(first)}"], [name]) == [
        [f" {chr(last)}", chr(last)],
        [" a"],
        [f" {chr(first)}"],
    ]
