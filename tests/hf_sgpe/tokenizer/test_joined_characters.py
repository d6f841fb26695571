import json
import pickle
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from support.corpora import held_out
from support.sentencepiece_like import KINDS, RARER_KINDS, content
from tokenizers import Tokenizer

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.bpe.merging import apply_merges, symbols
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.splitting.normalization import METASPACES, prepare
from hf_sgpe.vocabulary.neighbours import Neighbours

pytestmark = pytest.mark.kernels

TEXTS = ["the low lower lowest  in the end\n\nof  it", "ශ්‍රී ලංකාව ක්‍ෂේත්‍රය ශ්‍රී", "中文中 文字 ▁a"]
ADDED = {"<end>": True, "\n\n": False, "lo": False, "▁▁": False}
PARTS = ["the", " ", "  ", "low", "lo", "\n", "\n\n", "▁", "<s>", "<end>", "ශ්‍රී", "ක", "\u0dca", "中", "文", "é", "😀"]

strings = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=14).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
)


def both(normalization, added=ADDED, normalized=()):
    made = json.dumps(content(TEXTS, 120, normalization, added, normalized))
    return BPETokenizer.of(tokenizer_json.from_dict(json.loads(made))), Tokenizer.from_str(made)


def same_as_library(tokenizer, library, text):
    """Compare ids, offsets and the decoded text, with all special tokens, and return the library's encoding."""
    encoded = library.encode(text, add_special_tokens=False)
    ids, offsets = tokenizer.encode_with_offsets(text, allowed_special="all")
    assert ids == tokenizer.encode(text, allowed_special="all") == encoded.ids
    if (
        tokenizer.data.byte_tokens or tokenizer.data.unknown
    ):  # the library shifts offsets behind characters that it leaves out
        assert offsets == encoded.offsets
    assert tokenizer.decode(ids) == library.decode(ids, skip_special_tokens=False)
    return encoded


@pytest.fixture(scope="module", params=(*KINDS, *RARER_KINDS))
def pair(request):
    return both(request.param)


@given(strings)
def test_ids_texts_and_offsets_are_those_of_the_library(pair, text):
    tokenizer, library = pair
    encoded = same_as_library(tokenizer, library, text)
    ids = encoded.ids
    assert "".join(tokenizer.decode_stream(ids)) == tokenizer.decode(ids)
    assert tokenizer.convert_ids_to_tokens(ids) == encoded.tokens


@pytest.fixture(scope="module", params=["metaspace", "metaspace-prefix", "metaspace-first", "cut at spaces", "NFKC, cut"])
def old_pair(request):
    return both(request.param, normalized=["<s>", "</s>", "<unk>"])


@given(strings)
def test_added_tokens_in_normalized_text_match_as_in_the_library(old_pair, text):
    tokenizer, library = old_pair
    ids = same_as_library(tokenizer, library, text).ids
    assert list(tokenizer.encode_streaming([text[:3], text[3:]], allowed_special="all")) == ids


@given(st.lists(strings, max_size=4))
def test_batches_and_arrays_have_the_same_ids(pair, texts):
    tokenizer, _ = pair
    rows = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(texts, threads=2) == rows
    ids, ends = tokenizer.encode_batch_to_numpy(texts)
    assert ids.tolist() == [id for row in rows for id in row]
    assert ends.tolist() == [sum(map(len, rows[: place + 1])) for place in range(len(rows))]


@given(strings.flatmap(lambda text: st.tuples(st.just(text * 3), st.lists(st.integers(0, 3 * len(text)), max_size=6))))
def test_a_stream_has_the_ids_of_its_text(pair, parts):
    text, cuts = parts
    tokenizer, _ = pair
    places = [0, *sorted(cuts), len(text)]
    chunks = [text[start:end] for start, end in pairwise(places)]
    for special in ("none", "all"):
        assert list(tokenizer.encode_streaming(chunks, allowed_special=special)) == tokenizer.encode(
            text, allowed_special=special
        )


@given(strings)
def test_parts_between_strangers_are_merged_as_the_whole_text(text):
    tokenizer, _ = both("metaspace", {})
    text = prepare(text, "metaspace")
    data = tokenizer.data
    table = tokenizer._codec._table
    whole = apply_merges(symbols(text.encode(), data.vocab, data.byte_tokens), table)
    assert tokenizer.encode(text) == whole
    assert "".join(Neighbours(data.vocab).split(text)) == text


def test_saved_tokenizers_are_the_same(pair, tmp_path):
    tokenizer, _ = pair
    tokenizer.save(tmp_path)
    again = BPETokenizer.from_pretrained(tmp_path)
    library = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in [*TEXTS, "", " ", "a<end> b\n\n c", "lo low"]:
        ids = tokenizer.encode(text, allowed_special="all")
        assert again.encode(text, allowed_special="all") == ids == library.encode(text, add_special_tokens=False).ids
        assert again.decode(ids) == tokenizer.decode(ids) == library.decode(ids, skip_special_tokens=False)
    assert again.get_vocab() == tokenizer.get_vocab() == library.get_vocab()
    assert pickle.loads(pickle.dumps(tokenizer)).encode("the low") == tokenizer.encode("the low")
    assert tokenizer.vocab_size == len(tokenizer.get_vocab())


def test_offsets_pass_over_characters_that_are_left_out():
    tokenizer, _ = both("unknown left out", {})
    ids, offsets = tokenizer.encode_with_offsets("é the é lo\u0d00w")
    assert tokenizer.convert_ids_to_tokens(ids) == ["▁the", "▁", "▁low"]
    assert offsets == [(1, 5), (5, 6), (7, 12)]


