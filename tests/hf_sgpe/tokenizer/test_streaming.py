import pytest
from hypothesis import given, strategies as st
from support.small_tokenizers import SPECIALS
from support.texts import chunked, texts

pytestmark = pytest.mark.kernels

STREAMED = "aé€😀 ක්‍රම<|endoftext|>\nb, don't<|a|><|b|> <s>1 2"


@given(text=texts.filter(lambda text: len(text) > 1), data=st.data())
def test_streaming_is_the_same_for_every_cut(tokenizer, text, data):
    text = f"{text} and <|endoftext|> {text}\nx"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    chunks = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert list(tokenizer.encode_streaming(chunks, allowed_special="all")) == tokenizer.encode(text, allowed_special="all")


@pytest.mark.parametrize("make", [str, str.encode])
def test_streaming_is_lazy(tokenizer, make):
    def lines():
        yield make("පළමු පේළිය one line\n")
        yield make("another line\n")
        raise RuntimeError("read too far")

    assert tokenizer.decode([next(tokenizer.encode_streaming(lines()))]).startswith("ප")


@pytest.mark.parametrize("allowed", ["all", "none"])
@pytest.mark.parametrize("make", [str, str.encode])
def test_a_stream_may_be_cut_at_every_place(plain, make, allowed):
    data, whole = make(STREAMED), plain.encode(STREAMED, allowed_special=allowed)
    for cut in range(len(data) + 1):
        assert list(plain.encode_streaming(chunked(data, [cut]), allowed_special=allowed)) == whole
    for size in range(1, 9):
        chunks = chunked(data, range(size, len(data), size))
        assert list(plain.encode_streaming(iter(chunks), allowed_special=allowed)) == whole


@given(parts=st.lists(texts | st.sampled_from(SPECIALS), max_size=4), data=st.data())
def test_streams_of_bytes_may_be_cut_anywhere(tokenizer, parts, data):
    text = "".join(parts)
    encoded = text.encode()
    cuts = data.draw(st.lists(st.integers(0, len(encoded)), max_size=6))
    streamed = tokenizer.encode_streaming(chunked(encoded, cuts), allowed_special="all")
    assert list(streamed) == tokenizer.encode(text, allowed_special="all")


@given(data=st.binary(max_size=20), cuts=st.lists(st.integers(0, 20), max_size=4))
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_that_are_not_utf8_become_replacement_characters(plain, kind, data, cuts):
    ids = list(plain.encode_streaming(map(kind, chunked(data, [min(cut, len(data)) for cut in cuts]))))
    assert ids == plain.encode(data.decode(errors="replace"))


def test_a_stream_that_ends_inside_a_character(plain):
    assert plain.decode(plain.encode_streaming([b"ab\xe2", b"\x82"])) == "ab\ufffd"
    assert plain.decode(plain.encode_streaming([b"\xe2", b"", b"\x82", b"\xac"])) == "€"
    assert list(plain.encode_streaming([])) == list(plain.encode_streaming([b""])) == []


def test_surrogate_pairs_that_chunks_part_come_together(plain):
    assert plain.decode(plain.encode_streaming(["a \ud83d", "\ude00 b"])) == "a 😀 b"
