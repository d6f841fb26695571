"""Parity-aware BPE, native and readable, against a recount of everything at each step."""

import pytest
from hypothesis import given, strategies as st
from support.kernels import readable_only
from support.naive import learn_by_recount

from hf_sgpe.bpe.parity import CountedWords, learn_in_parity
from hf_sgpe.bpe.trainer import TIE_BREAKS, Word, learn_merges
from hf_sgpe.errors import SGPEError

pytestmark = pytest.mark.kernels

LETTERS = [b"b", b"a", b"\xff", b"c"]
words = st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 5)), min_size=1, max_size=6)
languages = st.lists(st.tuples(words, words), min_size=1, max_size=4)


def counted(corpus):
    return CountedWords(*zip(*corpus, strict=True))


def by_recounting(learning, held_out, *, vocabulary, num_merges, tie_break, min_frequency):
    """The definition: look at everything again before each merge."""
    tokens = list(vocabulary)
    texts = [[list(word) for word in one.words] for one in (*learning, *held_out)]
    own, measured = texts[: len(learning)], texts[len(learning) :]
    merges = []
    while len(merges) < num_merges:
        sizes = [
            sum(len(word) * times for word, times in zip(text, one.times, strict=True))
            for text, one in zip(measured, held_out, strict=True)
        ]
        for number in sorted(range(len(own)), key=lambda number: (-sizes[number], number)):
            best = learn_by_recount(
                own[number],
                learning[number].times,
                vocabulary=tokens,
                num_merges=1,
                tie_break=tie_break,
                min_frequency=min_frequency,
            )
            if best:
                break
        else:
            return merges
        merges += best
        for text in texts:
            for place, ids in enumerate(text):
                word = Word(ids)
                word.merge_pair(best[0], len(tokens))
                text[place] = word.ids
        tokens.append(tokens[best[0][0]] + tokens[best[0][1]])
    return merges


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@given(languages, st.integers(0, 20), st.integers(1, 4))
def test_equals_a_naive_recount(tie_break, corpora, num_merges, min_frequency):
    learning, held_out = ([counted(corpus) for corpus in side] for side in zip(*corpora, strict=True))
    options = {
        "vocabulary": LETTERS,
        "num_merges": num_merges,
        "tie_break": tie_break,
        "min_frequency": min_frequency,
    }
    expected = by_recounting(learning, held_out, **options)
    assert learn_in_parity(learning, held_out, **options) == expected
    with readable_only():
        assert learn_in_parity(learning, held_out, **options) == expected


def test_one_language_is_plain_bpe():
    one = CountedWords([list(b"abcabcab"), list(b"bcd")], [3, 2])
    options = {"vocabulary": [bytes([byte]) for byte in range(256)], "num_merges": 6}
    assert learn_in_parity([one], [one], **options) == learn_merges(*one, **options)


def test_the_language_with_the_most_tokens_chooses():
    much, little = CountedWords([list(b"xyxyxy")], [1000]), CountedWords([list(b"ab")], [2])
    seen = []
    learn_in_parity(
        [much, little],
        [CountedWords([list(b"xy")], [1]), CountedWords([list(b"abab")], [1])],
        vocabulary=[bytes([byte]) for byte in range(256)],
        num_merges=2,
        on_merge=lambda *merge: seen.append(merge),
    )
    # Then the other: it has as many tokens left, and a pair.
    assert seen == [(256, (97, 98), 2), (257, (120, 121), 3000)]


def test_a_merge_saves_a_token_each_time_its_word_occurs():
    often, once = CountedWords([list(b"abab")], [3]), CountedWords([list(b"cdcdcdcd")], [1])
    options = {"vocabulary": [bytes([byte]) for byte in range(256)], "num_merges": 2}
    expected = [(97, 98), (99, 100)]  # the first has 12 tokens before its merge and 6 after it, the other has 8
    assert learn_in_parity([often, once], [often, once], **options) == expected
    with readable_only():
        assert learn_in_parity([often, once], [often, once], **options) == expected


def test_wrong_input_of_parity_is_refused():
    one = CountedWords([[0, 1]], [1])
    with pytest.raises(SGPEError, match="unknown tie rule 'x'"):
        learn_in_parity([one], [one], vocabulary=LETTERS, num_merges=1, tie_break="x")
    with pytest.raises(SGPEError, match="not in the vocabulary"):
        learn_in_parity([CountedWords([[0, 9]], [1])], [one], vocabulary=LETTERS, num_merges=1)
    with pytest.raises(SGPEError, match="one held-out text for each language"):
        learn_in_parity([one], [one, one], vocabulary=LETTERS, num_merges=1)
