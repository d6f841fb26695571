"""Added tokens are texts and ordinary tokens are bytes: two name spaces, also where ``tokenizer.json`` spells both alike."""

import json
import re

import pytest
from hypothesis import given, strategies as st
from support.texts import SINHALA
from tokenizers import Tokenizer
from transformers import AddedToken, AutoTokenizer

from hf_sgpe import (
    BPETokenizer,
    SGPEError,
    SGPETokenizerFast,
    Splitting,
    TrainingConfig,
    WordCounts,
    train_from_counts,
)
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.learning.extension.extension_config import ExtensionConfig

BYTES = {bytes([byte]): byte for byte in range(256)}
# Their bytes in GPT-2's alphabet would be others: "Fuß" is no UTF-8, "Ã©" is "é", "Ġder" is " der".
ODD = ["Fuß", "naïve", "ශ්‍රී", "ø", "Ã©", "ĠFuß", "the", "é>"]
parts_of_text = st.lists(
    st.sampled_from([*ODD, "Fu", "ß", "ſ", "ï", "Ġ", "é", "ශ්", "රී", " ", "\n", "house", "t", "he", "<|endoftext|>"])
    | st.text(st.sampled_from(SINHALA[:9] + " Fußnaïveøé>ĠÃ©中青"), max_size=6),
    max_size=7,
).map("".join)


def library(tokenizer):
    return Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(tokenizer)))


@pytest.fixture(scope="module", params=["not special", "special", "found first"])
def grown(request, saved, tmp_path_factory):
    """What plain transformers saves of a trained tokenizer with more tokens."""
    folder = tmp_path_factory.mktemp("grown") / "saved"
    plain = AutoTokenizer.from_pretrained(saved)
    options = {"special": {"special": True, "normalized": False}, "found first": {"normalized": False}}.get(request.param)
    plain.add_tokens(ODD if options is None else [AddedToken(text, **options) for text in ODD])
    plain.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def both(grown):
    return BPETokenizer.from_pretrained(grown), AutoTokenizer.from_pretrained(grown)


@given(text=parts_of_text)
def test_ids_are_those_of_transformers_and_the_text_comes_back(both, text):
    ours, plain = both
    ids = ours.encode(text, allowed_special="all")
    assert ids == plain.encode(text)
    assert ours.tokenize(text, allowed_special="all") == plain.tokenize(text)
    assert ours.decode(ids) == text
    assert ours.decode(ours.encode(text)) == text
    assert list(ours.encode_streaming(list(text), allowed_special="all")) == ids
    assert ours.encode_with_offsets(text, allowed_special="all")[0] == ids


@pytest.fixture(scope="module")
def fast(both):
    return SGPETokenizerFast.from_bpe(both[0])


@given(text=parts_of_text)
def test_the_fast_class_gives_what_transformers_gives(fast, both, text):
    plain = both[1]
    options = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    assert dict(fast(text, **options)) == dict(plain(text, **options))
    assert fast.tokenize(text) == plain.tokenize(text)
    ids = fast.encode(text)
    assert fast.decode(ids) == plain.decode(ids)
    assert fast.decode(ids, skip_special_tokens=True) == plain.decode(ids, skip_special_tokens=True)


def test_tokens_ids_and_strings_are_those_of_transformers(both):
    ours, plain = both
    assert ours.get_vocab() == dict(sorted(plain.get_vocab().items(), key=lambda item: item[1]))
    assert len(ours) == len(plain)
    assert ours.convert_tokens_to_ids(ODD) == plain.convert_tokens_to_ids(ODD)
    assert [ours.token_bytes(id).decode() for id in ours.convert_tokens_to_ids(ODD)] == ODD
    assert plain.decode(plain.convert_tokens_to_ids(["Fuß"])) == "Fu\ufffd"


