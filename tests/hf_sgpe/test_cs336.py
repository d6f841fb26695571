"""The tasks of the BPE assignment of Stanford's CS336, with GPT-2's vocabulary: the ids of tiktoken, and back."""

import sys

import pytest
import tiktoken
from hypothesis import given, strategies as st
from support.command import process
from support.corpora import corpus, data_file
from support.fetched import GPT2_SOURCE, files_of_source, gpt2
from support.texts import LINES, texts
from tiktoken.load import load_tiktoken_bpe

from hf_sgpe import BPETokenizer, Splitting
from hf_sgpe.formats import gpt2_files

END = "<|endoftext|>"
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
STORY = """Once there was a small boat that wanted to see the sea. “Where is it?” the boat asked.
"Come with me," said the river, and they passed 3 towns and 12 bridges.

The boat wasn't afraid: it'd never been so happy! And that's how it came home.
"""
STORIES = f"{END}\n".join([STORY] * 15)


@pytest.fixture(scope="module")
def ours():
    return gpt2()


@pytest.fixture(scope="module")
def theirs():
    ranks = next(file for file in files_of_source(GPT2_SOURCE, "whisper/assets") if file.name == "gpt2.tiktoken")
    return tiktoken.Encoding(
        "gpt2", pat_str=PATTERN, mergeable_ranks=load_tiktoken_bpe(str(ranks)), special_tokens={END: 50256}
    )


@pytest.fixture(scope="module")
def doubled(ours):
    specials = {END: 50256, END * 2: 50257}
    return BPETokenizer(ours.vocab, ours.merges, special_tokens=specials, splitting=Splitting("bpe", pattern="gpt2"))


TEXTS = {
    "nothing": "",
    "one character": "s",
    "one Unicode character": "🙃",
    "an ASCII sentence": "Hello, how are you?",
    "a Unicode sentence": "Héllò hôw are ü? 🙃",
    "special tokens": f"Héllò hôw {END}{END} are ü? 🙃{END}",
    "special tokens and white space": f" {END} \n\n{END}\n\n {END}  x {END}",
    "half special tokens": f"<|endoftext {END[1:]}{END[:-1]}<|<|endoftext|>|>",
    "special token, newlines": f"{END}\n\n\n",
    "special token, newlines, word": f"{END}\n\ntesting!",
    "address": "Four score and seven years ago our fathers brought forth, on this continent, a new nation.\n",
    "German": "Die Größe der „schönsten“ Straßen (kurz: 12,5 km) überrascht Ärzte wie Köche – täglich!\n",
    "stories": STORIES,
    "difficult lines": "\n".join(LINES),
    **{language: corpus(language, 30_000) for language in ("en", "si", "zh")},
}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello world", [15496, 995]),
        (" Hello World!", [18435, 2159, 0]),
        ("Führer", [37, 9116, 71, 11751]),
        ("ied 4 ½ months", [798, 604, 25208, 1933]),
        (" this is 🦙.cpp", [428, 318, 12520, 99, 247, 13, 20322]),
        ("    Hello\n    Hello", [220, 220, 220, 18435, 198, 220, 220, 220, 18435]),
        ("\n\n\n", [628, 198]),
        ("33333333", [24840, 24840]),
        ("Cửa Việt", [34, 157, 119, 255, 64, 16049, 157, 119, 229, 83]),
    ],
)
def test_texts_have_their_published_ids(text, ids, ours):
    assert ours.encode(text) == ids


@pytest.mark.data
def test_the_published_files_have_the_same_tokenizer(ours):
    files = (data_file(f"suites/cs336/{name}") for name in ("gpt2_vocab.json", "gpt2_merges.txt"))
    assert gpt2_files.read(*files, pattern="gpt2", special_tokens=[END]) == ours.data


def test_the_vocabulary_is_gpt2s(ours, theirs):
    assert len(ours) == theirs.n_vocab == 50257
    assert (ours.eos_token, ours.eos_token_id) == (END, theirs.eot_token)
    assert ours.get_mergeable_ranks() == [(theirs.decode_single_token_bytes(id), id) for id in range(50256)]


@pytest.mark.parametrize("name", TEXTS)
def test_texts_have_the_ids_of_tiktoken_and_come_back(name, ours, theirs):
    text = TEXTS[name]
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
    text = TEXTS[name]
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
@pytest.mark.parametrize("name", TEXTS)
def test_lines_of_a_file_have_the_ids_of_the_whole(name, mode, allowed, ours, theirs, tmp_path):
    path, options = tmp_path / "text.txt", {} if mode == "rb" else {"encoding": "utf-8", "newline": ""}
    path.write_bytes(TEXTS[name].encode())
    with path.open(mode, **options) as file:
        ids = list(ours.encode_streaming(file, allowed_special=allowed))
    assert ids == theirs.encode(TEXTS[name], allowed_special="all" if allowed == "all" else set(), disallowed_special=())


def test_lines_are_read_when_their_ids_are_asked_for(ours, tmp_path):
    (tmp_path / "stories.txt").write_text(STORIES, encoding="utf-8")
    with (tmp_path / "stories.txt").open(encoding="utf-8") as file:
        ids = ours.encode_streaming(iter(file.readline, ""))
        next(ids)
        assert 0 < file.tell() < 2000 < len(STORIES)


MEMORY = """
import resource, sys
from pathlib import Path
from hf_sgpe import BPETokenizer
tokenizer, text = BPETokenizer.from_pretrained(sys.argv[1]), Path(sys.argv[2]).read_text(encoding="utf-8")
lines = (line for _ in range(int(sys.argv[3])) for line in text.splitlines(keepends=True))
count = sum(1 for _ in tokenizer.encode_streaming(lines, allowed_special="all"))
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream(ours, tmp_path):
    ours.save(tmp_path)
    (tmp_path / "stories.txt").write_text(STORIES, encoding="utf-8")
    tokens, memory = [], []
    for times in (20, 5000):
        printed = process(sys.executable, "-c", MEMORY, tmp_path, tmp_path / "stories.txt", times).stdout.split()
        tokens.append(int(printed[0]))
        memory.append(int(printed[1]))
    assert tokens[1] == 250 * tokens[0] > 4_000_000
    assert memory[1] < memory[0] * 1.1  # the ids alone, held at once, would take 30 MB and the text 20 MB


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
