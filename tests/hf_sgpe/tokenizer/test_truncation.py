import random

import pytest
from hypothesis import given, strategies as st
from support.small_tokenizers import BYTES, SPECIALS, with_specials
from support.texts import texts

from hf_sgpe import BPETokenizer, Splitting
from hf_sgpe.vocabulary.special_tokens import Template

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def framed(plain):
    specials = {"<s>": 2000, "</s>": 2001, "<|x|>": 2002}
    template = Template.around(["<s>", "<|x|>"], ["</s>"])
    return BPETokenizer(
        plain.vocab,
        plain.merges,
        special_tokens=plain.special_tokens | specials,
        splitting=Splitting("bpe", pattern="o200k"),
        template=template,
    )


@given(text=texts, limit=st.integers(0, 12))
def test_truncated_text_stays_within_the_limit(tokenizer, text, limit):
    shortened = tokenizer.truncate(text, limit)
    assert tokenizer.count_tokens(shortened) <= limit
    whole = tokenizer.decode(tokenizer.encode(text))
    assert shortened == text if tokenizer.count_tokens(text) <= limit else whole.startswith(shortened)


@given(
    parts=st.lists(texts | st.sampled_from(SPECIALS), max_size=5),
    limit=st.integers(3, 15),
    around=st.booleans(),
    allowed=st.sampled_from(["all", "none", {"<|a|>", "<|a|><|b|>"}]),
)
def test_truncated_text_stays_within_the_limit_whatever_the_options(framed, parts, limit, around, allowed):
    text = "".join(parts)
    options = {"add_special_tokens": around, "allowed_special": allowed}
    shortened = framed.truncate(text, limit, **options)
    assert len(framed.encode(shortened, **options)) <= limit
    assert text.startswith(shortened)
    if len(framed.encode(text, **options)) <= limit:
        assert shortened == text


def test_the_limit_counts_the_template(framed):
    assert framed.truncate("a b c d", 3) == "a b c"
    assert framed.truncate("a b c d", 5, add_special_tokens=True) == "a b"
    assert framed.truncate("a b c d", 7, add_special_tokens=True) == "a b c d"
    assert framed.truncate("a b c d", 3, add_special_tokens=True) == ""
    assert framed.truncate("<|a|>b", 1, allowed_special="all") == "<|a|>"
    assert framed.truncate("<|a|>b", 1) == "<"


def test_truncation_never_cuts_a_character():
    bytewise = with_specials([])
    assert [bytewise.truncate("aé😀", limit) for limit in range(8)] == ["", "a", "a", "aé", "aé", "aé", "aé", "aé😀"]
    nfc = BPETokenizer(BYTES, [], splitting=Splitting("bpe", pattern="gpt2", normalization="nfc"))
    assert nfc.truncate("e\u0301e\u0301", 3) == "é"


ENDLESS = {
    "one letter": lambda n: "a" * n,
    "two letters by turns": lambda n: "ab" * (n // 2),
    "random letters": lambda n: "".join(random.Random(3).choices("abcdefgh", k=n)),
    "syllables": lambda n: "ක්‍ර" * (n // 4),
    "emoji": lambda n: "😀" * n,
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_truncation_of_endless_words_encodes_few_times(kind, tokenizer, monkeypatch):
    text = ENDLESS[kind](100_000)
    counted = []
    real = BPETokenizer.count_tokens

    def count_tokens(self, *args, **options):
        counted.append(args)
        return real(self, *args, **options)

    monkeypatch.setattr(BPETokenizer, "count_tokens", count_tokens)
    for limit in (1, 10_000, 20_000):
        counted.clear()
        assert real(tokenizer, tokenizer.truncate(text, limit)) <= limit
        assert len(counted) <= 1 + limit.bit_length()
