from functools import cache

import pytest
from hypothesis import given
from support.corpora import corpus
from support.texts import newest, texts
from tokenizers import NormalizedString, PreTokenizedString, Tokenizer, models
from tokenizers.pre_tokenizers import PreTokenizer

from hf_sgpe import SPLIT_PATTERNS, RegexPreTokenizer, SGPEError

pytestmark = pytest.mark.kernels


@cache
def forms(*patterns):
    """The split by patterns, here and natively."""
    pre_tokenizer = RegexPreTokenizer(*patterns)
    theirs = pre_tokenizer.to_native()
    return pre_tokenizer.split, lambda text: [word for word, _ in theirs.pre_tokenize_str(text)]


@pytest.mark.parametrize("name", SPLIT_PATTERNS)
@given(text=texts)
def test_named_patterns_split_as_the_engine_does_on_random_text(name, text):
    split, native_words = forms(name)
    assert split(text) == native_words(text)


@pytest.mark.parametrize("name", SPLIT_PATTERNS)
@given(text=newest)
def test_characters_newer_than_the_engine_make_no_difference(name, text):
    split, native_words = forms(name)
    assert split(text) == native_words(text)


@pytest.mark.parametrize("name", SPLIT_PATTERNS)
@pytest.mark.parametrize("language", ["si", "si_noisy_pdf", "hi", "en", "zh", "ar", "th"])
def test_named_patterns_split_as_the_engine_does_on_running_text(name, language):
    split, native_words = forms(name)
    text = corpus(language, 40_000)
    words = split(text)
    assert words == native_words(text)
    assert "".join(words) == text


def test_gpt2_pattern_by_example():
    text = "Hello world!  It's 2024, don't  stop\n\n"
    words = ["Hello", " world", "!", " ", " It", "'s", " 2024", ",", " don", "'t", " ", " stop", "\n\n"]
    assert RegexPreTokenizer("gpt2").split(text) == words


@given(texts)
def test_any_pattern_of_ones_own_splits_as_the_engine_does(text):
    for pattern in (r"\w+|\d", r"(a)|(b+)", r"[[:alpha:]]+", r"\s+|\S+", r"^.", r"x*+y", "ක්?", "[a]*", r"\p{N}*"):
        split, native_words = forms(pattern)
        assert split(text) == native_words(text)
        assert "".join(split(text)) == text


@given(texts)
def test_patterns_apply_one_after_another(text):
    gpt2, bloom = SPLIT_PATTERNS["gpt2"], SPLIT_PATTERNS["bloom"]
    for patterns in (
        (r"\p{N}", gpt2, bloom),
        (bloom, gpt2),
        (gpt2, bloom),
        ("[ab] ?", gpt2),
        (gpt2, f"{gpt2}|{bloom}", bloom),
    ):
        split, native_words = forms(*patterns)
        assert split(text) == native_words(text)


@given(texts)
def test_attaches_to_a_tokenizer_by_the_custom_protocol(text):
    ours = RegexPreTokenizer("cl100k")
    pretokenized = PreTokenizedString(text)
    PreTokenizer.custom(ours).pre_tokenize(pretokenized)
    assert [
        (word, span) for word, span, _ in pretokenized.get_splits(offset_referential="original", offset_type="char")
    ] == [item for item in ours.pre_tokenize_str(text) if item[0]]


def test_custom_protocol_does_not_take_quadratic_time():
    ours = RegexPreTokenizer("gpt2")
    pretokenized = PreTokenizedString("ab " * 60_000)
    ours.pre_tokenize(pretokenized)  # word after word off the whole, this takes minutes
    assert len(pretokenized.get_splits()) == 60_001


def test_a_tokenizer_with_the_python_pre_tokenizer_encodes():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, " b": 1}, unk_token="a"))
    tokenizer.pre_tokenizer = PreTokenizer.custom(RegexPreTokenizer("gpt2"))
    assert tokenizer.encode("a b").offsets == [(0, 1), (1, 3)]


def test_segment_gives_bytes():
    assert RegexPreTokenizer("gpt2").segment("é") == [b"\xc3", b"\xa9"]


def test_bad_patterns_are_named():
    with pytest.raises(SGPEError, match="split pattern 'gpt5'"):
        RegexPreTokenizer("gpt5")
    with pytest.raises(SGPEError, match=r"split pattern '\(' is not a valid regex"):
        RegexPreTokenizer("(")
    with pytest.raises(SGPEError, match="needs a pattern"):
        RegexPreTokenizer()


def test_slices_keep_offsets_after_normalization():
    text = NormalizedString("e\u0301a b")
    text.nfc()
    from hf_sgpe.splitting.regex_pre_tokenizer import _slices

    assert [str(part) for part in _slices(text, ["éa", " ", "b"])] == ["éa", " ", "b"]
