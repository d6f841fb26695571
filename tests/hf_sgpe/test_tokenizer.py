import copy
import json
import pickle
import random
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from support.examples import few_examples
from support.texts import texts

from hf_sgpe import (
    SPLIT_PATTERNS,
    BPETokenizer,
    SGPEError,
    SGPETokenizerFast,
    Splitting,
    TrainingConfig,
    WordCounts,
    train_from_counts,
)
from hf_sgpe.bpe.encoder import MergeTable, apply_merges_by_rescan
from hf_sgpe.special_tokens import Template
from hf_sgpe.splitting.normalization import well_formed

SPECIALS = ["<|endoftext|>", "<|a|>", "<|a|><|b|>", " <s>"]


@pytest.fixture(scope="module")
def plain(sample):
    return BPETokenizer.train_from_iterator(sample.values(), 2000, special_tokens=SPECIALS)


@pytest.fixture(scope="module")
def backend(plain):
    return SGPETokenizerFast.from_bpe(plain).backend_tokenizer


def slow_encode(tokenizer, text):
    """Words by the engine itself, merges by rescanning."""
    from tokenizers.normalizers import NFC

    text = NFC().normalize_str(text) if tokenizer.normalization == "nfc" else text
    ids = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    assert len(ids) == len(tokenizer.merges)
    vocab = tokenizer.vocab
    table = MergeTable(((vocab[left], vocab[right]), vocab[left + right]) for left, right in tokenizer.merges)
    encoded = []
    for word, _ in tokenizer.pre_tokenizer.to_native().pre_tokenize_str(text):
        encoded += apply_merges_by_rescan([vocab[bytes([byte])] for byte in word.encode()], table)
    return encoded


@given(text=texts)
def test_encode_equals_its_slow_twin_and_round_trips(plain, text):
    assert plain.encode(text) == slow_encode(plain, text)
    assert plain.decode(plain.encode(text)) == text


@given(text=texts)
def test_hybrid_encode_equals_its_slow_twin(tokenizer, text):
    assert tokenizer.encode(text) == slow_encode(tokenizer, text)


@given(text=texts, allowed=st.sampled_from(["all", "none"]))
def test_offsets_are_those_of_the_backend(plain, backend, text, allowed):
    ids, offsets = plain.encode_with_offsets(text, allowed_special=allowed)
    assert ids == plain.encode(text, allowed_special=allowed)
    if allowed == "all" and well_formed(text) == text:
        encoding = backend.encode(text, add_special_tokens=False)
        assert (ids, offsets) == (encoding.ids, encoding.offsets)


@given(text=texts)
def test_offsets_cover_the_text_that_was_normalized(tokenizer, text):
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    reached = 0
    for start, stop in offsets:
        assert start <= reached and start < stop <= len(text)
        reached = max(reached, stop)
    assert reached == len(text)


def test_offsets_of_what_was_composed(tokenizer):
    text = "x e\u0301 <|endoftext|>\ud83d\ude00"
    ids, offsets = tokenizer.encode_with_offsets(text, allowed_special="all")
    assert ids == tokenizer.encode(text, allowed_special="all")
    assert "e\u0301" in {text[start:stop].strip() for start, stop in offsets}
    assert "<|endoftext|>" in {text[start:stop] for start, stop in offsets}
    assert {stop for _, stop in offsets} >= {len(text)}


@given(text=texts.filter(lambda text: well_formed(text) == text))
def test_bytes_are_text(tokenizer, text):
    assert tokenizer.encode_bytes(text.encode()) == tokenizer.encode(text)
    assert tokenizer.encode_bytes(memoryview(text.encode())) == tokenizer.encode(text)


def test_bytes_that_are_no_text_are_named(tokenizer):
    with pytest.raises(SGPEError, match="not UTF-8 at byte 2: invalid start byte"):
        tokenizer.encode_bytes(b"ab\xff")


def test_bytes_must_be_bytes(tokenizer):
    with pytest.raises(TypeError, match="takes bytes, not str"):
        tokenizer.encode_bytes("ab")


def test_arrow_has_the_same_ids(tokenizer):
    batch = ["ශ්‍රී ලංකාව", "", "e\u0301", "x\ud800"]
    assert tokenizer.encode_batch_to_arrow(batch).to_pylist() == tokenizer.encode_batch(batch)
    assert tokenizer.encode_batch_to_arrow([]).to_pylist() == []


