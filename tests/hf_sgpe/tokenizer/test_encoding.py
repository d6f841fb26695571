import copy
import pickle

import pytest
from hypothesis import given, strategies as st
from support.naive import apply_merges_by_rescan
from support.small_tokenizers import BYTES, SPECIALS
from support.texts import texts

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer, SGPEError, SGPETokenizerFast, WordCounts, train_from_counts
from hf_sgpe.bpe.merging import MergeTable
from hf_sgpe.splitting.normalization import well_formed
from hf_sgpe.vocabulary.special_tokens import Template

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def backend(plain):
    return SGPETokenizerFast.from_bpe(plain).backend_tokenizer


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
def test_encode_equals_its_slow_twin_and_round_trips(plain, text):
    assert plain.encode(text) == slow_encode(plain, text)
    assert plain.decode(plain.encode(text)) == text


@given(text=texts)
def test_hybrid_encode_equals_its_slow_twin(tokenizer, text):
    assert tokenizer.encode(text) == slow_encode(tokenizer, text)


@given(text=texts, allowed=st.sampled_from(["all", "none"]))
def test_offsets_are_those_of_the_backend(plain, backend, text, allowed):
    ids, offsets = plain.encode_with_offsets(text, allowed_special=allowed)
    assert ids == plain.encode(text, allowed_special=allowed)
    if allowed == "all" and well_formed(text) == text:
        encoding = backend.encode(text, add_special_tokens=False)
        assert (ids, offsets) == (encoding.ids, encoding.offsets)


@given(text=texts)
def test_offsets_cover_the_text_that_was_normalized(tokenizer, text):
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    reached = 0
    for start, stop in offsets:
        assert start <= reached and start < stop <= len(text)
        reached = max(reached, stop)
    assert reached == len(text)


def test_offsets_of_what_was_composed(tokenizer):
    text = "x e\u0301 <|endoftext|>\ud83d\ude00"
    ids, offsets = tokenizer.encode_with_offsets(text, allowed_special="all")
    assert ids == tokenizer.encode(text, allowed_special="all")
    assert "e\u0301" in {text[start:stop].strip() for start, stop in offsets}
    assert "<|endoftext|>" in {text[start:stop] for start, stop in offsets}
    assert {stop for _, stop in offsets} >= {len(text)}


@given(text=texts.filter(lambda text: well_formed(text) == text))
def test_bytes_are_text(tokenizer, text):
    assert tokenizer.encode_bytes(text.encode()) == tokenizer.encode(text)
    assert tokenizer.encode_bytes(memoryview(text.encode())) == tokenizer.encode(text)


def test_bytes_that_are_no_text_and_texts_are_refused(tokenizer):
    with pytest.raises(SGPEError, match="not UTF-8 at byte 2: invalid start byte"):
        tokenizer.encode_bytes(b"ab\xff")
    with pytest.raises(TypeError, match="needs bytes, not str"):
        tokenizer.encode_bytes("ab")


def test_arrow_has_the_same_ids(tokenizer):
    batch = ["ශ්‍රී ලංකාව", "", "e\u0301", "x\ud800"]
    assert tokenizer.encode_batch_to_arrow(batch).to_pylist() == tokenizer.encode_batch(batch)
    assert tokenizer.encode_batch_to_arrow([]).to_pylist() == []


def test_special_tokens_are_plain_text_unless_allowed(plain):
    text = "x<|a|><|b|><|endoftext|>"
    assert not set(plain.encode(text)) & set(plain.special_tokens.values())
    ids = plain.encode(text, allowed_special="all")
    assert ids[1:] == [plain.special_tokens["<|a|><|b|>"], plain.special_tokens["<|endoftext|>"]]
    assert plain.encode(text, allowed_special={"<|a|>"})[1] == plain.special_tokens["<|a|>"]
    assert plain.decode(ids) == text
    assert plain.decode(ids, skip_special_tokens=True) == "x"
    assert plain.encode(text, allowed_special=set()) == plain.encode(text)
    with pytest.raises(SGPEError, match=r"'<x>' .* <\|endoftext\|>"):
        plain.encode("x", allowed_special={"<x>"})
    with pytest.raises(SGPEError, match="'all', 'none' or a set"):
        plain.encode("x", allowed_special="<|a|>")


def test_the_template_of_sgpe_is_applied_by_encode(sample):
    from hf_sgpe import TrainingConfig

    config = TrainingConfig(vocab_size=6000, recipe="sgpe")
    sgpe = train_from_counts(WordCounts.from_texts([sample["si"]], config), config)
    assert sgpe.encode("ක", add_special_tokens=True) == [2, *sgpe.encode("ක"), 3]


def test_lone_surrogates_become_replacement_characters(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude00")) == "😀"


def test_arrays_batches_counts_and_tokens_agree_with_encode(tokenizer):
    ids = tokenizer.encode("hello ලංකාව")
    array = tokenizer.encode_to_numpy("hello ලංකාව")
    assert (array.tolist(), array.dtype.name, array.shape) == (ids, "int32", (len(ids),))
    assert tokenizer.encode_batch(["hello ලංකාව", ""]) == [ids, []]
    assert tokenizer.count_tokens("hello ලංකාව") == len(ids)
    assert [tokenizer.get_vocab()[token] for token in tokenizer.tokenize("hello ලංකාව")] == ids


def test_the_parts_of_a_tokenizer_can_be_read(plain):
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


def test_wrong_types_and_values_are_refused(plain):
    with pytest.raises(TypeError, match="encode needs a str, not bytes"):
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({b"a": 0}, []), "lacks the byte 0x20"),
        ((BYTES, [(b"a", b"b")]), "merge 0 uses b'ab'"),
        (({**BYTES, b"ab": 7}, [(b"a", b"b")]), "have the same id 7"),
        (({**BYTES, b"ab": -7}, []), "has the id -7"),
    ],
)
def test_contradictory_parts_of_a_tokenizer_are_refused(arguments, message):
    with pytest.raises(SGPEError, match=message):
        BPETokenizer(*arguments)
    both = r"special token 'ab' \(id 257\) and the ordinary token b'ab' \(id 256\) are both written 'ab'"
    with pytest.raises(SGPEError, match=both):
        BPETokenizer({**BYTES, b"ab": 256}, [], special_tokens={"ab": 257})
    with pytest.raises(SGPEError, match="template names '<x>'"):
        BPETokenizer(BYTES, [], template=Template.around(["<x>"], []))


def test_training_on_an_iterator_may_normalize():
    composed, decomposed = "né dé ré " * 9, "ne\u0301 de\u0301 re\u0301 " * 9
    options = {"vocab_size": 264, "special_tokens": ["<|x|>"]}
    nfc = BPETokenizer.train_from_iterator([decomposed], normalization="nfc", **options)
    assert nfc.get_vocab() == BPETokenizer.train_from_iterator([composed], **options).get_vocab()
    assert nfc.encode(decomposed) == nfc.encode(composed)
    assert nfc.decode(nfc.encode(decomposed)) == composed
    assert list(nfc.encode_streaming(decomposed)) == nfc.encode(composed)
    as_it_is = BPETokenizer.train_from_iterator([decomposed], **options)
    assert as_it_is.decode(as_it_is.encode(decomposed)) == decomposed
    with pytest.raises(SGPEError, match="normalization 'nfd'"):
        BPETokenizer.train_from_iterator([decomposed], normalization="nfd", **options)
