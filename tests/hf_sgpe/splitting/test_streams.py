import pytest
from hypothesis import given, settings, strategies as st
from support.data import corpus, needs_data
from support.texts import NEWEST, newest, texts

from hf_sgpe import SPLIT_PATTERNS, LinguisTriePreTokenizer, RegexPreTokenizer
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.streams import cut_stream

SPLITTERS = {name: RegexPreTokenizer(name) for name in SPLIT_PATTERNS}
SPLITTERS["hybrid"] = RegexPreTokenizer(*LinguisTriePreTokenizer(["sinhala", "devanagari"], "o200k").patterns)
SPLITTERS["sgpe"] = RegexPreTokenizer(*LinguisTriePreTokenizer(["sinhala"], None).patterns)


marks = st.text(st.sampled_from("aකा१ .,!?…。、।\n\r/(" + NEWEST), max_size=8)


def words(splitter, texts):
    return [word for text in texts for word in splitter.split(prepare(text, "nfc"))]


@pytest.mark.parametrize("name", SPLITTERS)
@given(chunks=st.lists(texts | newest | marks | st.sampled_from([" a", "\nb", "x\n", "1", " ", "\n", "'s"]), max_size=6))
@settings(max_examples=400)
def test_words_of_the_parts_are_the_words_of_the_whole(name, chunks):
    parts = list(cut_stream(chunks))
    assert "".join(parts) == "".join(chunks)
    assert words(SPLITTERS[name], parts) == words(SPLITTERS[name], ["".join(chunks)])


@needs_data
@pytest.mark.parametrize("name", SPLITTERS)
def test_real_text_is_cut_often_and_without_a_trace(name):
    for language in ("si", "en", "hi"):
        text = corpus(language, 30_000)
        parts = list(cut_stream(text[start : start + 500] for start in range(0, len(text), 500)))
        assert len(parts) > len(text) / 500 / 2
        assert words(SPLITTERS[name], parts) == words(SPLITTERS[name], [text])


def test_special_tokens_that_a_cut_could_fall_into_hold_the_text_back():
    text = ["one two ", "three <the end> four"]
    assert list(cut_stream(text, ["<the end>"])) == ["".join(text)]
    assert len(list(cut_stream(text, ["<|end|>"]))) > 1


def test_text_without_spaces_or_lines_is_cut_at_its_marks():
    for text in ("中文，没有空格的文本。", "1. 中文，没有空格。\r\n", "- item (a),\n"):
        parts = list(cut_stream([text] * 1000))
        assert max(map(len, parts)) < 3 * len(text)


def test_empty_streams():
    assert list(cut_stream([])) == []
    assert list(cut_stream(["", ""])) == []
