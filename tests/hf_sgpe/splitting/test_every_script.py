import importlib.util
import json
import unicodedata
from collections import Counter
from contextlib import nullcontext
from functools import cache
from itertools import accumulate, groupby, product
from pathlib import Path

import pytest
import regex
from hypothesis import given, strategies as st
from support.corpora import LANGUAGES, corpus, data_file
from support.examples import few_examples
from support.kernels import readable_only
from support.naive import apply_merges_by_rescan
from support.paths import ROOT
from support.texts import LINES, every_character

from hf_sgpe import LinguisTrie, LinguisTriePreTokenizer, RegexPreTokenizer, SGPEError, kernels
from hf_sgpe.bpe.merging import MergeTable
from hf_sgpe.bpe.unit_tier import BYTES, ChosenUnits, build_unit_tier, order_units
from hf_sgpe.splitting.scripts.script import characters_in, shared_marks, unicode_says
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS, every_script, resolve_script, resolve_scripts, scripts_in
from hf_sgpe.splitting.scripts.script_tables import TEN

pytestmark = pytest.mark.kernels

EVERY = sorted(every_script())
CLUSTER = regex.compile(r"\X")
WORDS = [
    line.split("\t") for line in Path(__file__).with_name("written_words.tsv").read_text(encoding="utf-8").splitlines()[1:]
]


def is_known(character):
    return unicodedata.category(character) not in ("Cn", "Co", "Cs")


KNOWN = "".join(filter(is_known, map(chr, range(0x110000))))


def text_in(*names, elements=()):
    """Random text, mostly of some scripts, with what may stand between their letters; all classes are as likely."""
    letters = [members for name in names for members in classes_of(name)]
    marks = st.sampled_from("\u0301\u0308\ufe0f\u0951\u1cda\u064b\U0001f3fd\u034f")
    others = st.sampled_from([*" a1-۱।\n", *elements])
    parts = [*map(st.sampled_from, letters)] * (len(names) if len(letters) > 4 else 4) + [
        st.sampled_from("\u200c\u200d"),
        marks,
        others,
    ]
    return st.lists(st.one_of(parts), max_size=16).map("".join)


@cache
def classes_of(name):
    """The letters and marks of a script, class by class."""
    classes = resolve_script(name).classes()
    letters = sorted(resolve_script(name).letters_and_marks(), key=lambda letter: (classes.get(letter, ""), letter))
    return [list(members) for _, members in groupby(letters, lambda letter: classes.get(letter, ""))]


@cache
def trie_of(*names):
    return LinguisTrie(names, whole_clusters=True)


@cache
def readable_trie_of(*names):
    with readable_only():
        return LinguisTrie(names, whole_clusters=True)