@pytest.mark.parametrize("kind", ["unknown, fused", "NFKC", "cut at spaces", "metaspace"])
def test_hostile_text_takes_little_time(kind):
    tokenizer, _ = both(kind, {})
    for text in ("é" * 200_000, "lowlow" * 50_000, " " * 200_000, "e\u0301" * 100_000):
        assert len(tokenizer.encode(text)) <= len(text.encode()) + 1


def test_whole_words_that_merges_do_not_make_are_refused():
    made = content(TEXTS)
    made["model"]["ignore_merges"] = True
    whole = BPETokenizer.of(tokenizer_json.from_dict(made))
    library = Tokenizer.from_str(json.dumps(made))
    assert whole.encode("the low") == library.encode("the low", add_special_tokens=False).ids
    made["model"]["vocab"]["theend"] = len(made["model"]["vocab"])
    with pytest.raises(SGPEError, match="'theend'"):
        tokenizer_json.from_dict(made)


def test_a_token_for_unknown_characters_must_be_in_the_vocabulary():
    made = content(TEXTS, normalization="unknown")
    made["model"]["unk_token"] = "<none>"
    with pytest.raises(SGPEError, match="unk_token '<none>'"):
        tokenizer_json.from_dict(made)
    made["model"]["unk_token"] = "<unk>"
    made["model"]["vocab"]["<0x0A>"] = len(made["model"]["vocab"])
    made["model"]["byte_fallback"] = True
    with pytest.raises(SGPEError, match="has byte_fallback, but no token <0x00>"):
        tokenizer_json.from_dict(made)


def test_a_character_without_a_token_becomes_its_bytes():
    tokenizer, _ = both("metaspace", {})
    ids = tokenizer.encode("é")
    assert tokenizer.convert_ids_to_tokens(ids) == ["<0xC3>", "<0xA9>"]
    assert list(tokenizer.decode_stream(ids)) == ["é"]
    assert tokenizer.token_bytes(ids[0]) == b"\xc3"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": {"type": "NFKC"}}, r"pre-tokenizer \(none\)"),
        ({"decoder": {"type": "Fuse"}}, r"Fuse .* Replace \+ ByteFallback"),
        ({"pre_tokenizer": {"type": "Whitespace"}, "normalizer": None}, "pre-tokenizer Whitespace"),
        (
            {"normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}},
            "Metaspace",
        ),
    ],
)
def test_what_would_be_encoded_differently_is_refused(change, message):
    with pytest.raises(SGPEError, match=message):
        tokenizer_json.from_dict({**content(TEXTS), **change})


def test_an_added_token_in_normalized_text_that_merges_make_is_refused():
    with pytest.raises(SGPEError, match="added token 'lo'"):
        both("metaspace-prefix", normalized=["lo"])


def test_a_model_without_tokens_of_bytes_is_refused():
    made = content(TEXTS)
    del made["model"]["vocab"]["<0x41>"]
    assert "A" not in made["model"]["vocab"]
    with pytest.raises(SGPEError, match="has byte_fallback, but no token <0x41>"):
        tokenizer_json.from_dict(made)


def test_a_byte_may_have_the_token_of_its_character():
    """As the tab of Gemma 1 and 2."""
    made = content(["a\tb\tc ab"])
    vocab = made["model"]["vocab"]
    vocab["\t"] = vocab.pop("<0x09>")
    library = Tokenizer.from_str(json.dumps(made))
    tokenizer = BPETokenizer.of(tokenizer_json.from_dict(made))
    assert tokenizer.vocab_size == len(tokenizer.get_vocab()) == library.get_vocab_size()
    assert tokenizer.get_vocab() == library.get_vocab()
    again = tokenizer_json.to_dict(tokenizer.data)
    assert tokenizer_json.from_dict(again) == tokenizer.data
    written = Tokenizer.from_str(json.dumps(again))
    for text in ("a\tb", "\t\t", "\t", "é\t", "ab"):
        ids = library.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text) == written.encode(text, add_special_tokens=False).ids == ids
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("kind", ["metaspace", "metaspace-always", "unknown"])
def test_a_token_that_is_spelled_with_a_space_is_only_decoded(kind):
    made = content(TEXTS, normalization=kind)
    vocab = made["model"]["vocab"]
    vocab |= {" ": len(vocab), "the low": len(vocab) + 1}
    library = Tokenizer.from_str(json.dumps(made))
    tokenizer = BPETokenizer.of(tokenizer_json.from_dict(made))
    assert tokenizer.unmade_tokens == {" ": vocab[" "], "the low": vocab["the low"]}
    assert tokenizer.get_vocab() == library.get_vocab()
    again = tokenizer_json.to_dict(tokenizer.data)
    assert again["model"]["vocab"] == vocab
    assert tokenizer_json.from_dict(again) == tokenizer.data
    for text in (" ", "the low lower", "a  b", "▁ the low"):
        same_as_library(tokenizer, library, text)
    ids = [vocab["the"], vocab[" "], vocab["the low"]]
    assert tokenizer.decode(ids) == library.decode(ids)


@pytest.mark.parametrize("normalization", METASPACES)
def test_lines_of_many_languages_have_the_ids_of_the_library(normalization):
    lines = [line for language in ("si", "en", "hi", "th", "zh", "ar") for line in held_out(language, 60)]
    made = json.dumps(content(lines[::3], 600, normalization, ADDED))
    tokenizer, library = BPETokenizer.of(tokenizer_json.from_dict(json.loads(made))), Tokenizer.from_str(made)
    wanted = [encoded.ids for encoded in library.encode_batch(lines, add_special_tokens=False)]
    assert tokenizer.encode_batch(lines) == wanted
    assert tokenizer.decode_batch(wanted) == library.decode_batch(wanted, skip_special_tokens=False)
