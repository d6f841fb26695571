import pytest
import rustbpe
from support.corpora import corpus

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer


def lines(language, characters):
    return corpus(language, characters).splitlines(keepends=True)


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k"])
@pytest.mark.parametrize("buffer_size", [1, 700, 8192])
@pytest.mark.parametrize("characters", [30_000, pytest.param(300_000, marks=pytest.mark.data)])
def test_the_same_mergeable_ranks_and_ids(pattern, buffer_size, characters):
    languages = {"si": characters, "en": characters, "hi": characters, "zh": characters // 10}
    texts = [line for language, size in languages.items() for line in lines(language, size)]
    theirs = rustbpe.Tokenizer()
    theirs.train_from_iterator(iter(texts), 3000, buffer_size=buffer_size, pattern=SPLIT_PATTERNS[pattern])
    ours = BPETokenizer.train_from_iterator(iter(texts), 3000, buffer_size=buffer_size, pattern=pattern)
    assert ours.get_mergeable_ranks() == [(bytes(token), rank) for token, rank in theirs.get_mergeable_ranks()]
    assert ours.get_pattern() == theirs.get_pattern() == SPLIT_PATTERNS[pattern]
    for text in texts[::20]:
        assert ours.encode(text) == theirs.encode(text)


def test_text_that_a_pattern_does_not_match_is_kept():
    """The document and rustbpe lose it."""
    theirs = rustbpe.Tokenizer()
    theirs.train_from_iterator(iter(["a, b"]), 256, pattern=r"\w+")
    ours = BPETokenizer.train_from_iterator(iter(["a, b"]), 256, pattern=r"\w+")
    assert bytes(theirs.encode("a, b")) == b"ab"
    assert bytes(ours.encode("a, b")) == b"a, b"


@pytest.mark.parametrize("text", [None, ["aaa bb", "ab"]], ids=["a corpus", "fewer merges than requested"])
def test_the_same_with_a_custom_pattern(text):
    pattern, texts = r"\p{L}{1,4}|\s|[^\s\p{L}]", text or lines("si", 100_000)
    theirs = rustbpe.Tokenizer()
    theirs.train_from_iterator(iter(texts), 1000, pattern=pattern)
    ours = BPETokenizer.train_from_iterator(iter(texts), 1000, pattern=pattern)
    assert ours.get_mergeable_ranks() == [(bytes(token), rank) for token, rank in theirs.get_mergeable_ranks()]
