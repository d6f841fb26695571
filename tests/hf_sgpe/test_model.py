import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import texts

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer, SGPEError, WordCounts, train_from_counts
from hf_sgpe.bpe.encoder import MergeTable, apply_merges_by_rescan
from hf_sgpe.model import Template

SPECIALS = ["<|endoftext|>", "<|a|>", "<|a|><|b|>", " <s>"]


@pytest.fixture(scope="module")
def plain(sample):
    return BPETokenizer.train_from_iterator(sample.values(), 2000, special_tokens=SPECIALS)


def slow_encode(tokenizer, text):
    """Words by the engine itself, merges by rescanning."""
    from tokenizers.normalizers import NFC

    text = NFC().normalize_str(text) if tokenizer.normalization == "nfc" else text
    ids = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    assert len(ids) == len(tokenizer.merges)
    vocab = tokenizer.vocab
    table = MergeTable(((vocab[left], vocab[right]), vocab[left + right]) for left, right in tokenizer.merges)
    encoded = []
    for word, _ in tokenizer.pre_tokenizer.to_native().pre_tokenize_str(text):
        encoded += apply_merges_by_rescan([vocab[bytes([byte])] for byte in word.encode()], table)
    return encoded


@given(text=texts)
@settings(max_examples=500)
def test_encode_equals_its_slow_twin_and_round_trips(plain, text):
    assert plain.encode(text) == slow_encode(plain, text)
    assert plain.decode(plain.encode(text)) == text


@given(text=texts)
@settings(max_examples=500)
def test_hybrid_encode_equals_its_slow_twin(tokenizer, text):
    assert tokenizer.encode(text) == slow_encode(tokenizer, text)


@given(texts=st.lists(texts | st.sampled_from(SPECIALS), max_size=6), allowed=st.sampled_from(["all", "none"]))
@settings(max_examples=500)
def test_streaming_equals_encoding_the_whole(plain, texts, allowed):
    whole = plain.encode("".join(texts), allowed_special=allowed)
    assert list(plain.encode_streaming(texts, allowed_special=allowed)) == whole


@given(text=texts.filter(lambda text: len(text) > 1), data=st.data())
@settings(max_examples=300)
def test_streaming_is_the_same_for_every_cut(tokenizer, text, data):
    text = f"{text} and <|endoftext|> {text}\nx"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    chunks = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert list(tokenizer.encode_streaming(chunks, allowed_special="all")) == tokenizer.encode(text, allowed_special="all")


def test_streaming_is_lazy(tokenizer):
    def lines():
        yield "one line\n"
        yield "another line\n"
        raise RuntimeError("read too far")

    stream = tokenizer.encode_streaming(lines())
    assert tokenizer.decode([next(stream)]).startswith("o")


@given(text=texts, limit=st.integers(0, 12))
@settings(max_examples=500)
def test_truncated_text_stays_within_the_limit(tokenizer, text, limit):
    shortened = tokenizer.truncate(text, limit)
    assert tokenizer.count_tokens(shortened) <= limit
    whole = tokenizer.decode(tokenizer.encode(text))
    assert shortened == text if tokenizer.count_tokens(text) <= limit else whole.startswith(shortened)


@given(ids=st.lists(st.integers(0, 1999), max_size=30))
@settings(max_examples=500)
def test_decoding_any_ids(plain, ids):
    assert plain.decode(ids) == plain.decode_bytes(ids).decode(errors="replace")
    assert "".join(plain.decode_stream(ids)) == plain.decode(ids)
    assert plain.decode_batch([ids, []]) == [plain.decode(ids), ""]


def test_special_tokens_are_plain_text_unless_allowed(plain):
    text = "x<|a|><|b|><|endoftext|>"
    assert not set(plain.encode(text)) & set(plain.special_tokens.values())
    ids = plain.encode(text, allowed_special="all")
    assert ids[1:] == [plain.special_tokens["<|a|><|b|>"], plain.special_tokens["<|endoftext|>"]]
    assert plain.encode(text, allowed_special={"<|a|>"})[1] == plain.special_tokens["<|a|>"]
    assert plain.decode(ids) == text
    assert plain.decode(ids, skip_special_tokens=True) == "x"
    assert plain.encode(text, allowed_special=set()) == plain.encode(text)
    with pytest.raises(SGPEError, match=r"'<x>' is not a special token of this tokenizer: <\|endoftext\|>"):
        plain.encode("x", allowed_special={"<x>"})
    with pytest.raises(SGPEError, match="'all', 'none' or a set"):
        plain.encode("x", allowed_special="<|a|>")