@given(texts=st.lists(texts | st.sampled_from(SPECIALS), max_size=6), allowed=st.sampled_from(["all", "none"]))
def test_streaming_equals_encoding_the_whole(plain, texts, allowed):
    whole = plain.encode("".join(texts), allowed_special=allowed)
    assert list(plain.encode_streaming(texts, allowed_special=allowed)) == whole


@given(text=texts.filter(lambda text: len(text) > 1), data=st.data())
def test_streaming_is_the_same_for_every_cut(tokenizer, text, data):
    text = f"{text} and <|endoftext|> {text}\nx"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    chunks = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert list(tokenizer.encode_streaming(chunks, allowed_special="all")) == tokenizer.encode(text, allowed_special="all")


def test_streaming_is_lazy(tokenizer):
    def lines():
        yield "one line\n"
        yield "another line\n"
        raise RuntimeError("read too far")

    stream = tokenizer.encode_streaming(lines())
    assert tokenizer.decode([next(stream)]).startswith("o")


@given(text=texts, limit=st.integers(0, 12))
def test_truncated_text_stays_within_the_limit(tokenizer, text, limit):
    shortened = tokenizer.truncate(text, limit)
    assert tokenizer.count_tokens(shortened) <= limit
    whole = tokenizer.decode(tokenizer.encode(text))
    assert shortened == text if tokenizer.count_tokens(text) <= limit else whole.startswith(shortened)


@given(ids=st.lists(st.integers(0, 1999), max_size=30))
def test_decoding_any_ids(plain, ids):
    assert plain.decode(ids) == plain.decode_bytes(ids).decode(errors="replace")
    assert "".join(plain.decode_stream(ids)) == plain.decode(ids)
    assert plain.decode_batch([ids, []]) == [plain.decode(ids), ""]


def test_special_tokens_are_plain_text_unless_allowed(plain):
    text = "x<|a|><|b|><|endoftext|>"
    assert not set(plain.encode(text)) & set(plain.special_tokens.values())
    ids = plain.encode(text, allowed_special="all")
    assert ids[1:] == [plain.special_tokens["<|a|><|b|>"], plain.special_tokens["<|endoftext|>"]]
    assert plain.encode(text, allowed_special={"<|a|>"})[1] == plain.special_tokens["<|a|>"]
    assert plain.decode(ids) == text
    assert plain.decode(ids, skip_special_tokens=True) == "x"
    assert plain.encode(text, allowed_special=set()) == plain.encode(text)
    with pytest.raises(SGPEError, match=r"'<x>' is not a special token of this tokenizer: <\|endoftext\|>"):
        plain.encode("x", allowed_special={"<x>"})
    with pytest.raises(SGPEError, match="'all', 'none' or a set"):
        plain.encode("x", allowed_special="<|a|>")


def test_template(sample):
    from hf_sgpe import TrainingConfig

    config = TrainingConfig(vocab_size=6000, recipe="sgpe")
    sgpe = train_from_counts(WordCounts.from_texts([sample["si"]], config), config)
    assert sgpe.encode("ක", add_special_tokens=True) == [2, *sgpe.encode("ක"), 3]


