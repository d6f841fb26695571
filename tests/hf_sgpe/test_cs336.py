"""The fixtures of the BPE assignment of Stanford's CS336, through GPT-2's vocabulary: the ids of tiktoken, and back."""

import json
import sys

import pytest
import tiktoken
from hypothesis import given, strategies as st
from support.command import process
from support.data import DATA, needs_data
from support.texts import texts

from hf_sgpe import BPETokenizer, Splitting
from hf_sgpe.formats import gpt2_files
from hf_sgpe.vocabulary.byte_strings import string_to_bytes

pytestmark = needs_data

FILES = DATA / "suites" / "cs336"
END = "<|endoftext|>"
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


@pytest.fixture(scope="module")
def ours():
    files = FILES / "gpt2_vocab.json", FILES / "gpt2_merges.txt"
    return BPETokenizer.of(gpt2_files.read(*files, pattern="gpt2", special_tokens=[END]))


@pytest.fixture(scope="module")
def theirs():
    ids = json.loads((FILES / "gpt2_vocab.json").read_text(encoding="utf-8"))
    special = {END: ids.pop(END)}
    ranks = {string_to_bytes(token): id for token, id in ids.items()}
    return tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)


@pytest.fixture(scope="module")
def doubled(ours):
    """The same with two special tokens, of which one begins with the other."""
    specials = {END: 50256, END * 2: 50257}
    return BPETokenizer(ours.vocab, ours.merges, special_tokens=specials, splitting=Splitting("bpe", pattern="gpt2"))


def read(name):
    return (FILES / name).read_bytes().decode()


TEXTS = {
    "nothing": lambda: "",
    "one character": lambda: "s",
    "one Unicode character": lambda: "🙃",
    "an ASCII sentence": lambda: "Hello, how are you?",
    "a Unicode sentence": lambda: "Héllò hôw are ü? 🙃",
    "special tokens": lambda: f"Héllò hôw {END}{END} are ü? 🙃{END}",
    "special tokens and white space": lambda: f" {END} \n\n{END}\n\n {END}  x {END}",
    "half special tokens": lambda: f"<|endoftext {END[1:]}{END[:-1]}<|<|endoftext|>|>",
    **{
        name: lambda name=name: read(name)
        for name in (
            "address.txt",
            "german.txt",
            "tinystories_sample.txt",
            "corpus.en",
            "special_token_trailing_newlines.txt",
            "special_token_double_newlines_non_whitespace.txt",
        )
    },
}


def test_the_vocabulary_is_gpt2s(ours, theirs):
    assert len(ours) == theirs.n_vocab == 50257
    assert (ours.eos_token, ours.eos_token_id) == (END, theirs.eot_token)
    assert ours.get_mergeable_ranks() == [(theirs.decode_single_token_bytes(id), id) for id in range(50256)]


@pytest.mark.parametrize("name", TEXTS)
def test_texts_have_the_ids_of_tiktoken_and_come_back(name, ours, theirs):
    text = TEXTS[name]()
    ids = ours.encode(text)
    assert ids == theirs.encode_ordinary(text)
    assert ours.decode(ids) == text
    assert theirs.eot_token not in ids
    ids = ours.encode(text, allowed_special="all")
    assert ids == theirs.encode(text, allowed_special="all")
    assert ours.decode(ids) == text
    assert ids.count(theirs.eot_token) == text.count(END)


@pytest.mark.parametrize("name", TEXTS)
def test_tokens_one_by_one_are_those_of_tiktoken(name, ours, theirs):
    text = TEXTS[name]()
    tokens = [ours.token_bytes(id) for id in ours.encode(text, allowed_special="all")]
    assert tokens == theirs.decode_tokens_bytes(theirs.encode(text, allowed_special="all"))
    assert b"".join(tokens) == text.encode()


@given(text=texts)
def test_random_texts_have_the_ids_of_tiktoken(ours, theirs, text):
    assert ours.encode(text) == theirs.encode_ordinary(text)
    assert ours.decode(ours.encode(text)) == text


