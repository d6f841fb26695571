"""Counting the words of texts: words beyond any length in pieces, and one thread for each counter."""

import threading
from collections import Counter

import pytest
from hypothesis import given, strategies as st
from support.kernels import needs_native

from hf_sgpe import RegexPreTokenizer, TrainingConfig, WordCounts
from hf_sgpe.counts.counters import LONGEST_WORD, _pieces_of, make_word_counter

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(
    ("recipe", "letter"),
    [("sgpe", "ක"), *((recipe, letter) for recipe in ("hybrid", "bpe") for letter in ("a", "ක", "\0", "😀"))],
)
@pytest.mark.parametrize("beyond", [-1, 0, 1, 70_000])
def test_words_beyond_any_length_count_in_pieces(recipe, letter, beyond):
    size = len(letter.encode())
    word = letter * (LONGEST_WORD // size + beyond)
    config = TrainingConfig(vocab_size=999, recipe=recipe, pattern=r".+" if recipe == "bpe" else "o200k")
    counts = WordCounts.from_texts(["b " + word] if recipe != "bpe" else [word], config)
    assert max(map(len, counts)) <= LONGEST_WORD
    assert sum(len(piece) * times for piece, times in counts.items()) == len(word.encode()) + 2 * (recipe != "bpe")
    if beyond > 0:
        assert sum(times for piece, times in counts.items() if letter.encode() in piece) == -(
            -len(word.encode()) // LONGEST_WORD
        )


@given(st.text("aක😀 ", max_size=60), st.integers(4, 30))
def test_pieces_are_the_word_again_and_the_same_natively(word, longest):
    pieces = list(_pieces_of(word, longest))
    assert "".join(pieces) == word
    assert all(longest - 4 < len(piece.encode()) <= longest for piece in pieces[:-1])
    assert len(pieces[-1].encode()) <= longest
    splitter = RegexPreTokenizer("o200k")
    if splitter.scanner is not None:
        import hf_sgpe._native as _native

        native = _native.WordCounter(splitter.scanner, False, [], longest)
        native.add([word])
        assert native.counts() == Counter(
            piece.encode() for part in splitter.split(word) for piece in _pieces_of(part, longest)
        )


@needs_native
def test_a_counter_is_used_by_one_thread_at_a_time(sample):
    config = TrainingConfig(vocab_size=600, recipe="bpe")
    counter = make_word_counter(config)
    texts = ["".join(sample.values()) * 20]
    done, refused = [], []

    def add():
        try:
            counter.add(texts)
            done.append(1)
        except RuntimeError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(refused) <= {"a word counter is at work already: use one in each thread"}
    once = WordCounts.from_texts(texts, config)
    assert WordCounts.of_counter(counter, config).total() == len(done) * once.total()
