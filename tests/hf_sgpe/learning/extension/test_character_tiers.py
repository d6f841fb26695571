import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from support.sentencepiece_like import KINDS, RARER_KINDS, content
from tokenizers import Tokenizer

from hf_sgpe import BPETokenizer, ExtensionConfig, SGPEError, WordCounts
from hf_sgpe.bpe.closed_pairs import pairs_of
from hf_sgpe.evaluation.metrics import evaluate
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.learning.extension.promise import check_promise

SINHALA = "ශ්‍රී ලංකාව ක්‍ෂේත්‍රය විද්‍යාලය ක්ෂණික ලංකාවේ ශ්‍රී ක්‍රම ලංකාව " * 4
OTHER = ["the low lower lowest newer", "नमस्ते दुनिया विद्यालय\u200dक", "中文 ක\u0dca ▁a", "ලං කා"]
PARTS = ["ශ්‍රී", "ලංකාව", " ", "ක", "\u0dca", "\u200d", "the", "low", "विद्या", "\n", "é", "ද", "▁", "中", "Ā"]
strings = st.lists(st.one_of(st.sampled_from(PARTS), st.characters(exclude_categories=["Cs"])), max_size=16).map("".join)


def base_of(normalization="metaspace", texts=OTHER):
    return tokenizer_json.from_dict(content([*texts, "\u200d"], 150, normalization, {"<end>": True, "lo": False}))


def extended(base, number=60, scripts=("sinhala",), text=SINHALA):
    config = ExtensionConfig(scripts, new_tokens=number)
    return extend_from_counts(base, WordCounts.from_texts([text], config.counting_splitting(base)), config)


@pytest.fixture(scope="module", params=(*KINDS, *RARER_KINDS))
def extension(request):
    return extended(base_of(request.param))


@pytest.mark.one_in(3)
@given(strings)
def test_ids_are_those_of_the_library_and_other_text_keeps_its_ids(extension, text):
    old, new = BPETokenizer.of(extension.base), BPETokenizer.of(extension.tokenizer)
    library = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(new.data)))
    ids = new.encode(text)
    assert ids == library.encode(text, add_special_tokens=False).ids
    if new.data.byte_tokens:  # without them, the base loses some characters
        assert new.decode(ids) == old.decode(old.encode(text))
    if not any("\u0d80" <= character < "\u0e00" for character in text):
        assert ids == old.encode(text)


def test_syllables_are_whole_and_words_short(extension):
    assert evaluate(BPETokenizer.of(extension.tokenizer), [SINHALA]).cut_syllables == 0
    before, after = extension.tokens_per_piece
    assert after < before / 2


def test_a_syllable_that_the_base_has_is_whole_too():
    """Its merge moves in front of the base's other merges, which would cut it."""
    base = base_of(texts=["ානි ානා ාන " * 20, "නි " * 5])
    merges = [(left.encode(), right.encode()) for left, right in ("ාන", "නි")]
    assert base.merges.index(merges[0]) < base.merges.index(merges[1])
    new = extended(base, text="කානි නානි නි කානාව " * 20).tokenizer
    assert new.merges.index(merges[1]) < new.merges.index(merges[0])
    assert new.merges.count(merges[1]) == 1
    assert evaluate(BPETokenizer.of(new), ["කානි නානි"]).cut_syllables == 0


def test_every_pair_that_makes_a_new_token_is_a_merge(extension):
    tokens, merges = set(extension.tokenizer.vocab), set(extension.tokenizer.merges)
    for token in tokens - extension.base.vocab.keys():
        assert set(pairs_of(token, tokens)) <= merges, token


def test_a_line_end_without_a_token_is_in_no_new_token(caplog):
    extension = extended(base_of(), text="ලංකාව෴\n" * 50)
    assert b"\n" not in extension.base.vocab
    assert not any(b"\n" in token for token in extension.tokenizer.vocab)
    assert (
        "50% of the words of sinhala are not learned from: they contain an added token, or characters of other text"
        in caplog.text
    )