def test_of_overlapping_special_tokens_the_longest_is_taken(doubled, theirs):
    text = f"Hello, how {END * 2} are you?{END}"
    ids = doubled.encode(text, allowed_special="all")
    tokens = [doubled.decode([id]) for id in ids]
    assert tokens.count(END * 2) == tokens.count(END) == 1
    head, tail = theirs.encode_ordinary("Hello, how "), theirs.encode_ordinary(" are you?")
    assert ids == [*head, 50257, *tail, 50256]
    assert doubled.decode(ids) == text
    assert doubled.encode(END * 5, allowed_special="all") == [50257, 50257, 50256]
    assert doubled.encode(END * 2, allowed_special={END}) == [50256, 50256]
    assert doubled.encode(text) == theirs.encode_ordinary(text)


@given(parts=st.lists(st.sampled_from([END, END * 2, END[:5], END[5:], "a", " ", "\n\n"]), max_size=8), data=st.data())
def test_overlapping_special_tokens_may_come_in_pieces(doubled, parts, data):
    text = "".join(parts)
    cut = data.draw(st.integers(0, len(text)))
    ids = doubled.encode(text, allowed_special="all")
    assert list(doubled.encode_streaming([text[:cut], text[cut:]], allowed_special="all")) == ids
    assert doubled.decode(ids) == text


@pytest.mark.parametrize("allowed", ["all", "none"])
@pytest.mark.parametrize("mode", ["r", "rb"])
@pytest.mark.parametrize("name", [name for name in TEXTS if "." in name])
def test_lines_of_a_file_have_the_ids_of_the_whole(name, mode, allowed, ours, theirs):
    options = {} if mode == "rb" else {"encoding": "utf-8", "newline": ""}
    with (FILES / name).open(mode, **options) as file:
        ids = list(ours.encode_streaming(file, allowed_special=allowed))
    assert ids == theirs.encode(read(name), allowed_special="all" if allowed == "all" else set(), disallowed_special=())


def test_lines_are_read_when_their_ids_are_asked_for(ours):
    with (FILES / "tinystories_sample.txt").open(encoding="utf-8") as file:
        ids = ours.encode_streaming(iter(file.readline, ""))
        next(ids)
        assert 0 < file.tell() < 2000


MEMORY = f"""
import resource, sys
from pathlib import Path
from hf_sgpe import BPETokenizer
from hf_sgpe.formats import gpt2_files
files = Path(sys.argv[1])
options = {{"pattern": "gpt2", "special_tokens": [{END!r}]}}
tokenizer = BPETokenizer.of(gpt2_files.read(files / "gpt2_vocab.json", files / "gpt2_merges.txt", **options))
text = (files / "tinystories_sample.txt").read_text(encoding="utf-8")
lines = (line for _ in range(int(sys.argv[2])) for line in text.splitlines(keepends=True))
count = sum(1 for _ in tokenizer.encode_streaming(lines, allowed_special="all"))
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream(ours):
    tokens, memory = [], []
    for times in (20, 5000):
        printed = process(sys.executable, "-c", MEMORY, FILES, times).stdout.split()
        tokens.append(int(printed[0]))
        memory.append(int(printed[1]))
    assert tokens[1] == 250 * tokens[0] > 4_000_000
    assert memory[1] < memory[0] * 1.1  # the ids alone, held at once, would take 30 MB and the text 20 MB


# ---------------------------------------------------------------- decoding


@pytest.mark.parametrize("text", ["🙃", "Héllò hôw are ü? 🙃", "ශ්‍රී ලංකාව", "日本語のテキスト"])
def test_ids_that_end_inside_a_character(text, ours, theirs):
    ids = ours.encode(text)
    for start in range(len(ids)):
        for stop in range(start, len(ids) + 1):
            part = ids[start:stop]
            assert ours.decode(part) == theirs.decode(part, errors="replace")
            assert ours.decode(part, errors="ignore") == theirs.decode(part, errors="ignore")
            assert "".join(ours.decode_stream(part)) == ours.decode(part)
    assert ours.decode(ours.encode("a🙃")[:-1]) == "a\ufffd"
    with pytest.raises(UnicodeDecodeError):
        ours.decode(ours.encode("🙃")[:-1], errors="strict")


@given(ids=st.lists(st.integers(0, 50256), max_size=20))
def test_any_ids_decode_as_tiktoken_decodes_them(ours, theirs, ids):
    assert ours.decode(ids) == theirs.decode(ids)
    assert ours.decode_bytes(ids) == theirs.decode_bytes(ids)
