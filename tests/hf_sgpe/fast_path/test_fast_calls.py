"""The fast lane of SGPETokenizerFast against transformers' own class, field by field."""

import copy
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, strategies as st
from support.texts import indic, nasty
from tokenizers import AddedToken, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hf_sgpe import (
    BPETokenizer,
    RegexPreTokenizer,
    SGPEError,
    SGPETokenizerFast,
    TrainingConfig,
    WordCounts,
    kernels,
    train_from_counts,
)
from hf_sgpe.fast_path import fast_calls


@pytest.fixture(autouse=True)
def lanes_open_at_once(monkeypatch):
    monkeypatch.setattr(fast_calls, "_WORTH_OPENING", 0)
    monkeypatch.setattr(fast_calls, "_WORTH_CHECKING", 0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, sample):
    """A tokenizer without a template, and one with."""
    made = {}
    for recipe in ("hybrid", "sgpe"):
        config = TrainingConfig(vocab_size=4000, recipe=recipe, scripts=("sinhala", "devanagari"))
        tokenizer = train_from_counts(WordCounts.from_texts(sample.values(), config), config)
        made[recipe] = tmp_path_factory.mktemp(recipe) / "saved"
        tokenizer.save(made[recipe])
    return made


def load(folder, **kwargs):
    pair = SGPETokenizerFast.from_pretrained(folder, **kwargs), PreTrainedTokenizerFast.from_pretrained(folder, **kwargs)
    for tokenizer in pair:
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
    return pair


@pytest.fixture(scope="module", params=["hybrid", "sgpe"])
def pair(request, folders):
    return load(folders[request.param])


def fields(tokenizer, text, options):
    """All that a call gives and leaves behind."""
    try:
        encoded = tokenizer(text, **options)
    except BaseException as error:
        # The backend panics, which is no Exception, where the stride does not fit the length.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        return type(error).__name__, str(error)
    backend = tokenizer._tokenizer
    return (
        type(encoded),
        {name: (type(value), getattr(value, "dtype", None), repr(value)) for name, value in encoded.items()},
        [
            (e.ids, e.tokens, e.offsets, e.word_ids, e.special_tokens_mask, e.attention_mask, e.type_ids, len(e.overflowing))
            for e in encoded.encodings
        ],
        (encoded.n_sequences, encoded.is_fast),
        (backend.truncation, backend.padding, backend.encode_special_tokens),
    )


one_text = st.one_of(nasty, indic, st.sampled_from(["", "<|endoftext|>", "ක<|endoftext|>x[CLS]", "[SEP]"]))
calls = st.fixed_dictionaries(
    {},
    optional={
        "add_special_tokens": st.booleans(),
        "padding": st.sampled_from([False, True, "max_length"]),
        "truncation": st.sampled_from([False, True, "only_first", "only_second"]),
        "max_length": st.sampled_from([0, 1, 2, 3, 7, 20]),
        "pad_to_multiple_of": st.sampled_from([None, 8]),
        "padding_side": st.sampled_from([None, "left", "right"]),
        "return_tensors": st.sampled_from([None, "np"]),
        "return_token_type_ids": st.booleans(),
        "return_attention_mask": st.booleans(),
        "return_special_tokens_mask": st.booleans(),
        "return_length": st.booleans(),
        "stride": st.sampled_from([0, 0, 0, 1]),
        "return_offsets_mapping": st.sampled_from([False, False, True]),
        "return_overflowing_tokens": st.sampled_from([False, False, True]),
        "split_special_tokens": st.booleans(),
    },
)


@pytest.mark.filterwarnings("ignore:.max_length. is ignored")
@given(text=one_text | st.lists(one_text, max_size=4), options=calls, left=st.booleans())
def test_results_are_equal_in_every_field(pair, text, options, left):
    results = []
    for tokenizer in pair:
        tokenizer.truncation_side = "left" if left else "right"
        results.append(fields(tokenizer, text, options))
    if results[1][0] == "PanicException":
        assert results[0][0] == "SGPEError"
        assert results[0][1].startswith("stride=1 must be smaller")
    else:
        assert results[0] == results[1]


@given(text=one_text)
def test_tokenize_and_encode_are_equal(pair, text):
    fast, stock = pair
    assert fast.tokenize(text) == stock.tokenize(text)
    assert fast.tokenize(text, add_special_tokens=True) == stock.tokenize(text, add_special_tokens=True)
    assert fast.tokenize(text, pair="x") == stock.tokenize(text, pair="x")
    assert fast.encode(text) == stock.encode(text)


needs_native = pytest.mark.skipif(
    not kernels.is_native(), reason=f"there is no lane without native kernels: {kernels.describe()}"
)


