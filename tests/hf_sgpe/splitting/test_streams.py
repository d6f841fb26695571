from dataclasses import replace
from itertools import accumulate, product

import pytest
from hypothesis import given, strategies as st
from support.corpora import corpus
from support.texts import NEWEST, indic, newest, texts

from hf_sgpe import SPLIT_PATTERNS, LinguisTrie, LinguisTriePreTokenizer, RegexPreTokenizer
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.streams import cut_stream, last_cut, may_be_cut, whole_letters

pytestmark = pytest.mark.kernels

SPLITTERS = {name: RegexPreTokenizer(name) for name in SPLIT_PATTERNS}
SPLITTERS["hybrid"] = RegexPreTokenizer(*LinguisTriePreTokenizer(["sinhala", "devanagari"], "o200k").patterns)
SPLITTERS["sgpe"] = RegexPreTokenizer(*LinguisTriePreTokenizer(["sinhala", "devanagari"], None).patterns)


marks = st.text(st.sampled_from("aකा१ .,!?…。、।\n\r/(" + NEWEST), max_size=8)


def words(splitter, texts):
    return [word for text in texts for word in splitter.split(prepare(text, "nfc"))]


@pytest.mark.parametrize("name", SPLITTERS)
@given(chunks=st.lists(texts | newest | marks | st.sampled_from([" a", "\nb", "x\n", "1", " ", "\n", "'s"]), max_size=6))
def test_words_of_the_parts_are_the_words_of_the_whole(name, chunks):
    parts = list(cut_stream(chunks))
    assert "".join(parts) == "".join(chunks)
    assert words(SPLITTERS[name], parts) == words(SPLITTERS[name], ["".join(chunks)])


@pytest.mark.parametrize("name", SPLITTERS)
def test_every_short_text_keeps_its_words(name):
    for letters in product("a1 \n\r.", repeat=4):
        parts = list(cut_stream(letters))
        assert words(SPLITTERS[name], parts) == words(SPLITTERS[name], ["".join(letters)])


@pytest.mark.parametrize("name", SPLITTERS)
def test_running_text_is_cut_often_and_without_a_trace(name):
    for language in ("si", "en", "hi"):
        text = corpus(language, 30_000)
        parts = list(cut_stream(text[start : start + 500] for start in range(0, len(text), 500)))
        assert len(parts) > len(text) / 500 / 2
        assert words(SPLITTERS[name], parts) == words(SPLITTERS[name], [text])


@pytest.mark.parametrize("name", SPLITTERS)
def test_no_word_is_cut_at_a_mark_inside_it(name):
    for mark in ".,!?()…。，、।॥۔،:;-'":
        text = f"राम{mark}राम ශ්‍රී{mark}ලංකා it{mark}is १{mark}१ "
        parts = list(cut_stream([text] * 20))
        assert words(SPLITTERS[name], parts) == words(SPLITTERS[name], [text * 20])


def test_special_tokens_that_a_cut_could_fall_into_hold_the_text_back():
    text = ["one two ", "three <the end> four"]
    assert list(cut_stream(text, ["<the end>"])) == ["".join(text)]
    assert len(list(cut_stream(text, ["<|end|>"]))) > 1


def test_text_without_spaces_or_lines_is_cut_at_its_marks():
    for text in ("中文，没有空格的文本。", "1. 中文，没有空格。\r\n", "- item (a),\n"):
        parts = list(cut_stream([text] * 1000))
        assert max(map(len, parts)) < 3 * len(text)


def test_a_line_comes_as_soon_as_the_next_begins():
    assert list(cut_stream(["one\n", "two\n", "three"])) == ["one\n", "two\n", "three"]


def test_empty_streams_have_no_lines():
    assert list(cut_stream([])) == []
    assert list(cut_stream(["", ""])) == []


TRIE = LinguisTrie(["all"], whole_clusters=True)


def letters(text):
    """What is to come in one piece, by `LinguisTrie`; and whether more may yet belong to it, where it stands last."""
    units = [(unit, TRIE.script_of(unit)) for unit in TRIE.tokenize(text)]
    return [(letter, script is not None) for unit, script in units for letter in (TRIE.letters(unit) if script else [unit])]


