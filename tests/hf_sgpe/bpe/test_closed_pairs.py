from itertools import pairwise

import pytest
from hypothesis import assume, given, strategies as st
from tokenizers import Tokenizer, models

from hf_sgpe.bpe.closed_pairs import check_closed, closed, in_order
from hf_sgpe.errors import SGPEError

ALPHABET = "abc"


@st.composite
def merge_lists(draw):
    """Merges that join tokens which earlier ones made, in any order."""
    tokens = list(ALPHABET)
    merges = []
    for _ in range(draw(st.integers(1, 14))):
        pair = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if pair not in merges and len("".join(pair)) <= 9:
            merges.append(pair)
            tokens.append("".join(pair))
    return draw(st.permutations(merges))


def tokens_of(merges):
    return {*ALPHABET, *(token for pair in merges for token in (*pair, "".join(pair)))}


def joined(text, order):
    """Encode a text as SentencePiece does: by the order of tokens, and of equal ones from the left."""
    places = {token: place for place, token in enumerate(order)}
    symbols = list(text)
    while found := [(places[a + b], place) for place, (a, b) in enumerate(pairwise(symbols)) if a + b in places]:
        _, place = min(found)
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
    return symbols


def in_tokenizers(merges):
    vocab = {token: id for id, token in enumerate(sorted(tokens_of(merges)))}
    return Tokenizer(models.BPE(vocab=vocab, merges=list(merges)))


texts = st.lists(st.text(ALPHABET, max_size=40), min_size=1, max_size=20)


@given(merges=merge_lists(), texts=texts)
def test_closed_pairs_give_the_tokens_of_sentencepiece(merges, texts):
    whole = closed(merges, tokens_of(merges))
    tokenizer = in_tokenizers(whole)
    for text in [*texts, *tokens_of(merges)]:
        assert tokenizer.encode(text).tokens == joined(text, in_order(whole))


@given(merges=merge_lists(), texts=texts, data=st.data())
def test_pairs_of_a_token_may_be_apart_if_none_is_missing(merges, texts, data):
    whole = data.draw(st.permutations(closed(merges, tokens_of(merges))))
    check_closed([(a.encode(), b.encode()) for a, b in whole], map(str.encode, tokens_of(merges)))
    tokenizer = in_tokenizers(whole)
    for text in texts:
        assert tokenizer.encode(text).tokens == joined(text, in_order(whole))


@given(merges=merge_lists())
def test_closing_twice_changes_nothing(merges):
    whole = closed(merges, tokens_of(merges))
    assert closed(whole, tokens_of(merges)) == whole
    assert {*merges} <= {*whole}
    assert len({*whole}) == len(whole)


@given(merges=merge_lists())
def test_a_missing_pair_is_named(merges):
    encoded = [(a.encode(), b.encode()) for a, b in merges]
    parts = {token.encode() for token in tokens_of(merges)}
    missing = {*closed(encoded, parts)} - {*encoded}
    assume(missing)
    with pytest.raises(SGPEError) as error:
        check_closed(encoded, parts)
    assert any(f"{left.decode()!r} and {right.decode()!r}" in str(error.value) for left, right in missing)


def test_unclosed_pairs_give_other_tokens():
    merges = [("b", "c"), ("a", "b"), ("ab", "c")]
    assert in_tokenizers(merges).encode("abc").tokens == ["a", "bc"]
    assert (
        in_tokenizers(closed(merges, tokens_of(merges))).encode("abc").tokens == ["abc"] == joined("abc", in_order(merges))
    )