def test_new_ids_follow_and_old_ids_stay(extension):
    base, new = extension.base, extension.tokenizer
    assert extension.new_tokens <= 60
    ids = {new.vocab[token] for token in new.vocab.keys() - base.vocab.keys()}
    assert min(ids) == 1 + max(*base.vocab.values(), *base.byte_tokens, *base.added_ids.values())
    assert new.byte_tokens == base.byte_tokens
    check_promise(base, new, ["sinhala"])


def test_fewer_tokens_are_the_first_ones(extension):
    sizes = range(extension.unit_tokens, extension.new_tokens + 1, 5)
    lengths = []
    for size in sizes:
        data = extension.at(size)
        check_promise(extension.base, data, ["sinhala"])
        lengths.append(len(BPETokenizer.of(data).encode(SINHALA)))
    assert lengths == sorted(lengths, reverse=True)


def test_a_character_of_all_scripts_without_a_token_gets_none():
    base = tokenizer_json.from_dict(content(OTHER[:1], 50))
    new = extended(base).tokenizer
    assert "\u200d".encode() not in new.vocab
    assert "ශ".encode() in new.vocab
    assert not any(b"\xe2\x80\x8d" in token for token in new.vocab)
    tokenizer = BPETokenizer.of(new)
    assert tokenizer.decode(tokenizer.encode(SINHALA)) == SINHALA


def test_a_tokenizer_can_be_extended_twice():
    first = extended(base_of()).tokenizer
    second = extended(first, 30, ("devanagari",), "नमस्ते दुनिया क्षेत्र हिन्दी विद्यालय नमस्ते हिन्दी " * 3)
    old, new = BPETokenizer.of(first), BPETokenizer.of(second.tokenizer)
    assert new.encode(SINHALA + OTHER[0]) == old.encode(SINHALA + OTHER[0])
    assert len(new.encode("नमस्ते दुनिया")) < len(old.encode("नमस्ते दुनिया"))


def test_scripts_beyond_the_basic_plane_get_tokens():
    adlam = "𞤆𞤵𞤤𞤢𞤪 𞤸𞤢𞤤𞤨𞤵𞤤𞤢𞤪 𞤆𞤵𞤤𞤢𞤪 " * 5
    new = BPETokenizer.of(extended(base_of(), 40, ("adlam",), adlam).tokenizer)
    assert len(new.encode(adlam)) < len(adlam) / 3
    assert new.decode(new.encode(adlam)) == adlam


@pytest.mark.parametrize(("own_split", "option"), [(True, "--own-split"), (False, "--base-split")])
def test_options_of_the_split_are_refused(own_split, option):
    message = (
        rf"own_split={own_split} \({option}\): a tokenizer converted from SentencePiece has no split: leave out this option"
    )
    with pytest.raises(SGPEError, match=message):
        ExtensionConfig(["sinhala"], own_split=own_split).splitting_for(base_of())


def test_a_tokenizer_that_breaks_the_promise_is_refused():
    base = base_of()
    new = extended(base).tokenizer
    other = {**new.vocab, b"zz": 9_000}
    with pytest.raises(SGPEError, match="b'zz'"):
        check_promise(base, replace(new, vocab=other), ["sinhala"])
    with pytest.raises(SGPEError, match="differ in byte tokens"):
        check_promise(base, replace(new, byte_tokens=[*new.byte_tokens[1:], 9_000]), ["sinhala"])


def test_no_token_is_learned_that_an_added_token_would_cut():
    khmer = "ខ្មែរ។\nខ្មែរ៕\n" * 20
    base = tokenizer_json.from_dict(content([*OTHER, "\n"], 60, added={"\n": False}))
    new = extended(base, 40, ("khmer",), khmer).tokenizer
    assert not any(b"\n" in token and len(token) > 1 for token in new.vocab.keys() - base.vocab.keys())
    assert len(BPETokenizer.of(new).encode(khmer)) < len(khmer) / 2
