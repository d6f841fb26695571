import unicodedata
from dataclasses import replace

import pytest
import regex
from support.kernels import readable_only

from hf_sgpe import LinguisTrie, LinguisTriePreTokenizer
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.scripts.script_tables import TEN

pytestmark = pytest.mark.kernels

TEN_SCRIPTS = [script.name for script in TEN]

ROLES = {
    "Consonant": "C",
    "Consonant_Dead": "C",
    "Consonant_Preceding_Repha": "R",
    "Vowel_Independent": "V",
    "Nukta": "N",
    "Virama": "H",
    "Vowel_Dependent": "S",
    "Pure_Killer": "S",
    "Consonant_Medial": "S",
    "Bindu": "M",
    "Visarga": "M",
    "Cantillation_Mark": "M",
    "Gemination_Mark": "M",
    "Syllable_Modifier": "M",
}


def test_sinhala_classes_have_the_sizes_the_document_gives():
    letters = list(SCRIPTS["sinhala"].document_classes().values())
    assert {letter: letters.count(letter) for letter in "CVSMHJ"} == {"C": 45, "V": 18, "S": 19, "M": 2, "H": 1, "J": 1}


def test_no_character_belongs_to_two_scripts():
    characters = [character for script in SCRIPTS.values() for character in script.letters_and_marks()]
    assert len(characters) == len(set(characters))


@pytest.mark.parametrize("name", [name for name in TEN_SCRIPTS if name != "sinhala"])
def test_tables_agree_with_unicode(name):
    script = SCRIPTS[name]
    classes, words = script._own_classes(), script.letters_and_marks()
    for point in range(script.block[0], script.block[1] + 1):
        character = chr(point)
        if unicodedata.category(character) == "Cn":  # may be newer than the tables
            continue
        role = next((ROLES[category] for category in ROLES if regex.match(rf"\p{{InSC={category}}}", character)), None)
        if character in ("\u0a72", "\u0a73"):  # Gurmukhi's vowel bearers, placeholders to Unicode
            assert classes[character] == "V"
        elif role:
            assert classes[character] == role, hex(point)
        elif character not in ("\u0953", "\u0954"):  # accents that Unicode leaves without a category
            assert character not in classes, hex(point)
        # In words stand letters and marks, not digits and punctuation.
        assert (character in words) == (unicodedata.category(character)[0] in "LM"), hex(point)


@pytest.mark.parametrize("name", TEN_SCRIPTS)
def test_the_words_of_a_script_have_the_syllables_that_it_says(name):
    assert SCRIPTS[name].words
    for word in SCRIPTS[name].words.split():
        syllables, whole = word.split("|"), word.replace("|", "")
        assert LinguisTrie([name]).tokenize(whole) == syllables
        assert LinguisTriePreTokenizer([name], "o200k").split(f"{whole} {whole}") == [whole, f" {whole}"]


def test_a_syllable_ends_where_the_script_says_that_one_may(monkeypatch):
    # a consonant needs its vowel sign: without one, it stands alone
    grammar = {
        "start": {"C": "consonant"},
        "consonant": {"H": "virama", "S": "sign"},
        "virama": {"C": "consonant"},
        "sign": {},
    }
    waiting = replace(SCRIPTS["devanagari"], name="waiting", also="", syllable=grammar, ends={"sign"}, document=None)
    monkeypatch.setitem(SCRIPTS, "waiting", waiting)
    trie = LinguisTrie(["waiting"])
    assert trie.tokenize("कि|क्षि|कक्ष|किक्".replace("|", "")) == ["कि", "क्षि", "क", "क", "्", "ष", "कि", "क", "्"]
    with readable_only():
        assert LinguisTrie(["waiting"]).tokenize("किक्षिककि") == trie.tokenize("किक्षिककि") == ["कि", "क्षि", "क", "कि"]
