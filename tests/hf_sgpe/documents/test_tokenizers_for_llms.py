"""The worked examples of ``tokenizers_for_llms.txt``, against the code."""

import unicodedata
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from support.documents import BYTES, CORPUS, learned, merge_in

from hf_sgpe import BPETokenizer, RegexPreTokenizer
from hf_sgpe.bpe.trainer import Word
from hf_sgpe.vocabulary.byte_strings import bytes_to_string, string_to_bytes

pytestmark = pytest.mark.kernels


def test_words_of_the_running_example():
    text = "Hello, world! I'm learning tokenization."
    words = ["Hello", ",", " world", "!", " I", "'m", " learning", " tokenization", "."]
    for pattern in ("cl100k-any-space", "cl100k-typographic", "cl100k", "gpt2"):
        assert RegexPreTokenizer(pattern).split(text) == words
    assert RegexPreTokenizer("cl100k-any-space").split("Hello, world!") == ["Hello", ",", " world", "!"]


def test_the_documents_two_patterns_differ_in_the_apostrophe():
    text = "I\u2019m here, it\u2019s 12345 \t!?\r\n"
    plain, typographic = (RegexPreTokenizer(name).split(text) for name in ("cl100k-any-space", "cl100k-typographic"))
    assert plain == ["I", "\u2019m", " here", ",", " it", "\u2019s", " ", "123", "45", " ", "\t!?\r\n"]
    assert typographic == plain
    assert RegexPreTokenizer("cl100k-typographic").split("\u2019said") == ["\u2019s", "aid"]
    assert RegexPreTokenizer("cl100k-any-space").split("\u2019said") == ["\u2019said"]
    assert RegexPreTokenizer("cl100k").split(" \t!?") == [" ", "\t", "!?"]
    assert RegexPreTokenizer("cl100k-any-space").split(" \t!?") == [" ", "\t!?"]


def test_compressing_by_the_example():
    steps = learned({"aaabdaaabac": 1}, num_merges=3)
    assert steps[0] == (b"a", b"a", 4)  # overlapping neighbours count, too
    word = Word(list(b"aaabdaaabac"))
    word.merge_pair((97, 97), 256)
    assert bytes(90 if id == 256 else id for id in word.ids) == b"ZabdZabac"
    assert len(word.ids) == 9
    assert [left + right for left, right, _ in steps] == [b"aa", b"ab", b"aaab"]


def test_pair_counts_of_the_example():
    counts = Counter()
    for word, times in CORPUS.items():
        for left, right in Word(list(word)).pairs():
            counts[left + right] += times
    assert (counts["es"], counts["st"], counts["we"], counts["lo"], counts["ow"]) == (9, 9, 8, 7, 7)
    assert (counts["ne"], counts["ew"], counts["wi"], counts["id"], counts["de"], counts["er"]) == (6, 6, 3, 3, 3, 2)
    assert len(counts) == 11


def test_merges_of_the_example():
    steps = learned(CORPUS, num_merges=4)
    assert steps == [(b"e", b"s", 9), (b"es", b"t", 9), (b"l", b"o", 7), (b"lo", b"w", 7)]
    assert learned(CORPUS, num_merges=99, min_frequency=9) == steps[:2]


def byte_to_char_by_the_document():
    nice = {*range(33, 127), *range(161, 173), *range(174, 256)}
    mapping, extra = {}, 256
    for byte in range(256):
        if byte in nice:
            mapping[byte] = chr(byte)
        else:
            mapping[byte], extra = chr(extra), extra + 1
    return mapping


def test_bytes_are_written_as_the_document_maps_them():
    mapping = byte_to_char_by_the_document()
    assert {byte: bytes_to_string(bytes([byte])) for byte in range(256)} == mapping
    assert {byte: string_to_bytes(char) for byte, char in mapping.items()} == {byte: bytes([byte]) for byte in range(256)}
    assert len(set(mapping.values())) == 256
    assert all(char.isprintable() and not char.isspace() for char in mapping.values())
    assert sum(ord(char) >= 256 for char in mapping.values()) == 68


def test_hello_merges_step_by_step():
    merges = [(b"H", b"e"), (b"He", b"l"), (b"Hel", b"l"), (b"Hell", b"o")]
    vocab = {token: id for id, token in enumerate([*BYTES, *(left + right for left, right in merges)])}
    for known in range(len(merges) + 1):
        tokenizer = BPETokenizer(vocab, merges[:known])
        tokens = [["H", "e", "l", "l", "o"], ["He", "l", "l", "o"], ["Hel", "l", "o"], ["Hell", "o"], ["Hello"]][known]
        assert tokenizer.tokenize("Hello") == tokens
    reverse = BPETokenizer(vocab, merges[::-1])
    assert reverse.tokenize("Hello") == ["Hello"]  # each needs the one before it
    other = BPETokenizer({**vocab, b"lo": 999}, [*merges[:2], (b"l", b"o"), *merges[2:]])
    assert other.tokenize("Hello") == ["Hel", "lo"]


