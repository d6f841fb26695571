import pytest
from hypothesis import given, strategies as st
from support.small_tokenizers import with_specials
from support.texts import texts

from hf_sgpe import SGPEError

pytestmark = pytest.mark.kernels


@given(ids=st.lists(st.integers(0, 1999), max_size=30))
def test_decoding_any_ids(plain, ids):
    assert plain.decode(ids) == plain.decode_bytes(ids).decode(errors="replace")
    assert "".join(plain.decode_stream(ids)) == plain.decode(ids)
    assert plain.decode_batch([ids, []]) == [plain.decode(ids), ""]


@given(text=texts)
def test_tokens_ids_and_vocabulary_say_the_same(plain, text):
    ids, tokens = plain.encode(text), plain.tokenize(text)
    vocab = plain.get_vocab()
    assert [vocab[token] for token in tokens] == ids
    assert plain.convert_tokens_to_ids(tokens) == ids
    assert plain.convert_ids_to_tokens(ids) == tokens
    assert plain.convert_tokens_to_string(tokens) == text
    assert plain.count_tokens(text) == len(tokens)


def test_one_token_gives_one_id_and_back(plain):
    for token, id in plain.get_vocab().items():
        assert plain.convert_tokens_to_ids(token) == id
        assert plain.convert_ids_to_tokens(id) == token
    assert plain.convert_tokens_to_ids("<|endoftext|>") == plain.special_tokens["<|endoftext|>"]
    assert plain.tokenize("<|a|>", allowed_special="all") == ["<|a|>"]
    assert plain.count_tokens("<|a|>", allowed_special="all") == 1 < plain.count_tokens("<|a|>")


def test_unknown_tokens_and_ids_have_placeholders(plain):
    assert plain.convert_tokens_to_ids("no token") == -1
    assert plain.convert_tokens_to_ids(["a", "", " a"]) == [plain.vocab[b"a"], -1, -1]  # a space is written otherwise
    assert plain.convert_ids_to_tokens(2000) == plain.convert_ids_to_tokens(-1) == ""
    assert plain.convert_ids_to_tokens([plain.vocab[b"a"], 9999]) == ["a", ""]
    assert plain.convert_tokens_to_string(["a", "no token", "\u0120", "a"]) == "a a"
    assert plain.convert_tokens_to_ids([]) == plain.convert_ids_to_tokens([]) == []
    assert plain.convert_tokens_to_string([]) == ""


def test_ids_may_come_as_an_array_or_as_its_numbers(plain):
    ids = plain.encode_to_numpy("one two")
    assert plain.convert_ids_to_tokens(ids) == plain.tokenize("one two")
    assert plain.decode(ids) == "one two"
    assert plain.convert_ids_to_tokens(plain.encode_to_numpy("a")[0]) == "a"
    with pytest.raises(TypeError):
        plain.convert_ids_to_tokens([97.9])


def test_decoding_a_stream_gives_characters_when_they_are_whole():
    bytewise = with_specials(["<|x|>"])
    assert list(bytewise.decode_stream(bytewise.encode("aé😀"))) == ["a", "é", "😀"]
    assert list(bytewise.decode_stream([0xE2, 0x82])) == ["\ufffd"]
    assert list(bytewise.decode_stream([0xE2, 256, 97])) == ["\ufffd<|x|>", "a"]
    assert list(bytewise.decode_stream([97, 256, 98], skip_special_tokens=True)) == ["a", "b"]
    assert list(bytewise.decode_stream([0xFF, 97], errors="ignore")) == ["a"]
    with pytest.raises(UnicodeDecodeError):
        list(bytewise.decode_stream([0xFF], errors="strict"))


def test_decoding_a_stream_is_lazy():
    def ids():
        yield 97
        raise RuntimeError("read too far")

    assert next(with_specials([]).decode_stream(ids())) == "a"


def test_ids_out_of_range_are_named(plain):
    with pytest.raises(SGPEError, match=r"id 9999 at position 1"):
        plain.decode([0, 9999])
    with pytest.raises(SGPEError, match="id -1"):
        plain.token_bytes(-1)
