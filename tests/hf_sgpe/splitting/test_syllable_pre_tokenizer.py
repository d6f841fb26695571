from functools import cache

import pytest
from hypothesis import given
from support.corpora import conjunct_words, corpus
from support.texts import texts
from tokenizers import PreTokenizedString
from tokenizers.pre_tokenizers import PreTokenizer

from hf_sgpe import LinguisTrie, LinguisTriePreTokenizer, RegexPreTokenizer, SGPEError, segment_into_words
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.scripts.script_tables import TEN
from hf_sgpe.splitting.splitting import Splitting

pytestmark = pytest.mark.kernels

CASES = [
    (("sinhala",), "o200k"),
    (("sinhala",), "gpt2"),
    (("sinhala",), None),
    (("sinhala", "devanagari"), "cl100k"),
    (("devanagari",), None),
    (("tamil", "sinhala"), "bloom"),
    (tuple(SCRIPTS), "llama3"),
    (tuple(script.name for script in TEN), None),
]


@cache
def forms(scripts, pattern):
    readable = LinguisTriePreTokenizer(scripts, pattern)
    return readable, RegexPreTokenizer(*readable.patterns), readable.to_native()


def check_forms(scripts, pattern, text):
    readable, by_regex, native = forms(scripts, pattern)
    words = readable.split(text)
    assert words == by_regex.split(text)
    assert readable.pre_tokenize_str(text) == native.pre_tokenize_str(text)
    assert "".join(words) == text


@pytest.mark.parametrize(("scripts", "pattern"), CASES)
@given(text=texts)
def test_readable_regex_and_native_forms_agree_on_random_text(scripts, pattern, text):
    check_forms(scripts, pattern, text)


@pytest.mark.parametrize(("scripts", "pattern"), CASES)
@pytest.mark.parametrize("language", ["si", "pi_sinh", "si_noisy_pdf", "hi", "ta", "en", "ml"])
def test_readable_regex_and_native_forms_agree_on_running_text(scripts, pattern, language):
    check_forms(scripts, pattern, corpus(language, 20_000))


@given(texts)
def test_units_of_words_join_to_the_text_and_are_the_tries_units(text):
    readable = LinguisTriePreTokenizer(["sinhala"], "gpt2")
    units = [unit for word in readable.split(text) for unit in readable.segment(word)]
    assert b"".join(unit.encode() if isinstance(unit, str) else unit for unit in units) == text.encode()
    sgpe = LinguisTriePreTokenizer(["sinhala"], None)
    words = segment_into_words(LinguisTrie().tokenize(text, leading_space=True))
    assert [sgpe.segment(word) for word in sgpe.split(text)] == words


def test_no_word_of_the_list_is_taken_apart():
    readable = LinguisTriePreTokenizer(["sinhala"], "o200k")
    letters = SCRIPTS["sinhala"].letters_and_marks() | set("\u200c\u200d")
    words = [word for word in conjunct_words() if set(word) <= letters and word[0] not in "\u200c\u200d"]
    assert len(words) > 0.9 * len(conjunct_words())
    for word in words:
        assert readable.split(f" {word}") == [f" {word}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("राम २०२४। (ශ්‍රී) it's", ["राम", " ", "२०२", "४", "।", " (", "ශ්‍රී", ")", " it's"]),
        ("ක\u093e\u0915", ["ක", "\u093e\u0915"]),
        ("\u200dක\u200d\u200cක", ["\u200d", "ක\u200d\u200cක"]),
    ],
)
def test_hybrid_cuts_between_scripts_and_leaves_other_characters_to_the_pattern(text, words):
    assert LinguisTriePreTokenizer(["sinhala", "devanagari"], "o200k").split(text) == words


@given(texts)
def test_attaches_by_the_custom_protocol(text):
    ours = LinguisTriePreTokenizer(["sinhala"], "o200k")
    pretokenized = PreTokenizedString(text)
    PreTokenizer.custom(ours).pre_tokenize(pretokenized)
    spans = [(word, span) for word, span, _ in pretokenized.get_splits(offset_referential="original", offset_type="char")]
    assert spans == [item for item in ours.pre_tokenize_str(text) if item[0]]


def test_each_recipe_has_its_own_split():
    assert RegexPreTokenizer.of(Splitting("bpe", pattern="gpt2")).split("ab ක") == ["ab", " ක"]
    assert RegexPreTokenizer.of(Splitting("sgpe", ("sinhala",), "ignored name")).split("ab ක") == ["a", "b", " ක"]
    with pytest.raises(SGPEError, match="recipe 'magic'"):
        Splitting("magic", (), "gpt2")
    with pytest.raises(SGPEError, match="at least one"):
        LinguisTriePreTokenizer([], "gpt2")