@pytest.mark.parametrize("through", ["folder", "fast", "extension"])
def test_added_tokens_keep_their_ids_wherever_they_go(grown, both, through, tmp_path):
    ours, plain = both
    text = "Der Fuß, naïve ශ්‍රී Ã© ĠFuß the é> house"
    ids = ours.encode(text, allowed_special="all")
    if through == "folder":
        ours.save(tmp_path / "again")
        again = AutoTokenizer.from_pretrained(tmp_path / "again")
        assert again.get_vocab() == plain.get_vocab()
    elif through == "fast":
        again = SGPETokenizerFast.from_bpe(ours)
        assert again.to_bpe().get_vocab() == ours.get_vocab()
        assert again.decode(ids) == plain.decode(ids)
    else:
        config = ExtensionConfig(["thai"], new_tokens=30, own_split=True)
        base = TokenizerFolder.read(grown)
        counts = WordCounts.from_texts(["สวัสดีครับ ภาษาไทย " * 30], config.splitting_for(base.data))
        extended = base.with_vocabulary_of(extend_from_counts(base.data, counts, config).tokenizer)
        (tmp_path / "extended").mkdir()
        extended.write(tmp_path / "extended")
        again = AutoTokenizer.from_pretrained(tmp_path / "extended")
        assert BPETokenizer.from_pretrained(tmp_path / "extended").encode(text, allowed_special="all") == ids
    assert again.encode(text) == ids


def test_tiktoken_has_them_with_their_ids(saved):
    plain = SGPETokenizerFast.from_pretrained(saved)
    plain.add_tokens(ODD)
    ours = plain.to_bpe()
    text = "".join(f"{name} house {name}" for name in ODD)
    assert ours.to_tiktoken().encode(text, allowed_special="all") == ours.encode(text) == plain.encode(text)
    assert ours.to_tiktoken().decode(ours.encode(text)) == text


def test_an_extension_may_learn_the_text_of_an_added_token():
    config = ExtensionConfig(["sinhala"], new_tokens=60, own_split=True)
    base = BPETokenizer(BYTES, [], added_tokens={"කා": 256})
    extended = extend_from_counts(
        base.data, WordCounts.from_texts(["කා " * 90], config.splitting_for(base)), config
    ).tokenizer
    assert "කා".encode() in extended.vocab
    assert BPETokenizer.of(extended).encode("කා") == library(extended).encode("කා").ids == [256]


@given(text=parts_of_text)
def test_an_added_token_may_be_spelled_like_a_byte_that_no_text_has(text):
    tokenizer = BPETokenizer(
        {bytes([i]): i for i in range(256) if i not in (0xF8, 0xF5)}, [], added_tokens={"ø": 256, "õ": 257}
    )
    ids = tokenizer.encode(text)
    assert ids == library(tokenizer).encode(text).ids
    assert tokenizer.decode(ids) == text


def test_a_byte_that_a_vocabulary_lacks_does_not_become_the_added_token_spelled_like_it(tmp_path):
    """0xE9 is the first byte of 青."""
    vocab = {bytes([byte]): id for id, byte in enumerate(byte for byte in range(256) if byte != 0xE9)}
    tokenizer = BPETokenizer(vocab, [], added_tokens={"é": 255})
    tokenizer.save(tmp_path)
    plain, read = AutoTokenizer.from_pretrained(tmp_path), BPETokenizer.from_pretrained(tmp_path)
    for text in ("青", "é青é", "café"):
        assert tokenizer.encode(text) == read.encode(text) == plain.encode(text)
    elsewhere = BPETokenizer(vocab, [], added_tokens={"é": 300})
    with pytest.raises(
        SGPEError, match=re.escape(r"the added token 'é' (id 300) has the same spelling in tokenizer.json as the bytes")
    ):
        elsewhere.save(tmp_path / "other")


def test_words_taken_whole_do_not_become_the_added_token_spelled_like_them():
    vocab = {**BYTES, b"ab": 256}
    tokenizer = BPETokenizer(vocab, [(b"a", b"b")], added_tokens={"Ġxy": 257}, ignore_merges=True)
    for text in ("ab xy", "Ġxy xy"):
        assert tokenizer.encode(text) == library(tokenizer).encode(text).ids
    assert "Ġxy" not in tokenizer_json.to_dict(tokenizer)["model"]["vocab"]


