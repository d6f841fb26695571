from collections import Counter
from functools import cache

import pytest
from hypothesis import given, strategies as st
from support.sentencepiece_like import KINDS, RARER_KINDS, content

from hf_sgpe import BPETokenizer
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.vocabulary.token_parts import TokenParts, without_tokens

TEXTS = ["the low lower lowest newer 123 été ½ 😀 aaaa aaaaaaa ", "ශ්‍රී ලංකාව ලංකාවේ ක්‍රම ", "Привет мир миру мира вниз "]
SOME = ["low", "er", "est", "aa", "a", " ", "ලං", "කා", "ව", "мир", "é", "x"]
strings = st.lists(st.sampled_from(SOME), max_size=12).map("".join)


@cache
def base_of(kind):
    if kind in KINDS | RARER_KINDS:
        return tokenizer_json.from_dict(content(TEXTS, 150, kind))
    return BPETokenizer.train_from_iterator([text * 9 for text in TEXTS], 420, pattern=kind).data


@cache
def parts_of(kind):
    return TokenParts(base_of(kind))


@pytest.fixture(scope="module", params=["gpt2", "o200k", *KINDS, *RARER_KINDS])
def kind(request):
    return request.param


@given(text=strings)
def test_a_text_needs_only_its_tokens_and_what_they_are_built_from(kind, text):
    base = base_of(kind)
    tokens = {id: token for token, id in base.vocab.items()}
    ids = BPETokenizer.of(base).encode(text)
    need = parts_of(kind).need(Counter(tokens[id] for id in ids if id in tokens))
    needed = {token for token, times in need.items() if times}
    first = {token for token in base.vocab if _length(token, base) == 1}
    small = without_tokens(base, base.vocab.keys() - needed - first)
    assert BPETokenizer.of(small).encode(text) == ids
    assert small.vocab.keys() == needed | first
    ranked = [*need]
    for place, token in enumerate(ranked):
        assert set(parts_of(kind).of(token) or ()) <= set(ranked[:place])
    assert [*need.values()] == sorted(need.values(), reverse=True)
    joined = sum(times for token, times in need.items() if parts_of(kind).of(token))
    assert joined == sum(_length(tokens[id], base) - 1 for id in ids if id in tokens)


def _length(token, base):
    return len(token.decode() if base.by_characters else token)


def test_the_parts_of_a_token_are_those_of_the_last_merge(kind):
    base, parts = base_of(kind), parts_of(kind)
    whole = BPETokenizer.of(base.inside_text())
    merged = {left + right for left, right in base.merges}
    for token, id in base.vocab.items():
        found = parts.of(token)
        if token not in merged:
            assert found is None
        elif whole.encode(token.decode(errors="ignore")) == [id]:
            assert b"".join(found) == token
            assert found in base.merges
    assert parts.of(b"zzz") is None
    assert parts.of(b"lo w") is None