def test_an_emoji_may_be_four_tokens():
    tokenizer = BPETokenizer({token: id for id, token in enumerate(BYTES)}, [])
    assert tokenizer.encode("\U0001f600") == [0xF0, 0x9F, 0x98, 0x80]
    assert tokenizer.decode([0xF0, 0x9F, 0x98, 0x80]) == "\U0001f600"
    assert tokenizer.decode([0xF0, 0x9F, 0x98]) == "\ufffd"


def train_on_characters(words, num_merges, min_frequency):
    """``BPETokenizer.train``: on the characters that stand for bytes, ties to the greatest pair of strings."""
    mapping = byte_to_char_by_the_document()
    state = {tuple(mapping[byte] for byte in word.encode()): count for word, count in words.items()}
    merges = []
    for _ in range(num_merges):
        pairs = Counter()
        for word, count in state.items():
            for pair in pairwise(word):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair), default=None)
        if best is None or pairs[best] < min_frequency:
            break
        merges.append(best)
        state = {merge_in(word, best): count for word, count in state.items()}
    return merges


@given(
    words=st.dictionaries(st.text("abcxyz!~", min_size=1, max_size=8), st.integers(1, 5), min_size=1, max_size=8),
    num_merges=st.integers(0, 15),
    min_frequency=st.integers(1, 4),
)
def test_training_by_the_documents_class(words, num_merges, min_frequency):
    """Where every byte is written as itself; the document compares the strings that stand for bytes, we the bytes."""
    steps = learned(words, num_merges=num_merges, min_frequency=min_frequency, tie_break="greatest-pair-bytes")
    named = [(bytes_to_string(left), bytes_to_string(right)) for left, right, _ in steps]
    assert named == train_on_characters(words, num_merges, min_frequency)


@pytest.fixture(scope="module")
def usage():
    """The tokenizer of the document's ``example_usage.py``."""
    lines = [
        "The quick brown fox jumps over the lazy dog.\n",
        "Tokenization is the process of splitting text into tokens.\n",
        "Large language models use byte-pair encoding for tokenization.\n",
        "Special tokens mark the beginning and end of sequences.\n",
        "Unicode normalization ensures consistent tokenization across encodings.\n",
    ] * 300
    return BPETokenizer.train_from_iterator(
        iter(lines),
        400,
        pattern="cl100k-any-space",
        min_frequency=2,
        special_tokens={"<|begin_of_text|>": 256, "<|end_of_text|>": 257, "<|eot_id|>": 258},
        normalization="nfc",
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "Hello, world!",
        "Tokenization is fascinating.",
        "Unicode: café, naïve, 日本語, 🎉",
        "Code: def hello(): print('world')",
        "Numbers: 42, 3.14159, 1_000_000",
    ],
)
def test_sentences_of_the_example_come_back(usage, sentence):
    assert usage.decode(usage.encode(sentence, allowed_special="all")) == sentence
    assert usage.encode(unicodedata.normalize("NFD", sentence)) == usage.encode(sentence)


def test_the_example_of_the_document_works(usage):
    text = "<|begin_of_text|>Hello, world!<|end_of_text|>"
    ids = usage.encode(text, allowed_special="all")
    assert (ids[0], ids[-1]) == (256, 257) == (usage.bos_token_id, usage.eos_token_id)
    assert len(usage.encode(text)) > len(ids)
    assert usage.decode(ids) == text
    assert usage.decode(ids, skip_special_tokens=True) == "Hello, world!"
    assert usage.convert_tokens_to_ids(["H", "i"]) == [72, 105]
    assert usage.convert_ids_to_tokens([72, 105]) == ["H", "i"]
    shortened = usage.truncate("Hello, world! This is a test.", 5)
    assert usage.count_tokens(shortened) <= 5
    assert "Hello, world! This is a test.".startswith(shortened)

    chunks = ["The ", "quick ", "brown ", "fox ", "jumps ", "over ", "the ", "lazy ", "dog. ", "Tokenization ", "is fun!"]
    assert list(usage.encode_streaming(chunks, allowed_special="all")) == usage.encode("".join(chunks))
    batch = usage(["First sentence.", "Second, longer sentence here."], padding=True, truncation=True, max_length=6)
    assert [len(row) for row in batch["input_ids"]] == [6, 6]
    with pytest.raises(ValueError, match="max_length"):
        usage(["test"], truncation=True)
    with pytest.raises(ValueError, match="padding=True"):
        usage(["short", "much longer sentence here"], return_tensors="pt")


def test_saving_and_loading_the_example(usage, tmp_path):
    usage.save(tmp_path)
    loaded = BPETokenizer.from_pretrained(tmp_path)
    assert loaded.encode("Hello, tokenization!") == usage.encode("Hello, tokenization!")
    assert (loaded.bos_token_id, loaded.eos_token_id) == (256, 257)
