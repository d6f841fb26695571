"""Pre-tokenizers of tokenizers made elsewhere: the regexes they are read as cut text as the library does."""

import json
from functools import cache

import pytest
from hypothesis import given, strategies as st
from support.corpora import corpus
from support.texts import texts
from tokenizers import Tokenizer, decoders
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.pre_tokenizers import regexes_of
from hf_sgpe.kernels import is_native
from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer
from hf_sgpe.splitting.splitting import Splitting
from trainers import ExtensionConfig, TokenizerExtender

pytestmark = pytest.mark.kernels


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


DIGIT, DIGITS = ({"type": "Digits", "individual_digits": individual} for individual in (True, False))
O200K = SPLIT_PATTERNS["o200k"]
KINDS = {
    "smollm2, starcoder2": [DIGIT, byte_level(True)],
    "runs of digits": [DIGITS, byte_level(True)],
    "punctuation": [{"type": "Punctuation", "behavior": "Isolated"}, byte_level(True)],
    "runs of punctuation": [{"type": "Punctuation", "behavior": "Contiguous"}, DIGITS, byte_level(True)],
    "nested": [{"type": "Sequence", "pretokenizers": [DIGIT, split(O200K)]}, byte_level(False)],
    "deepseek-coder": [
        split("[\r\n]"),
        split("\\s?\\p{L}+"),
        split("\\s?\\p{P}+"),
        split("[一-龥ࠀ-一가-퟿]+"),
        DIGIT,
        byte_level(False),
    ],
    "deepseek-v3": [
        split("\\p{N}{1,3}"),
        split("[一-龥぀-ゟ゠-ヿ]+"),
        split(
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
        ),
        byte_level(False),
    ],
    "a text in place of a regex": [
        {"type": "Split", "pattern": {"String": "a.b"}, "behavior": "Isolated", "invert": False},
        split(O200K),
        byte_level(False),
    ],
}
FAST = ("smollm2, starcoder2", "runs of digits", "punctuation", "runs of punctuation", "nested")


def cut(kind, text):
    """The words of a text as the library cuts it, before ByteLevel writes their bytes as letters."""
    *parts, last = KINDS[kind]
    words = [text] if text else []
    for part in (*parts, *([split(SPLIT_PATTERNS["gpt2"])] if last["use_regex"] else [])):
        library = in_the_library(json.dumps(part))
        words = [word for piece in words for word, _ in library.pre_tokenize_str(piece)]
    return words


@cache
def in_the_library(part):
    model = {"type": "BPE", "vocab": {}, "merges": []}
    return Tokenizer.from_str(
        json.dumps({"version": "1.0", "model": model, "pre_tokenizer": json.loads(part)})
    ).pre_tokenizer


def splitter_of(kind):
    return RegexPreTokenizer.of(Splitting.from_regexes(regexes_of({"type": "Sequence", "pretokenizers": KINDS[kind]})))


# The last are digits and punctuation to one of the library's two tables of Unicode, and not to the other.
nasty = texts | st.text(st.sampled_from("a1٣½²x.b'-—।፡ \n中あ가\U00011de0\U00016ff4\u166d\u061d\U000111c9"), max_size=30)


@pytest.mark.parametrize("kind", KINDS)
@given(text=nasty)
def test_words_are_those_of_the_library(kind, text):
    assert splitter_of(kind).split(text) == cut(kind, text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", ["si", "hi", "en", "zh", "ar"])
def test_words_of_real_text_are_those_of_the_library(kind, language):
    text = corpus(language, 20_000)
    assert splitter_of(kind).split(text) == cut(kind, text)


@pytest.mark.parametrize("kind", KINDS)
def test_digits_and_punctuation_in_front_of_a_known_pattern_are_cut_natively(kind):
    assert (splitter_of(kind).scanner is not None) == (is_native() and kind in FAST)


@given(text=nasty)
def test_words_of_a_script_stay_whole_before_several_splits(text):
    base = Splitting.from_regexes(regexes_of({"type": "Sequence", "pretokenizers": KINDS["deepseek-coder"]}))
    for patterns in (base.patterns, (r"\p{N}", "gpt2")):
        splitting = Splitting("hybrid", ("sinhala",), patterns, "none", ())
        assert Splitting.from_regexes(splitting.regexes) == splitting
        pre_tokenizer = RegexPreTokenizer.of(splitting)
        assert pre_tokenizer.split(text) == [word for word, _ in pre_tokenizer.to_native().pre_tokenize_str(text)]


@pytest.fixture(scope="module")
def falcon(sample):
    """A tokenizer whose pre-tokenizers are those of Falcon, trained by the library."""
    digits = [{"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")]
    parts = [{"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True), *digits]
    model = {"type": "BPE", "vocab": {}, "merges": []}
    content = {"version": "1.0", "model": model, "pre_tokenizer": {"type": "Sequence", "pretokenizers": parts}}
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = ByteLevel.alphabet()
    numbers = [" ".join(map(str, range(0, 4000, 7))), "ಲ1²12 ¼½¾ 12345 1x2"] * 3
    trainer = BpeTrainer(vocab_size=2500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([*sample.values(), *numbers], trainer)
    return tokenizer


@given(text=nasty | st.text(st.sampled_from("0123456789 ²¹¼ಲಹ٣x.-"), max_size=24))
def test_digits_among_the_bytes_of_characters_are_cut_to_the_same_tokens(falcon, text):
    tokenizer = BPETokenizer.of(tokenizer_json.from_dict(json.loads(falcon.to_str())))
    assert tokenizer.encode(text) == falcon.encode(text).ids


def test_falcon_is_extended_like_any_other(falcon, sample, tmp_path):
    falcon.save(str(tmp_path / "tokenizer.json"))
    TokenizerExtender(ExtensionConfig(["kannada"], new_tokens=300)).extend(
        tmp_path, text="ಕನ್ನಡ ಅಕ್ಷರ ಲಹರಿ ಕನ್ನಡದ ಬಹಳ ಹಲವು 12 " * 20
    ).save_pretrained(tmp_path / "out")
    new = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    for language in ("en", "si", "hi"):
        assert new.encode(sample[language]).ids == falcon.encode(sample[language]).ids
    assert new.encode("² 12345 ಹ 1").ids[:5] == falcon.encode("² 12345 ").ids[:5]
    assert 2 * len(new.encode("ಕನ್ನಡ ಅಕ್ಷರ").ids) < len(falcon.encode("ಕನ್ನಡ ಅಕ್ಷರ").ids)