def test_lone_surrogates_become_replacement_characters(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude00")) == "😀"


def test_forms_of_encoding(tokenizer):
    ids = tokenizer.encode("hello ලංකාව")
    array = tokenizer.encode_to_numpy("hello ලංකාව")
    assert (array.tolist(), array.dtype.name, array.shape) == (ids, "int32", (len(ids),))
    assert tokenizer.encode_batch(["hello ලංකාව", ""]) == [ids, []]
    assert tokenizer.count_tokens("hello ලංකාව") == len(ids)
    assert [tokenizer.get_vocab()[token] for token in tokenizer.tokenize("hello ලංකාව")] == ids


def test_what_it_is_made_of(plain):
    assert len(plain) == plain.vocab_size == 2000 == len(plain.get_vocab())
    assert list(plain.get_vocab().values()) == list(range(2000))
    ranks = plain.get_mergeable_ranks()
    assert ranks[:2] == [(b"\0", 0), (b"\1", 1)]
    assert [id for _, id in ranks] == list(range(2000 - len(SPECIALS)))
    assert plain.get_pattern() == SPLIT_PATTERNS["cl100k"]
    assert plain.token_bytes(plain.encode(" the")[0]) == b" the"
    assert repr(plain) == "BPETokenizer(2,000 tokens, 1,740 merges, normalization=none)"


def test_cache_counts_and_clears(plain):
    plain.clear_cache()
    plain.encode("again again again")
    assert plain.cache_info().hits == 1
    plain.encode("x" * 10_000)
    assert plain.cache_info().words == 2  # "again", " again", and not the endless word
    plain.clear_cache()
    assert plain.cache_info().words == 0


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda tokenizer: pickle.loads(pickle.dumps(tokenizer))])
def test_copies_are_the_same_tokenizer(tokenizer, clone):
    other = clone(tokenizer)
    assert other.get_vocab() == tokenizer.get_vocab()
    assert other.metadata == tokenizer.metadata
    assert other.encode("ශ්‍රී ලංකාව hello") == tokenizer.encode("ශ්‍රී ලංකාව hello")


def test_ids_out_of_range_are_named(plain):
    with pytest.raises(SGPEError, match=r"id 9999 at position 1 is not in the vocabulary \(ids 0 to 1999\)"):
        plain.decode([0, 9999])
    with pytest.raises(SGPEError, match="id -1"):
        plain.token_bytes(-1)


def test_wrong_types_and_values(plain):
    with pytest.raises(TypeError, match="encode takes a str, not bytes"):
        plain.encode(b"x")
    for id in ("104", 104.9):
        with pytest.raises(TypeError):
            plain.decode([id])
    with pytest.raises(SGPEError, match="max_tokens must be at least 0"):
        plain.truncate("x", -1)
    with pytest.raises(SGPEError, match="buffer_size must be at least 1"):
        BPETokenizer.train_from_iterator(["x"], 300, buffer_size=0)
    with pytest.raises(SGPEError, match="corpus is empty"):
        BPETokenizer.train_from_iterator([], 300)


BYTES = {bytes([byte]): byte for byte in range(256)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({b"a": 0}, []), "lacks the byte 0x20"),
        ((BYTES, [(b"a", b"b")]), "merge 0 uses b'ab', which is not in the vocabulary"),
        (({**BYTES, b"ab": 7}, [(b"a", b"b")]), "have the same id 7"),
        (({**BYTES, b"ab": -7}, []), "has the id -7"),
    ],
)
def test_parts_that_do_not_fit(arguments, message):
    with pytest.raises(SGPEError, match=message):
        BPETokenizer(*arguments)
    both = r"special token 'ab' \(id 257\) and the ordinary token b'ab' \(id 256\) are both written 'ab'"
    with pytest.raises(SGPEError, match=both):
        BPETokenizer({**BYTES, b"ab": 256}, [], special_tokens={"ab": 257})
    with pytest.raises(SGPEError, match="template names '<x>'"):
        BPETokenizer(BYTES, [], template=Template.around(["<x>"], []))


# Remove the mark where one of these begins to pass.


def with_specials(names, **parts):
    """The bytes, and special tokens after them."""
    return BPETokenizer(BYTES, [], special_tokens={name: 256 + place for place, name in enumerate(names)}, **parts)


# ---------------------------------------------------------------- tokens and their strings


@given(text=texts)
def test_tokens_ids_and_vocabulary_say_the_same(plain, text):
    ids, tokens = plain.encode(text), plain.tokenize(text)
    vocab = plain.get_vocab()
    assert [vocab[token] for token in tokens] == ids
    assert plain.convert_tokens_to_ids(tokens) == ids
    assert plain.convert_ids_to_tokens(ids) == tokens
    assert plain.convert_tokens_to_string(tokens) == text
    assert plain.count_tokens(text) == len(tokens)


def test_one_token_gives_one_id_and_back(plain):
    for token, id in plain.get_vocab().items():
        assert plain.convert_tokens_to_ids(token) == id
        assert plain.convert_ids_to_tokens(id) == token
    assert plain.convert_tokens_to_ids("<|endoftext|>") == plain.special_tokens["<|endoftext|>"]
    assert plain.tokenize("<|a|>", allowed_special="all") == ["<|a|>"]
    assert plain.count_tokens("<|a|>", allowed_special="all") == 1 < plain.count_tokens("<|a|>")