def test_template(sample):
    from hf_sgpe import TrainingConfig

    config = TrainingConfig(vocab_size=6000, recipe="sgpe")
    sgpe = train_from_counts(WordCounts.from_texts([sample["si"]], config), config)
    assert sgpe.encode("ක", add_special_tokens=True) == [2, *sgpe.encode("ක"), 3]


def test_lone_surrogates_become_replacement_characters(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude00")) == "😀"


def test_forms_of_encoding(tokenizer):
    ids = tokenizer.encode("hello ලංකාව")
    array = tokenizer.encode_to_numpy("hello ලංකාව")
    assert (array.tolist(), array.dtype.name, array.shape) == (ids, "int32", (len(ids),))
    assert tokenizer.encode_batch(["hello ලංකාව", ""]) == [ids, []]
    assert tokenizer.count_tokens("hello ලංකාව") == len(ids)
    assert [tokenizer.get_vocab()[token] for token in tokenizer.tokenize("hello ලංකාව")] == ids


def test_what_it_is_made_of(plain):
    assert len(plain) == plain.vocab_size == 2000 == len(plain.get_vocab())
    assert list(plain.get_vocab().values()) == list(range(2000))
    ranks = plain.get_mergeable_ranks()
    assert ranks[:2] == [(b"\0", 0), (b"\1", 1)]
    assert [id for _, id in ranks] == list(range(2000 - len(SPECIALS)))
    assert plain.get_pattern() == SPLIT_PATTERNS["cl100k"]
    assert plain.token_bytes(plain.encode(" the")[0]) == b" the"
    assert repr(plain) == "BPETokenizer(2,000 tokens, 1,740 merges, normalization=none)"


def test_cache_counts_and_clears(plain):
    plain.clear_cache()
    plain.encode("again again again")
    assert plain.cache_info().hits == 1
    plain.encode("x" * 10_000)
    assert plain.cache_info().words == 2  # "again", " again", and not the endless word
    plain.clear_cache()
    assert plain.cache_info().words == 0


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda tokenizer: pickle.loads(pickle.dumps(tokenizer))])
def test_copies_are_the_same_tokenizer(tokenizer, clone):
    other = clone(tokenizer)
    assert other.get_vocab() == tokenizer.get_vocab()
    assert other.metadata == tokenizer.metadata
    assert other.encode("ශ්‍රී ලංකාව hello") == tokenizer.encode("ශ්‍රී ලංකාව hello")


def test_ids_out_of_range_are_named(plain):
    with pytest.raises(SGPEError, match=r"id 9999 at position 1 is not in the vocabulary \(ids 0 to 1999\)"):
        plain.decode([0, 9999])
    with pytest.raises(SGPEError, match="id -1"):
        plain.token_bytes(-1)


def test_wrong_types_and_values(plain):
    with pytest.raises(TypeError, match="encode takes a str, not bytes"):
        plain.encode(b"x")
    for id in ("104", 104.9):
        with pytest.raises(TypeError):
            plain.decode([id])
    with pytest.raises(SGPEError, match="max_tokens must be at least 0"):
        plain.truncate("x", -1)
    with pytest.raises(SGPEError, match="buffer_size must be at least 1"):
        BPETokenizer.train_from_iterator(["x"], 300, buffer_size=0)
    with pytest.raises(SGPEError, match="corpus is empty"):
        BPETokenizer.train_from_iterator([], 300)


BYTES = {bytes([byte]): byte for byte in range(256)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({b"a": 0}, []), "lacks the byte 0x00"),
        ((BYTES, [(b"a", b"b")]), "merge 0 uses b'ab', which is not in the vocabulary"),
        (({**BYTES, b"ab": 7}, [(b"a", b"b")]), "have the same id 7"),
        (({**BYTES, b"ab": -7}, []), "has the id -7"),
    ],
)
def test_parts_that_do_not_fit(arguments, message):
    with pytest.raises(SGPEError, match=message):
        BPETokenizer(*arguments)
    with pytest.raises(SGPEError, match="special token 'ab' is also an ordinary token"):
        BPETokenizer({**BYTES, b"ab": 256}, [], special_tokens={"ab": 257})
    with pytest.raises(SGPEError, match="template names '<x>'"):
        BPETokenizer(BYTES, [], template=Template.around(["<x>"], []))
