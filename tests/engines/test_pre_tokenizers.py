"""llama.cpp's pre-tokenizers: each name is tried on a tokenizer that has its regexes, against our own ids.

The vocabulary has a token for every two bytes between which a text could be cut, in a random order of merges, so that nearly
every cut that is missing or new makes other ids.
"""

import random
import string
from itertools import pairwise
from pathlib import Path

import pytest
from support.corpora import HELD_OUT, held_out

from hf_sgpe import BPETokenizer
from hf_sgpe.formats.llama_cpp_pre_tokenizers import PRE_TOKENIZERS, called
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.weights import gguf as our_gguf

pytest.importorskip("gguf", reason="GGUF files are written with gguf: pip install gguf")
llama_cpp = pytest.importorskip("llama_cpp", reason="GGUF files are for llama.cpp: pip install llama-cpp-python")

from hf_sgpe.weights.llama_log import silence  # noqa: E402

BYTES = [bytes([byte]) for byte in range(256)]

# Text that a record says llama.cpp cuts otherwise.
DIFFERENT = {
    "gpt-4o": "हिन्दी में",
    "tiny_aya": "a camelCase andMoreCamelCase in 1990s",
    "kimi-k2": "हिन्दी में",
    "tekken": "हिन्दी में",
    "youtu": "a camelCase andMoreCamelCase wordTwo iPhone McDonald",
    "deepseek-llm": "a\u3000b and c\u3000d",
    "deepseek-coder": "a\u3000b and c\u3000d",
    "afmoe": "x =  12 or   1234",
    "superbpe": "٣٣٣٣ ٣٣٣٣٣٣٣ ١٢٣٤٥٦٧",
}
RARELY_DIFFERENT = {"granite-embed-multi-97m": "МосБиржа", "gpt-4o": "МосБиржа", "tekken": "МосБиржа"}
# What split patterns differ in.
CHARACTERS = (
    string.printable
    + "éßªʰ²½٣०一ฒあアー가ㄱ\u0d82\u0dca\u0dcf\u094d\u0e33\u1780\u200d\u200c\u00a0\u2028\u0085。、！１Ａ’“…€😀\ufe0f\u00ad"
)
WITHOUT_CASES = "".join(c for c in CHARACTERS if c == c.lower() and c not in "ʰª")


def splitting_of(known):
    return Splitting("bpe", pattern=known.regexes, normalization="none")


def merges_between(lines):
    pairs = {(left.encode()[-1:], right.encode()[:1]) for line in lines for left, right in pairwise(line)}
    return random.Random(5).sample(sorted(pairs), len(pairs))


def vocabulary_of(merges):
    return {token: id for id, token in enumerate([*BYTES, *(left + right for left, right in merges)])}


def tokenizer_of(known, merges):
    return BPETokenizer(vocabulary_of(merges), merges, splitting=splitting_of(known), ignore_merges=known.takes_words)


def loaded(tokenizer, name, folder: Path):
    silence()
    our_gguf.write_vocabulary(tokenizer, folder / "vocabulary.gguf", name)
    return llama_cpp.Llama(str(folder / "vocabulary.gguf"), vocab_only=True, verbose=False)


def different(llama, tokenizer, lines):
    rows = zip(lines, tokenizer.encode_batch(lines), strict=True)
    return [line for line, ids in rows if line and llama.tokenize(line.encode(), add_bos=False, special=False) != ids]


@pytest.fixture(scope="module")
def written():
    lines = [line for language in HELD_OUT for line in held_out(language, 15)]
    code = [file.read_text(encoding="utf-8") for file in sorted(Path(our_gguf.__file__).parent.glob("*.py"))[:6]]
    return lines + [text[start : start + 500] for text in code for start in range(0, 4000, 500)]


def strings(characters, number):
    """Random strings, half of them of few characters."""
    chance = random.Random(1)
    some = (chance.sample(characters, chance.randint(2, 12)) if place % 2 else characters for place in range(number))
    return ["".join(chance.choice(few) for _ in range(chance.randint(1, 40))) for few in some]


@pytest.mark.text
@pytest.mark.parametrize("known", [one for one in PRE_TOKENIZERS if not one.differs], ids=lambda one: one.name)
def test_llama_cuts_as_the_regexes_do(known, written, tmp_path):
    # Capitals inside words are rare in text, and not in random strings.
    lines = written + strings(WITHOUT_CASES if known.rarely else CHARACTERS, 200)
    tokenizer = tokenizer_of(known, merges_between(lines))
    assert our_gguf.is_exact(tokenizer, known.name)
    llama = loaded(tokenizer, known.name, tmp_path)
    assert llama.metadata["tokenizer.ggml.pre"] == known.name
    assert different(llama, tokenizer, lines) == []
    llama.close()


@pytest.mark.parametrize("known", PRE_TOKENIZERS, ids=lambda one: one.name)
def test_names_of_one_pre_tokenizer_are_the_same_to_llama(known, tmp_path):
    lines = [
        "Hello, world! It's 12345 o'clock; I'LL say:\n\n  don't\tSTOP",
        "हिन्दी में ශ්\u200dරී camelCase 一二 ١٢٣",
        *strings(CHARACTERS, 60),
    ]
    tokenizer = tokenizer_of(known, merges_between(lines))
    rows = []
    for name in known.names:
        llama = loaded(tokenizer, name, tmp_path)
        rows.append([llama.tokenize(line.encode(), add_bos=False, special=False) for line in lines])
        llama.close()
    assert all(row == rows[0] for row in rows)


@pytest.mark.parametrize("name", DIFFERENT)
def test_llama_cuts_what_a_record_says_otherwise(name, tmp_path):
    lines = ["Hello, world! It is so: and so on.", "Привет, мир!", "line\n\n  and line\t(again)", DIFFERENT[name]]
    assert cut_otherwise(name, lines, tmp_path) == [DIFFERENT[name]]


def test_each_difference_is_shown():
    assert set(DIFFERENT) == {one.name for one in PRE_TOKENIZERS if one.differs}


@pytest.mark.parametrize("name", RARELY_DIFFERENT)
def test_llama_cuts_rare_text_otherwise(name, tmp_path):
    assert cut_otherwise(name, [RARELY_DIFFERENT[name]], tmp_path) == [RARELY_DIFFERENT[name]]


def cut_otherwise(name, lines, folder):
    tokenizer = tokenizer_of(called(name), merges_between(lines))
    llama = loaded(tokenizer, name, folder)
    found = different(llama, tokenizer, lines)
    llama.close()
    return found


def test_a_token_that_no_merges_make_is_a_word_by_some_names_only(tmp_path):
    """Llama 3 takes such a word, DBRX cuts it, by the same regexes."""
    merges = merges_between(["some words"])
    vocab = vocabulary_of(merges)
    word = len(vocab)
    for takes, name in ((True, "llama-bpe"), (False, "dbrx")):
        splitting = splitting_of(called("dbrx"))
        tokenizer = BPETokenizer({**vocab, b"word": word}, merges, splitting=splitting, ignore_merges=takes)
        llama = loaded(tokenizer, None, tmp_path)
        assert llama.metadata["tokenizer.ggml.pre"] == name
        ids = llama.tokenize(b"word", add_bos=False, special=False)
        assert ids == tokenizer.encode("word")
        assert (ids == [word]) == takes
        llama.close()