def test_unknown_tokens_and_ids(plain):
    assert plain.convert_tokens_to_ids("no token") == -1
    assert plain.convert_tokens_to_ids(["a", "", " a"]) == [plain.vocab[b"a"], -1, -1]  # a space is written otherwise
    assert plain.convert_ids_to_tokens(2000) == plain.convert_ids_to_tokens(-1) == ""
    assert plain.convert_ids_to_tokens([plain.vocab[b"a"], 9999]) == ["a", ""]
    assert plain.convert_tokens_to_string(["a", "no token", "\u0120", "a"]) == "a a"
    assert plain.convert_tokens_to_ids([]) == plain.convert_ids_to_tokens([]) == []
    assert plain.convert_tokens_to_string([]) == ""


def test_ids_may_come_as_an_array(plain):
    ids = plain.encode_to_numpy("one two")
    assert plain.convert_ids_to_tokens(ids) == plain.tokenize("one two")
    assert plain.decode(ids) == "one two"


def test_one_id_may_be_a_whole_number_of_any_kind(plain):
    id = plain.encode_to_numpy("a")[0]
    assert plain.convert_ids_to_tokens(id) == "a"


def test_an_id_that_is_no_whole_number_has_no_token(plain):
    with pytest.raises(TypeError):
        plain.convert_ids_to_tokens([97.9])


# ---------------------------------------------------------------- roles


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["<|endoftext|>"], {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}),
        (["<s>", "</s>", "<unk>", "<pad>"], {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"}),
        (["<|begin_of_text|>", "<|end_of_text|>"], {"bos": "<|begin_of_text|>", "eos": "<|end_of_text|>"}),
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], {"pad": "[PAD]", "unk": "[UNK]"}),
        (["<|x|>"], {}),
        ([], {}),
    ],
)
def test_roles_follow_from_names(names, roles):
    tokenizer = with_specials(names)
    for role in ("bos", "eos", "pad", "unk"):
        token = roles.get(role, roles.get(f"{role}_token"))
        assert getattr(tokenizer, f"{role}_token") == token
        assert getattr(tokenizer, f"{role}_token_id") == (None if token is None else 256 + names.index(token))


def test_roles_may_be_given():
    tokenizer = with_specials(["<|endoftext|>", "<|x|>"], roles={"pad_token": "<|x|>"})
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == ("<|x|>", 257)
    assert (tokenizer.bos_token, tokenizer.bos_token_id) == (None, None)
    assert with_specials(["<|endoftext|>"], roles={}).eos_token is None
    assert copy.deepcopy(tokenizer).roles == pickle.loads(pickle.dumps(tokenizer)).roles == tokenizer.roles


def test_a_role_that_is_no_special_token_is_refused():
    with pytest.raises(SGPEError, match="the pad_token '<y>' is not among the special tokens"):
        with_specials(["<x>"], roles={"pad_token": "<y>"})
    with pytest.raises(SGPEError, match="the eos_token 'a' is not among the special tokens"):
        with_specials(["<x>"], roles={"eos_token": "a"})


@pytest.mark.parametrize("spelled", ["<|x|>", {"content": "<|x|>", "lstrip": False, "__type": "AddedToken"}])
def test_roles_are_read_from_the_configuration(tmp_path, spelled):
    with_specials(["<s>", "<|x|>"]).save(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    others = {"eos_token": None, "unk_token": "not there", "mask_token": {"lstrip": True}, "sep_token": 5}
    file.write_text(json.dumps({**written, "pad_token": spelled, **others}), encoding="utf-8")
    read = BPETokenizer.from_pretrained(tmp_path)
    assert (read.pad_token, read.pad_token_id) == ("<|x|>", 257)
    assert (read.bos_token, read.eos_token, read.unk_token) == ("<s>", None, None)


def test_roles_survive_saving(tmp_path):
    given = with_specials(["<|x|>", "<|y|>"], roles={"pad_token": "<|x|>", "image_token": "<|y|>"})
    given.save(tmp_path)
    assert BPETokenizer.from_pretrained(tmp_path).roles == given.roles
    from transformers import AutoTokenizer

    fast = AutoTokenizer.from_pretrained(tmp_path)
    assert (fast.pad_token, fast.pad_token_id, fast.eos_token) == ("<|x|>", 256, None)


@pytest.mark.parametrize("roles", [{}, {"pad_token": "<|endoftext|>"}])
def test_roles_that_are_not_what_names_say_survive_saving(tmp_path, roles):
    given = with_specials(["<|endoftext|>"], roles=roles)
    given.save(tmp_path)
    assert BPETokenizer.from_pretrained(tmp_path).roles == roles


def test_roles_survive_transformers():
    given = with_specials(["<|x|>"], roles={"pad_token": "<|x|>"})
    assert SGPETokenizerFast.from_bpe(given).to_bpe().roles == given.roles


def test_a_role_that_the_configuration_empties_is_empty(tmp_path):
    with_specials(["<|endoftext|>"]).save(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**written, "bos_token": None}), encoding="utf-8")
    read = BPETokenizer.from_pretrained(tmp_path)
    assert (read.bos_token, read.eos_token) == (None, "<|endoftext|>")