def test_an_ordinary_token_that_was_added_again_is_one_token(tmp_path):
    """As transformers' add_tokens does with a word that has a token."""
    vocab, merges = {**BYTES, b"th": 256, b"the": 257}, [(b"t", b"h"), (b"th", b"e")]
    plain = SGPETokenizerFast.from_bpe(BPETokenizer(vocab, merges))
    assert plain.add_tokens(["the", "ø", "a"]) == 3
    plain.save_pretrained(tmp_path)
    ours, plain = BPETokenizer.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    for text in ("the weather", "these th a ø", "banana"):
        assert ours.encode(text) == plain.encode(text)
        assert ours.decode(ours.encode(text)) == text
    assert len(ours) == len(plain) == len(ours.get_vocab()) == 258
    assert ours.added_tokens == {"ø": 0xF8, "a": ord("a"), "the": 257}


@pytest.mark.parametrize(("added", "ordinary"), [("Ġ", "b' '"), ("ß", r"b'\xdf'"), ("Ġthe", "b' the'")])
def test_an_added_token_that_took_the_id_of_other_bytes_is_named(added, ordinary, tmp_path):
    vocab = {**BYTES, b"th": 256, b"the": 257, b" the": 258}
    plain = SGPETokenizerFast.from_bpe(BPETokenizer(vocab, [(b"t", b"h"), (b"th", b"e"), (b" ", b"the")]))
    plain.add_tokens([added])
    plain.save_pretrained(tmp_path)
    with pytest.raises(SGPEError, match=f"'{added}' .* {re.escape(ordinary)} "):
        BPETokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize("parts", [{"added_tokens": {"ø": 256}}, {"special_tokens": {"a": 256}}])
def test_one_spelling_cannot_have_two_ids(parts):
    with pytest.raises(SGPEError, match=r"are both written '.' in tokenizer\.json"):
        BPETokenizer(BYTES, [], **parts)
    with pytest.raises(SGPEError, match="cannot be empty"):
        BPETokenizer(BYTES, [], **{name: {"": 256} for name in parts})


@pytest.mark.parametrize("special", ["€", "ක", "\n", " ", "Fuß", "é>", "\u200d", "😀"])
def test_special_tokens_may_be_any_text_that_no_ordinary_token_is_spelled_like(special, sample):
    config = TrainingConfig(vocab_size=600, scripts=("sinhala",), normalization="none", special_tokens=[special])
    trained = train_from_counts(WordCounts.from_texts([sample["si"][:4000], sample["en"][:4000]], config), config)
    backend, id = library(trained), trained.special_tokens[special]
    for text in (special, f"a{special}b {special} ", f"{special}{special} ලංකාව"):
        ids = trained.encode(text, allowed_special="all")
        assert ids == backend.encode(text).ids and ids.count(id) == text.count(special)
        assert trained.decode(ids) == trained.decode(trained.encode(text)) == text
        assert id not in trained.encode(text)
        assert list(trained.encode_streaming(list(text), allowed_special="all")) == ids


@pytest.mark.parametrize(
    ("special", "ordinary"), [("a", "b'a'"), ("ø", r"b'\xf8'"), ("Ġthe", "b' the'"), ("Ã©", r"b'\xc3\xa9'")]
)
def test_special_tokens_that_ordinary_ones_are_spelled_like_are_named(special, ordinary):
    with pytest.raises(SGPEError, match=f"'{special}' .* {re.escape(ordinary)}"):
        TrainingConfig(vocab_size=999, special_tokens=[special])


def test_a_lacking_byte_that_an_added_token_is_spelled_like_is_not_exact_in_llama_cpp():
    from hf_sgpe.evaluation.runtimes import inexact

    splitting = Splitting("bpe", pattern="gpt2")
    whole = BPETokenizer({bytes([i]): i for i in range(256)}, [], added_tokens={"<x>": 256}, splitting=splitting)
    assert inexact(whole.data, ["llama.cpp"]) == []
    vocab = {bytes([i]): i for i in range(256) if i != 0xE9}
    lacking = BPETokenizer(vocab, [], added_tokens={"é": 256}, splitting=splitting)
    assert inexact(lacking.data, ["llama.cpp"]) == ["llama.cpp"]