@needs_native
def test_one_text_a_row_takes_the_fast_path_and_pairs_do_not(pair):
    fast, _ = pair
    encoded = fast(["ශ්‍රී ලංකාව", "x"], padding=True)
    assert isinstance(encoded.encodings, fast_calls._Encodings)
    assert encoded.encodings._encodings is None
    assert any(word is not None for word in encoded.word_ids(0))
    assert encoded.encodings._encodings is not None
    assert isinstance(fast("x", return_offsets_mapping=True).encodings, fast_calls._Encodings)
    assert not isinstance(fast("x", "y").encodings, fast_calls._Encodings)


def test_spans_and_words_can_be_asked_for(pair):
    text = "ශ්‍රී ලංකාව hello"
    fast, stock = (tokenizer(text) for tokenizer in pair)
    for place in range(len(text)):
        assert fast.char_to_token(place) == stock.char_to_token(place)
        assert fast.char_to_word(place) == stock.char_to_word(place)
    for place in range(len(fast["input_ids"])):
        assert fast.token_to_chars(place) == stock.token_to_chars(place)
    assert fast.tokens() == stock.tokens()
    assert fast.sequence_ids() == stock.sequence_ids()


def test_ids_that_were_changed_in_place_do_not_matter(pair):
    fast, stock = (tokenizer("ab cd") for tokenizer in pair)
    fast["input_ids"].append(5)
    assert fast.word_ids() == stock.word_ids()


def test_batches_pickle_and_copy(pair):
    fast, _ = pair
    encoded = fast(["ක", "ab"])
    for clone in (pickle.loads(pickle.dumps(encoded)), copy.deepcopy(encoded)):
        assert clone.data == encoded.data
        assert clone.word_ids(1) == encoded.word_ids(1)


def test_the_lane_follows_every_change(folders):
    text = "hello ශ්‍රී new<tok> 12 é é <|endoftext|> x"
    for change in (
        lambda tokenizer: tokenizer.add_tokens(["<tok>"]),
        lambda tokenizer: tokenizer.add_tokens([AddedToken("hello", lstrip=True)]),
        lambda tokenizer: tokenizer.add_special_tokens({"additional_special_tokens": ["new"]}),
        lambda tokenizer: setattr(tokenizer.backend_tokenizer, "pre_tokenizer", pre_tokenizers.ByteLevel(use_regex=True)),
        lambda tokenizer: setattr(tokenizer.backend_tokenizer, "normalizer", normalizers.Lowercase()),
        lambda tokenizer: tokenizer.backend_tokenizer.add_special_tokens(["ello"]),
        lambda tokenizer: tokenizer.backend_tokenizer.add_tokens([AddedToken("hel", single_word=True)]),
        lambda tokenizer: tokenizer.backend_tokenizer.add_special_tokens([AddedToken("<|endoftext|>", lstrip=True)]),
        lambda tokenizer: setattr(tokenizer.backend_tokenizer.model, "dropout", None),
        lambda tokenizer: setattr(tokenizer, "split_special_tokens", True),
    ):
        fast, stock = load(folders["hybrid"])
        assert fast(text) == stock(text)
        change(fast)
        change(stock)
        assert fast(text).data == stock(text).data
        for clone in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
            assert clone(text).data == stock(text).data


def test_encodings_can_be_asked_for_by_several_threads(pair):
    fast, _ = pair
    for _ in range(20):
        encoded = fast(["a b c"] * 50)
        with ThreadPoolExecutor(4) as pool:
            assert len({tuple(words) for words in pool.map(encoded.word_ids, range(50))}) == 1


MIXED = [
    {"padding": True},
    {"padding": "max_length", "max_length": 30, "padding_side": "left"},
    {"truncation": True, "max_length": 3},
    {"return_offsets_mapping": True},
    {"return_offsets_mapping": True, "truncation": True, "max_length": 5},
    {"return_offsets_mapping": True, "padding": "max_length", "max_length": 40},
    {"return_offsets_mapping": True, "split_special_tokens": True},
    {"text_pair": ["x", "y z"], "truncation": True, "max_length": 6, "padding": True},
]


def test_threads_get_what_each_asked_for(pair, monkeypatch):
    fast, _ = pair
    texts = ["ශ්‍රී ලංකාව <|endoftext|>[SEP] one two three four", "a b c d e f g h"]

    def values(options):
        encoded = fast(texts, **options)
        return dict(encoded), [encoding.tokens for encoding in encoded.encodings]

    alone = [values(options) for options in MIXED]
    set_truncation_and_padding = SGPETokenizerFast.set_truncation_and_padding

    def set_and_let_others_go_on(*args, **settings):
        set_truncation_and_padding(*args, **settings)
        time.sleep(0.001)

    monkeypatch.setattr(SGPETokenizerFast, "set_truncation_and_padding", set_and_let_others_go_on)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(values, MIXED * 10)) == alone * 10