# ---------------------------------------------------------------- truncation


@pytest.fixture(scope="module")
def framed(plain):
    """The same with a template of three special tokens."""
    specials = {"<s>": 2000, "</s>": 2001, "<|x|>": 2002}
    template = Template.around(["<s>", "<|x|>"], ["</s>"])
    return BPETokenizer(
        plain.vocab,
        plain.merges,
        special_tokens=plain.special_tokens | specials,
        splitting=Splitting("bpe", pattern="o200k"),
        template=template,
    )


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


# ---------------------------------------------------------------- streams of text and of bytes

STREAMED = "aé€😀 ක්‍රම<|endoftext|>\nb, don't<|a|><|b|> <s>1 2"


def chunked(data, cuts):
    edges = [0, *sorted(cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


@pytest.mark.parametrize("allowed", ["all", "none"])
@pytest.mark.parametrize("make", [str, str.encode])
def test_a_stream_may_be_cut_at_every_place(plain, make, allowed):
    data, whole = make(STREAMED), plain.encode(STREAMED, allowed_special=allowed)
    for cut in range(len(data) + 1):
        assert list(plain.encode_streaming(chunked(data, [cut]), allowed_special=allowed)) == whole
    for size in range(1, 9):
        chunks = chunked(data, range(size, len(data), size))
        assert list(plain.encode_streaming(iter(chunks), allowed_special=allowed)) == whole


@given(parts=st.lists(texts | st.sampled_from(SPECIALS), max_size=4), data=st.data())
def test_streams_of_bytes_may_be_cut_anywhere(tokenizer, parts, data):
    text = "".join(parts)
    encoded = text.encode()
    cuts = data.draw(st.lists(st.integers(0, len(encoded)), max_size=6))
    streamed = tokenizer.encode_streaming(chunked(encoded, cuts), allowed_special="all")
    assert list(streamed) == tokenizer.encode(text, allowed_special="all")


@given(data=st.binary(max_size=20), cuts=st.lists(st.integers(0, 20), max_size=4))
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_that_are_not_utf8_become_replacement_characters(plain, kind, data, cuts):
    ids = list(plain.encode_streaming(map(kind, chunked(data, [min(cut, len(data)) for cut in cuts]))))
    assert ids == plain.encode(data.decode(errors="replace"))


def test_a_stream_that_ends_inside_a_character(plain):
    assert plain.decode(plain.encode_streaming([b"ab\xe2", b"\x82"])) == "ab\ufffd"
    assert plain.decode(plain.encode_streaming([b"\xe2", b"", b"\x82", b"\xac"])) == "€"
    assert list(plain.encode_streaming([])) == list(plain.encode_streaming([b""])) == []


def test_bytes_are_encoded_as_lazily_as_text(tokenizer):
    def lines():
        yield "පළමු පේළිය one line\n".encode()
        yield b"another line\n"
        raise RuntimeError("read too far")

    assert tokenizer.decode([next(tokenizer.encode_streaming(lines()))]).startswith("ප")


def test_surrogate_pairs_that_chunks_part_come_together(plain):
    assert plain.decode(plain.encode_streaming(["a \ud83d", "\ude00 b"])) == "a 😀 b"


def test_decoding_a_stream_gives_characters_when_they_are_whole():
    bytewise = with_specials(["<|x|>"])
    assert list(bytewise.decode_stream(bytewise.encode("aé😀"))) == ["a", "é", "😀"]
    assert list(bytewise.decode_stream([0xE2, 0x82])) == ["\ufffd"]
    assert list(bytewise.decode_stream([0xE2, 256, 97])) == ["\ufffd<|x|>", "a"]
    assert list(bytewise.decode_stream([97, 256, 98], skip_special_tokens=True)) == ["a", "b"]
    assert list(bytewise.decode_stream([0xFF, 97], errors="ignore")) == ["a"]
    with pytest.raises(UnicodeDecodeError):
        list(bytewise.decode_stream([0xFF], errors="strict"))


def test_decoding_a_stream_is_lazy():
    def ids():
        yield 97
        raise RuntimeError("read too far")

    assert next(with_specials([]).decode_stream(ids())) == "a"


# ---------------------------------------------------------------- the memory of words


def test_the_hit_rate_is_the_share_of_words_met_before(plain):
    plain.clear_cache()
    assert plain.cache_info().hit_rate == 0
    plain.encode("again" + " again" * 3)
    info = plain.cache_info()
    assert (info.hits, info.misses, info.hit_rate) == (2, 2, 0.5)
    plain.encode(" again")
    assert plain.cache_info().hit_rate == 0.6
    assert 0 < info.bytes <= info.max_bytes


# ---------------------------------------------------------------- special tokens with ids of their own

CORPUS = ["low lower lowest newer newest wider widest, "] * 9


@given(ids=st.lists(st.integers(0, 269), min_size=1, max_size=6, unique=True))
@few_examples
def test_given_ids_are_kept_and_the_others_fill_the_rest_in_order(ids):
    specials = {f"<|{place}|>": id for place, id in enumerate(ids)}
    tokenizer = BPETokenizer.train_from_iterator(CORPUS, 270, special_tokens=specials)
    assert tokenizer.special_tokens == specials
    assert list(tokenizer.get_vocab().values()) == list(range(270))
    same = BPETokenizer.train_from_iterator(CORPUS, 270, special_tokens=list(specials))
    assert tokenizer.merges == same.merges
    assert [token for token, _ in tokenizer.get_mergeable_ranks()] == [token for token, _ in same.get_mergeable_ranks()]
    for name, id in specials.items():
        assert tokenizer.encode(f"low{name}", allowed_special="all")[-1] == id
        assert tokenizer.decode([id]) == name


@pytest.mark.parametrize("recipe", ["bpe", "hybrid", "sgpe"])
def test_given_ids_are_kept_by_every_recipe_and_by_files(tmp_path, sample, recipe):
    specials = {"<|last|>": 3999, "<|first|>": 0, "[CLS]": 300, "[SEP]": 7}
    config = TrainingConfig(vocab_size=4000, recipe=recipe, special_tokens=specials, min_frequency=1)
    assert config.special_tokens_position == "given"
    assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    made = train_from_counts(WordCounts.from_texts([sample["si"], sample["en"]], config), config)
    assert made.special_tokens == specials
    assert list(made.get_vocab().values()) == list(range(len(made)))
    assert len(made) == 4000 or recipe == "sgpe"  # whose size is the document's
    made.save(tmp_path)
    from transformers import AutoTokenizer

    read, fast = BPETokenizer.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert read.special_tokens == specials
    assert fast.get_vocab() == read.get_vocab() == made.get_vocab()
    text = "ශ්‍රී<|last|> low [CLS]<|first|>"
    assert fast.encode(text, add_special_tokens=False) == read.encode(text, allowed_special="all")
    assert read.encode(text, allowed_special="all") == made.encode(text, allowed_special="all")


@pytest.mark.parametrize(
    ("specials", "message"),
    [
        ({"<a>": 300}, "special token '<a>' has the id 300, which is not one of 0 to 299"),
        ({"<a>": -1}, "has the id -1"),
        ({"<a>": 1.0}, r"has the id 1\.0"),
        ({"<a>": True}, "has the id True"),
        ({"<a>": "7"}, "has the id '7'"),
        ({"<a>": 7, "<b>": 7}, "special tokens '<a>' and '<b>' have the same id 7"),
        ({"x": 7}, "special token 'x' is written in tokenizer.json like the ordinary token b'x'"),
        ({"<a>": 299}, "has the id 299, but the corpus gives only 258 tokens: give a vocab_size of 258, and ids below it"),
    ],
)
def test_given_ids_that_cannot_be_are_named(specials, message):
    with pytest.raises(SGPEError, match=message):
        BPETokenizer.train_from_iterator(["ab ab"], 300, special_tokens=specials, min_frequency=2)
    if "corpus" not in message:
        with pytest.raises(SGPEError, match=message):
            TrainingConfig(vocab_size=300, special_tokens=specials)


def test_ids_are_given_where_and_only_where_tokens_are_mapped_to_them():
    for specials, position in ((["<a>"], "given"), ({"<a>": 3}, "end")):
        with pytest.raises(SGPEError, match="position must be 'given' where special tokens are mapped to ids"):
            TrainingConfig(vocab_size=300, special_tokens=specials, special_tokens_position=position)


def test_no_special_tokens_may_be_given_as_a_mapping():
    assert BPETokenizer.train_from_iterator(CORPUS, 260, special_tokens={}).special_tokens == {}


def test_a_vocabulary_size_that_is_no_number_is_named_beside_given_ids():
    with pytest.raises(SGPEError, match="vocab_size must be a whole number, not '300'"):
        TrainingConfig(vocab_size="300", special_tokens={"<a>": 7})


# ---------------------------------------------------------------- normalization


def test_training_on_an_iterator_may_normalize():
    composed, decomposed = "né dé ré " * 9, "ne\u0301 de\u0301 re\u0301 " * 9
    options = {"vocab_size": 264, "special_tokens": ["<|x|>"]}
    nfc = BPETokenizer.train_from_iterator([decomposed], normalization="nfc", **options)
    assert nfc.get_vocab() == BPETokenizer.train_from_iterator([composed], **options).get_vocab()
    assert nfc.encode(decomposed) == nfc.encode(composed)
    assert nfc.decode(nfc.encode(decomposed)) == composed
    assert list(nfc.encode_streaming(decomposed)) == nfc.encode(composed)
    as_it_is = BPETokenizer.train_from_iterator([decomposed], **options)
    assert as_it_is.decode(as_it_is.encode(decomposed)) == decomposed
    with pytest.raises(SGPEError, match="unknown normalization 'nfd': known are none, nfc"):
        BPETokenizer.train_from_iterator([decomposed], normalization="nfd", **options)


# ---------------------------------------------------------------- special tokens that overlap

OVERLAPPING = ["<|a|>", "<|a|><|b|>", "|><|", "<|b|>", "<|a|><|b|><|", "b|><|a"]


@pytest.fixture(scope="module")
def overlapping(sample):
    tokenizer = BPETokenizer.train_from_iterator(sample.values(), 500, special_tokens=OVERLAPPING)
    return tokenizer, SGPETokenizerFast.from_bpe(tokenizer).backend_tokenizer


def test_of_special_tokens_that_begin_at_one_place_the_longest_wins(overlapping):
    def special(text):
        return overlapping[0].tokenize(text, allowed_special="all")

    assert special("<|a|><|b|>") == ["<|a|><|b|>"]
    assert special("<|a|><|b|><|") == ["<|a|><|b|><|"]
    assert special("<|a|><|a|>") == ["<|a|>", "<|a|>"]
    assert special("x|><|b|>") == ["x", "|><|", "b", "|", ">"]  # the leftmost first, then the longest
    some = overlapping[0].tokenize("<|a|><|b|>", allowed_special={"<|a|>", "<|b|>"})
    assert some == ["<|a|>", "<|b|>"]


@given(parts=st.lists(st.sampled_from([*OVERLAPPING, "<|", "|>", "a", "b", " "]), max_size=8), data=st.data())
def test_overlapping_special_tokens_are_found_as_the_library_finds_them(overlapping, parts, data):
    ours, library = overlapping
    text = "".join(parts)
    ids = ours.encode(text, allowed_special="all")
    assert ids == library.encode(text, add_special_tokens=False).ids
    assert ours.decode(ids) == text
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=4))
    assert list(ours.encode_streaming(chunked(text, cuts), allowed_special="all")) == ids
