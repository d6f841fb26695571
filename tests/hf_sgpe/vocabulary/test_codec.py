import multiprocessing
import pickle
import random
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.corpora import corpus
from support.kernels import needs_native, readable_only
from support.texts import indic, texts

from hf_sgpe import BPETokenizer, SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.bpe.unit_tier import BYTES
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.vocabulary import codec

pytestmark = pytest.mark.kernels


@contextmanager
def readable_twin(tokenizer):
    with readable_only():
        yield pickle.loads(pickle.dumps(tokenizer))


@needs_native
@given(st.lists(texts | indic, max_size=6))
def test_every_way_to_encode_gives_the_ids_of_the_readable_one(tokenizer, several):
    several.append("one<|endoftext|>two\ud800")
    for allowed in ("none", "all"):
        with readable_twin(tokenizer) as twin:
            expected = [twin.encode(text, allowed_special=allowed) for text in several]
        assert [tokenizer.encode(text, allowed_special=allowed) for text in several] == expected
        assert [tokenizer.encode_to_numpy(text, allowed_special=allowed).tolist() for text in several] == expected
        assert tokenizer.encode_batch(several, allowed_special=allowed) == expected
        ids, ends = tokenizer.encode_batch_to_numpy(several, allowed_special=allowed)
        assert ids.dtype == np.int32
        assert [part.tolist() for part in np.split(ids, ends[:-1])] == expected


@needs_native
def test_any_number_of_threads_gives_the_same_ids(tokenizer):
    lines = corpus("si", 300_000).splitlines() + corpus("en", 300_000).splitlines() + ["", "<|endoftext|>", "e\u0301"]
    expected = [tokenizer.encode(line) for line in lines]
    for threads in (1, 2, 5, None):
        assert tokenizer.encode_batch(lines, threads=threads) == expected
        ids, ends = tokenizer.encode_batch_to_numpy(lines, threads=threads)
        assert [part.tolist() for part in np.split(ids, ends[:-1])] == expected


def test_decoding_takes_ids_of_any_kind(tokenizer):
    text = "ශ්‍රී ලංකාව hello ✓"
    ids = tokenizer.encode(text)
    for given_ids in (
        ids,
        tuple(ids),
        iter(ids),
        np.array(ids),
        np.array(ids, np.int32),
        np.array(ids, np.uint16),
        map(int, ids),
    ):
        assert tokenizer.decode(given_ids) == text
    assert tokenizer.decode(np.array(ids * 2)[::2]) == tokenizer.decode((ids * 2)[::2])
    end = tokenizer.special_tokens["<|endoftext|>"]
    assert tokenizer.decode([*ids, end]) == text + "<|endoftext|>"
    assert tokenizer.decode([*ids, end], skip_special_tokens=True) == text
    for wrong in (-1, len(tokenizer), 1 << 40, 1 << 70):
        with pytest.raises(SGPEError, match=f"id {wrong} at position 1"):
            tokenizer.decode([5, wrong])
    with pytest.raises(TypeError):
        tokenizer.decode([5, "a"])


def test_the_memory_of_words_is_bounded(monkeypatch, plain_tokenizer):
    monkeypatch.setattr(codec, "MEMORY_BYTES", 1 << 20)
    tokenizer = pickle.loads(pickle.dumps(plain_tokenizer))
    generator = random.Random(5)
    for _ in range(20):
        words = ["".join(generator.choices("abcdefgh", k=generator.randint(1, 60))) for _ in range(3000)]
        text = " ".join(words)
        assert tokenizer.decode(tokenizer.encode(text)) == text
        info = tokenizer.cache_info()
        assert info.bytes <= info.max_bytes
    assert info.misses >= 50_000
    assert 0 < info.words < 50_000


@pytest.fixture(scope="module")
def plain_tokenizer(sample):
    return BPETokenizer.train_from_iterator(sample.values(), 1000)


HOSTILE = {
    "one letter": lambda n: "a" * n,
    "base64": lambda n: "".join(random.Random(3).choices("ABCDEFGHabcdefgh0123456789+/", k=n)),
    "Sinhala without spaces": lambda n: ("කන්‍යාශ්‍රීලංකාවින්ද්‍රිය" * (n // 20))[:n],
    "marks": lambda n: "e" + "\u0301\u0323" * (n // 2),
    "spaces": lambda n: " " * n,
    "capitals": lambda n: "A" * n,
    "beginnings of special tokens": lambda n: "<|endoftex" * (n // 10),
    "apostrophes": lambda n: "'" * n,
}


@needs_native
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_megabyte_of_hostile_words_is_encoded_and_learned_from(kind, tokenizer):
    # A quadratic path would take hours.
    text = HOSTILE[kind](1_000_000)
    assert tokenizer.decode(tokenizer.encode(text, allowed_special="all")) == prepare(text, "nfc")
    config = TrainingConfig(vocab_size=600, recipe="bpe", pattern="o200k", normalization="nfc")
    train_from_counts(WordCounts.from_texts([text, "a"], config), config)


@needs_native
def test_the_beginnings_of_many_special_tokens_are_ordinary_text():
    text = "<" * 300_000
    tokenizer = BPETokenizer(
        {token: id for id, token in enumerate(BYTES)}, [], special_tokens={f"<|{i}|>": 256 + i for i in range(5000)}
    )
    assert len(tokenizer.encode(text, allowed_special="all")) == len(text)


def encode_in_child(arguments):
    tokenizer, lines = arguments
    return tokenizer.encode_batch(lines, threads=2)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_any_kind_encode_alike(tokenizer, sample, method):
    lines = sample["si"].splitlines() * 6
    expected = tokenizer.encode_batch(lines, threads=2)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(encode_in_child, [(tokenizer, lines)] * 3) == [expected] * 3