@pytest.fixture(scope="module")
def make_script_tables():
    file = ROOT / "scripts" / "make_script_tables.py"
    spec = importlib.util.spec_from_file_location("make_script_tables", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.data
def test_the_tables_are_those_that_the_script_writes(make_script_tables):
    assert json.loads(json.dumps(make_script_tables.tables(data_file("unicode")))) == unicode_says()


def test_the_tables_follow_the_properties_of_all_characters_that_python_knows(make_script_tables, tmp_path):
    def write(file, of, values):
        lines = (f"{ord(one):04X}; {value}\n" for value in values for one in regex.findall(rf"\p{{{of}={value}}}", KNOWN))
        (tmp_path / file).write_text("".join(lines), encoding="utf-8")

    expected = known_classes(unicode_says())
    scripts = {name.replace("-", "_").title() for _, name, _ in expected} - {"Emoji", "Marks"}
    write("Scripts.txt", "Script", scripts | {"Common", "Inherited"})
    write("IndicSyllabicCategory.txt", "InSC", make_script_tables._ATTACHED | make_script_tables._BASES)
    assert known_classes(make_script_tables.tables(tmp_path)) == expected


def known_classes(tables):
    """The classes of the scripts in tables: their characters, as far as this Python knows them."""
    return {
        (kind, name, letter): known
        for kind, scripts in tables.items()
        for name, classes in scripts.items()
        for letter, ranges in classes.items()
        if letter != "block" and (known := [*filter(is_known, characters_in(ranges))])
    }


def test_every_letter_and_mark_of_unicode_is_in_one_script():
    homes = Counter(character for script in every_script().values() for character in script.letters_and_marks())
    assert set(homes.values()) == {1}
    for character in regex.findall(r"(?V1)[[\p{L}\p{M}]--[\p{Common}\p{Inherited}]]", KNOWN):
        # Letters that came after the tables of the ten, and Devanagari Extended: counts made before can be added to.
        rare = "\ua8e0" <= character <= "\ua8ff" or character in "\u0c5c\u0cdc"
        assert (character in homes) != rare, hex(ord(character))


@pytest.mark.parametrize("name", EVERY)
def test_a_script_is_found_by_name_code_and_language(name):
    script = resolve_script(name)
    for also in (name.upper(), name.replace("-", "_"), name.replace("-", " ").title(), *script.also.split()):
        assert resolve_script(also) is script
    assert len(script.also.split()[0]) == 4
    if name not in ("emoji", "odia", "arabic"):
        matches = regex.compile(rf"\p{{Script={script.also.split()[0]}}}").fullmatch
        assert all(map(matches, script.letters_and_marks())) or name in ("sinhala", "devanagari")


def test_the_script_all_means_the_abugidas():
    assert len(resolve_scripts("all")) == len(SCRIPTS) > 60
    assert resolve_scripts(["all", "hebrew"]) == (*SCRIPTS, "hebrew")
    assert resolve_scripts("ka,Amharic,km") == ("georgian", "ethiopic", "khmer")
    with pytest.raises(SGPEError, match=r"'thay'.*thai"):
        resolve_scripts("thay")


@pytest.mark.parametrize("name", sorted({name for name, *_ in WORDS}))
def test_real_words_have_the_syllables_of_their_source(name):
    words = [word for of, word, *_ in WORDS if of == name]
    assert len(words) >= 10
    for word in words:
        assert "|".join(trie_of(name).tokenize(word.replace("|", ""))) == word
        assert "".join(map("".join, map(trie_of(name).letters, word.split("|")))) == word.replace("|", "")


@pytest.mark.parametrize("name", EVERY)
@given(data=st.data())
@few_examples
def test_syllables_give_the_text_back_natively_as_readably_and_cut_no_cluster(name, data):
    text = data.draw(text_in(name))
    units = trie_of(name).tokenize(text)
    assert "".join(units) == text
    assert readable_trie_of(name).tokenize(text) == units
    assert not cut_clusters(trie_of(name), text)
    for unit in units:
        assert "".join(trie_of(name).letters(unit)) == unit.removeprefix(" ")


@given(
    st.lists(st.sampled_from(EVERY), min_size=2, max_size=4).flatmap(
        lambda names: st.tuples(st.just(names), text_in(*names))
    )
)
def test_several_scripts_at_once(drawn):
    names, text = drawn
    trie = LinguisTrie(names, whole_clusters=True)
    units = trie.tokenize(text, leading_space=True)
    readable = readable_trie_of(*names)
    assert readable.tokenize(text, leading_space=True) == units
    assert readable.ends(text).tolist() == trie.ends(text).tolist()
    assert not cut_clusters(trie, text)


def cut_clusters(trie, text):
    """The extended grapheme clusters that begin with a letter of the trie's scripts and are cut, as (before, behind).

    Left out are cuts that lie between two scripts, which no word has both of: UAX #29 joins any letter to a prepended one
    (GB9b), and a consonant of one script to the virama of another (GB9c).
    """
    ends, cuts = set(trie.ends(text).tolist()), []
    for match in CLUSTER.finditer(text):
        script = trie.script_of(match[0]) if match[0][0] != " " else None
        for place in range(match.start() + 1, match.end()):
            is_mark = text[place] in "\u200c\u200d" or text[place] in shared_marks()
            if not script or (trie.script_of(text[place]) != script and not is_mark):
                break
            if place in ends:
                cuts.append((text[match.start() : place], text[place : match.end()]))
    return cuts


BREAKS = ["CR", "LF", "Control", "Extend", "ZWJ", "RI", "Prepend", "SpacingMark", "L", "V", "T", "LV", "LVT", "Other"]
LINKS = ["Consonant", "Extend", "Linker", "None"]


@pytest.mark.parametrize("names", [tuple(EVERY), ("all",)], ids=["every", "all"])
def test_no_cluster_of_three_characters_of_any_kinds_is_cut(names):
    """The kinds that UAX #29 tells apart."""
    kinds = [rf"(?V1)[\p{{GCB={one}}}&&\p{{InCB={other}}}]" for one in BREAKS for other in LINKS] + [r"\p{ExtPict}"]
    found = [regex.findall(kind, KNOWN) for kind in kinds]
    characters = [character for members in found for character in members[:1] + members[1:][-1:]]
    assert len(characters) > 30
    trie = trie_of(*names)
    for texts in (map("".join, product(characters, repeat=3)), every_character(), LINES):
        text = "\n".join(texts)
        assert "".join(trie.tokenize(text)) == text
        assert not cut_clusters(trie, text)


@pytest.mark.parametrize("characters", [20_000, pytest.param(300_000, marks=pytest.mark.data)])
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_cluster_of_running_text_is_cut(language, characters):
    for trie in (trie_of("all"), trie_of(*EVERY)):
        assert not cut_clusters(trie, corpus(language, characters))


@pytest.mark.parametrize("name", EVERY)
@given(data=st.data())
@few_examples
def test_no_merge_of_the_unit_tier_crosses_a_syllable(name, data):
    trie = trie_of(name)
    words = data.draw(st.lists(text_in(name), min_size=1, max_size=6))
    units = sorted({unit for word in words for unit in trie.tokenize(word, leading_space=True) if trie.script_of(unit)})
    if not units:
        return
    chosen = set(data.draw(st.lists(st.sampled_from(units))))
    letters = {letter for unit in units for letter in trie.letters(unit)}
    kept = set(data.draw(st.lists(st.sampled_from(sorted(letters)))))
    promised = "".join(unit for unit in units if not trie.must_earn(unit))
    merges = build_unit_tier(unit.encode() for unit in order_units(ChosenUnits(chosen, kept), trie, characters=promised))
    tokens = list(BYTES)
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    table = MergeTable((pair, 256 + rank) for rank, pair in enumerate(merges))
    for word in words:
        ends = set(accumulate(len(tokens[id]) for id in apply_merges_by_rescan(list(word.encode()), table)))
        place = 0
        for unit in trie.tokenize(word, leading_space=True):
            place += len(unit.encode())
            assert place in ends or not trie.script_of(unit), (word, unit, chosen)


def test_flags_are_left_to_the_split_pattern():
    """Merges that make one flag would reach into the next."""
    splitter = LinguisTriePreTokenizer(["emoji"], "o200k")
    assert splitter.split("a🇱🇰🇮🇳 👩‍🚀👍🏽") == [*RegexPreTokenizer("o200k").split("a🇱🇰🇮🇳"), " 👩‍🚀👍🏽"]


@pytest.mark.parametrize(
    ("names", "word"), [(["thai"], "กำ\u0331ก"), (["myanmar"], "က\ufe00ခ"), (["khmer", "devanagari"], "ក\u0301ខ")]
)
def test_words_keep_accents_and_variation_selectors(names, word):
    for text in (word, f" {word}"):
        assert LinguisTriePreTokenizer(names, "o200k").split(text + " a") == [text, " a"]


OWN = [name for name in EVERY if resolve_script(name).own_words]


@cache
def forms(names):
    readable = LinguisTriePreTokenizer(names, "o200k")
    return readable, RegexPreTokenizer(*readable.patterns), readable.to_native()


@pytest.mark.parametrize("names", [("all",), ("hebrew", "arabic", "sinhala"), ("emoji", "hangul"), tuple(OWN)])
@given(data=st.data())
def test_words_are_the_same_by_the_kernel_the_table_and_the_library(names, data):
    text = data.draw(text_in(*data.draw(st.lists(st.sampled_from(OWN), min_size=1, max_size=3))))
    readable, by_regex, native = forms(names)
    assert by_regex.scanner is not None or not kernels.is_native()
    assert by_regex.split(text) == readable.split(text) == [word for word, _ in native.pre_tokenize_str(text)]


def test_the_scripts_of_a_text_are_those_with_something_to_keep_whole():
    assert list(scripts_in(["မြန်မာ", "ไทย"])) == ["myanmar", "thai"]
    assert scripts_in(["Georgian: ქართული, Hangul: 한국어, 漢字, русский, עברית"]) == {}  # every letter is one character
    assert list(scripts_in(["בְּרֵאשִׁית"])) == ["hebrew"]
    assert list(scripts_in(["كَتَبَ"])) == ["arabic"]
    assert list(scripts_in(["Yorùbá: ẹ̀kọ́"])) == ["latin"]
    assert scripts_in(["e\u0301a"]) == {}  # composed by NFC


@pytest.mark.parametrize(
    ("name", "unit", "letters"),
    [
        ("kannada", "ಸ್ತ್ರೀ", "ಸ್ತ್ರೀ"),
        ("kannada", "ರ್\u200cಕ", "ರ್\u200c|ಕ"),  # ZWNJ shows the virama
        ("devanagari", "क्\u200dष", "क्\u200dष"),
        ("gurmukhi", "ਸ੍ਰੀ", "ਸ੍ਰੀ"),
        ("gurmukhi", "ਪੱ", "ਪੱ"),
        ("gurmukhi", "ਕ੍ਕ", "ਕ੍|ਕ"),  # has no form below the line
        ("tamil", "க்ஷி", "க்ஷி"),
        ("tamil", "ஸ்ரீ", "ஸ்ரீ"),
        ("tamil", "ஸ்ர", "ஸ்|ர"),
        ("tamil", "ட்சு", "ட்|சு"),
        ("malayalam", "ന്റെ", "ന്റെ"),
        ("malayalam", "ൻ്റെ", "ൻ്റെ"),
        ("bengali", "র্ৎ", "র্ৎ"),
        ("sinhala", "න්ද්\u200dරි", "න්|ද්\u200dරි"),
        ("sinhala", "ම\u200d්ම", "ම\u200d්ම"),  # touching
        ("sinhala", "ක\u0dd9\u0dcf", "ක\u0dd9\u0dcf"),  # one vowel sign, spelled as two
        ("sinhala", "ක\u0dd9\u0dca", "ක\u0dd9\u0dca"),
        ("myanmar", "မြန်", "မြ|န်"),
        ("myanmar", "င်္ဂ", "င်္ဂ"),
        ("khmer", "ស្ត្រី", "ស្ត្រី"),
        ("thai", "เที่", "เ|ที่"),
        ("tibetan", "བཀྲ་", "བ|ཀྲ|་"),
        ("arabic", "ـٰ", "ـٰ"),
        ("devanagari", "क\ua8e1", "क\ua8e1"),
    ],
)
def test_letters_are_what_a_reader_sees_as_one_sign(name, unit, letters):
    trie = trie_of(name)
    assert trie.tokenize(unit) == [unit]
    assert "|".join(trie.letters(unit)) == letters


VERSES = (
    "धर्मक्षेत्रे कुरुक्षेत्रे समवेता युयुत्सवः मामकाः पाण्डवाश्चैव किमकुर्वत सञ्जय",
    "यदा यदा हि धर्मस्य ग्लानिर्भवति भारत अभ्युत्थानमधर्मस्य तदात्मानं सृजाम्यहम्",
    "कर्मण्येवाधिकारस्ते मा फलेषु कदाचन मा कर्मफलहेतुर्भूर्मा ते सङ्गोऽस्त्वकर्मणि",
)


def in_letters_of(name, text):
    """A text of Devanagari in the characters of another script that have the same names; None where one is missing."""
    written = []
    for character in text:
        if character != " ":
            called = unicodedata.name(character).replace("DEVANAGARI", name.upper().replace("-", " "))
            if (character := NAMED.get(called, "")) == "":
                return None
        written.append(character)
    return "".join(written)


NAMED = {unicodedata.name(chr(point), ""): chr(point) for point in range(0x110000)}


@pytest.mark.parametrize("verse", VERSES)
def test_sanskrit_has_as_many_syllables_in_every_script(verse):
    counted = {}
    for name in SCRIPTS:
        unicode_name = {"odia": "oriya"}.get(name, name)
        text = in_letters_of(unicode_name, verse.replace("ऽ", ""))
        if text is not None and name != "tamil":
            counted[name] = [len(trie_of(name).tokenize(word)) for word in text.split()]
    assert len(counted) >= 10, counted.keys()
    assert all(numbers == counted["devanagari"] for numbers in counted.values()), counted


def test_ten_are_written_by_hand():
    assert [script.name for script in TEN] == list(SCRIPTS)[:10]


@pytest.mark.parametrize("readable", [False, True])
def test_words_count_for_the_script_that_they_begin_in(readable):
    """Letters of three and of four bytes alike, with a space before them and without."""
    letters = {name: min(resolve_script(name).letters_and_marks()) for name in EVERY}
    words = [space + letter + "a" for letter in letters.values() for space in ("", " ")]
    with readable_only() if readable else nullcontext():
        trie = LinguisTrie(EVERY)
        assert trie.count_scripts([word.encode() for word in words], [3] * len(words)) == dict.fromkeys(EVERY, 6)