@needs_native
def test_the_lane_waits_for_no_backend(pair):
    fast, _ = pair
    alone = fast("a b c", truncation=True, max_length=4)["input_ids"]
    with ThreadPoolExecutor(1) as pool, fast_calls.backend_lock(fast):
        encoded = pool.submit(lambda: fast("a b c", truncation=True, max_length=4)).result(timeout=60)
    assert encoded["input_ids"] == alone


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*use of fork")
def test_a_child_does_not_wait_for_threads_of_its_parent(pair):
    fast, _ = pair
    taken, done = threading.Event(), threading.Event()

    def hold():
        with fast_calls.backend_lock(fast):
            taken.set()
            done.wait()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        taken.wait()
        child = os.fork()
        if not child:
            os._exit(not fast_calls.backend_lock(fast).acquire(blocking=False))
        done.set()
    assert os.waitpid(child, 0)[1] == 0


def test_surrogates_are_refused_as_by_the_backend(pair):
    for tokenizer in pair:
        with pytest.raises(TypeError):
            tokenizer("a\ud800 b")
        with pytest.raises(TypeError):
            tokenizer(["fine", "a\ud800 b"])


def test_encodings_of_a_tokenizer_that_was_changed_since(folders):
    fast, stock = load(folders["hybrid"])
    encoded = [tokenizer("hello") for tokenizer in (fast, stock)]
    for tokenizer in (fast, stock):
        tokenizer.add_tokens(["ell"])
    assert encoded[0].tokens() == encoded[1].tokens()
    assert pickle.loads(pickle.dumps(encoded[0])).word_ids() == encoded[1].word_ids()


@needs_native
def test_encodings_of_a_backend_that_was_changed_since(folders):
    fast, _ = load(folders["hybrid"])
    encoded = fast("hello")
    fast.backend_tokenizer.add_tokens(["ell"])
    with pytest.raises(SGPEError, match="changed after this batch"):
        encoded.word_ids()


@pytest.mark.parametrize(
    "part", [lambda: pre_tokenizers.PreTokenizer.custom(RegexPreTokenizer("gpt2")), pre_tokenizers.Metaspace]
)
def test_parts_that_our_kernel_cannot_follow_go_by_the_backend(folders, part):
    fast, stock = load(folders["hybrid"])
    for tokenizer in (fast, stock):
        tokenizer.backend_tokenizer.pre_tokenizer = part()
    for text in ("hello world", ["hello world"]):
        assert fast(text).data == stock(text).data


def test_further_tokens_given_at_the_start(folders):
    bpe = BPETokenizer.from_pretrained(folders["hybrid"])
    fast = SGPETokenizerFast.from_bpe(bpe, pad_token="<pad>")
    assert fast.convert_ids_to_tokens(fast("a<pad>")["input_ids"]) == ["a", "<pad>"]


@needs_native
def test_the_fast_path_is_not_opened_for_a_sentence(folders, monkeypatch):
    monkeypatch.setattr(fast_calls, "_WORTH_OPENING", 0.5)
    fast, stock = load(folders["hybrid"])
    assert not isinstance(fast("a sentence").encodings, fast_calls._Encodings)
    assert fast(["a sentence"] * 300).data == stock(["a sentence"] * 300).data
    assert isinstance(fast("a sentence").encodings, fast_calls._Encodings)


CHAT = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|endoftext|>{% endfor %}"


def test_chat_templates_go_by_the_lane(folders):
    fast, stock = load(folders["hybrid"])
    messages = [{"role": "user", "content": "ආයුබෝවන්"}, {"role": "assistant", "content": "hello"}]
    for options in ({}, {"tokenize": False}, {"return_dict": True}, {"truncation": True, "max_length": 3}):
        results = [t.apply_chat_template(messages, chat_template=CHAT, **options) for t in (fast, stock)]
        assert results[0] == results[1]


@pytest.mark.filterwarnings("ignore:.*use of fork")
def test_datasets_map_and_its_hash(folders):
    datasets = pytest.importorskip("datasets")
    from datasets.fingerprint import Hasher

    rows = datasets.Dataset.from_dict({"text": ["ශ්‍රී ලංකාව", "hello", "", "<|endoftext|>x"] * 5})
    results = []
    for kind in (SGPETokenizerFast, PreTrainedTokenizerFast):
        tokenizer = kind.from_pretrained(folders["hybrid"])
        tokenizer("settle")
        before = Hasher.hash(tokenizer)
        mapped = [
            rows.map(lambda batch, it=tokenizer: it(batch["text"]), batched=True, num_proc=number, remove_columns="text")
            for number in (None, 2)
        ]
        assert mapped[0].to_dict() == mapped[1].to_dict()
        assert Hasher.hash(tokenizer) == before
        assert Hasher.hash(kind.from_pretrained(folders["hybrid"])) == Hasher.hash(kind.from_pretrained(folders["hybrid"]))
        results.append(mapped[0].to_dict())
    assert results[0] == results[1]
    assert sorted(results[0]) == ["attention_mask", "input_ids"]