def open_letters(parts):
    """How many letters at the end may yet change: one, or the two that can become one ligature."""
    if "".join(letter for letter, _ in parts[-2:]) in ("ஸ்ர", "ஶ்ர"):
        return 2
    return int(parts[-1][1])


signs = st.text(st.sampled_from("කෂරයඅාීේ්ංकषतिी्ंँ़கஷஸரீ்ௌഷ്\u0d4eরয্ \u200d\u200c\u200da"), max_size=25)


@given(text=indic | signs | texts)
def test_a_letter_comes_when_no_character_can_change_it_any_more(text):
    came = []
    shown = []

    def one_by_one():
        for character in text:
            yield character
            shown.append("".join(came))

    for piece in whole_letters(one_by_one()):
        came.append(piece)
    for number, so_far in enumerate(shown, 1):
        parts = letters(text[:number])
        assert so_far == "".join(letter for letter, _ in parts[: len(parts) - open_letters(parts)])
    assert "".join(came) == text


@given(text=indic | signs | texts, data=st.data())
def test_pieces_cut_anywhere_come_out_between_letters(text, data):
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[start:stop] for start, stop in zip([0, *places], [*places, len(text)], strict=True)]
    whole = list(whole_letters(pieces))
    assert "".join(whole) == text
    assert all(whole)
    assert set(accumulate(map(len, whole))) <= set(accumulate(len(letter) for letter, _ in letters(text)))


def test_conjuncts_stay_in_one_letter():
    assert list(whole_letters("ශ්‍රී ලංකා")) == ["ශ්‍රී ", "ලං", "කා"]
    assert list(whole_letters("ක්ෂ ක්‍ෂ")) == ["ක්", "ෂ ", "ක්‍ෂ"]
    assert list(whole_letters("क्षत्रिय")) == ["क्ष", "त्रि", "य"]
    assert list(whole_letters("ஸ்ரீ")) == ["ஸ்ரீ"]
    assert list(whole_letters("क्षत्रिय", ["sinhala"])) == list("क्षत्रिय")


def test_a_letter_that_never_ends_takes_no_longer():
    text = "क" + "ं" * 300_000
    assert list(whole_letters(text)) == [text]


def test_where_a_syllable_needs_an_ending_one_without_it_comes_apart(monkeypatch):
    rules = {
        "start": {"C": "consonant"},
        "consonant": {"H": "virama", "S": "sign"},
        "virama": {"C": "consonant"},
        "sign": {},
    }
    how = {"syllable": rules, "ends": {"sign"}, "letter": rules, "letter_ends": {"sign"}, "document": None}
    monkeypatch.setitem(SCRIPTS, "waiting", replace(SCRIPTS["devanagari"], name="waiting", also="", **how))
    for text in ("किक्षिकक्षकिक्", "किक्षिककि", "क्क्क्क्कि", "क्क्क्"):
        whole = list(whole_letters(text, ["waiting"]))
        assert "".join(whole) == text
        units = LinguisTrie(["waiting"]).tokenize(text)
        assert set(accumulate(map(len, whole))) <= set(accumulate(map(len, units)))


def test_closing_closes_what_the_pieces_come_from():
    closed = []

    def pieces():
        try:
            yield from "abc"
        finally:
            closed.append(True)

    stream = whole_letters(pieces())
    assert next(stream) == "a"
    stream.close()
    assert closed


PARTS = ["a", "ක", "ක්", "ේ", "e\u0301", " ", "\n", "|", ".", "ල", "\u200d"]


@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join))
def test_a_special_token_that_a_safe_cut_divides_may_be_cut(token):
    """A cut depends on the characters around it, so the token is tried between all of them."""
    whole = may_be_cut([token])
    for before in PARTS:
        for after in PARTS:
            text = f"{before}<{token}>{after}"
            inside = [last_cut(text[:end]) for end in range(len(text) + 1)]
            is_cut = any(len(before) + 1 < place < len(before) + 1 + len(token) for place in inside)
            assert not (whole and is_cut), text


@pytest.mark.parametrize("token", ["<|අවසානයේ ලකුණ|>", "<e\u0301 a>", "<a b>", "<a.b>", "<\nක>"])
def test_special_tokens_with_a_safe_cut_inside_are_known(token):
    assert not may_be_cut([token])
    text = f"පළමු පේළිය{token}දෙවැනි"
    assert "".join(cut_stream([text], [token])) == text
