import random
from functools import cache

import pytest
from hypothesis import example, given, strategies as st
from support.character_tokenizers import NORMALIZATIONS, character_tokenizer
from support.corpora import HELD_OUT, held_out
from support.sentencepiece_like import RARER_KINDS, content
from support.small_tokenizers import SPECIALS, with_parts
from support.texts import chunked, texts

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer, SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary import growing_text
from hf_sgpe.vocabulary.added_patterns import Matching

pytestmark = pytest.mark.kernels

STEPS = (r"\p{N}{1,3}", "gpt2")
OWN = r"\S+|\s+"
OTHERS = (
    "steps",
    "own pattern",
    "hybrid",
    "sgpe",
    "wholes",
    "rules",
    "normalized",
    "characters and tokens",
    "characters and rules",
)
KINDS = [*SPLIT_PATTERNS, *OTHERS, *NORMALIZATIONS, *RARER_KINDS]
TOKENS = {"<m>": Matching(lstrip=True), "<r>": Matching(rstrip=True), ".net": Matching(single_word=True), "a b": Matching()}

seams = st.sampled_from(
    [
        *SPECIALS,
        *TOKENS,
        *"<|a\u0301\u0323 \n\t.'1é\ud83d\ude00\u200d\u0dca",
        "endof",
        "text|>",
        "'r",
        "e ",
        "   ",
        "\r\n",
        "\u1161",
        "\u2581",
    ]
)
runs = st.builds(
    str.__mul__,
    st.sampled_from(["a", "ab", " ", "\n", "1", "😀", "한", "་བ", "e\u0301", "=", "ක්‍", "中"]),
    st.integers(1, 900),
)
pieces = st.lists(texts | seams | runs, max_size=8)


@pytest.fixture(scope="module")
def of_kind(sample, tokenizer):
    learned = sample["en"][:20_000], sample["si"][:10_000], "aaaa ab  abab....\n\n" * 5
    # Its merges join words, so that ids show where a text is cut.
    plain = BPETokenizer.train_from_iterator(learned, 900, special_tokens=SPECIALS, pattern=r"[^\n]+")
    config = TrainingConfig(900, "sgpe", scripts=("sinhala",))

    @cache
    def of_kind(kind):
        if kind == "hybrid":
            return tokenizer
        if kind == "sgpe":
            return train_from_counts(WordCounts.from_texts(learned, config), config)
        if kind == "wholes":
            return with_parts(of_kind("cl100k"), ignore_merges=True)
        if kind == "rules":
            return with_tokens(of_kind("o200k"), TOKENS, matching=TOKENS)
        if kind == "normalized":
            return with_tokens(of_kind("gpt2"), ["   ", "<é>"], normalized_tokens={"   ", "<é>"})
        if kind in RARER_KINDS:
            return BPETokenizer.of(tokenizer_json.from_dict(content(learned, 700, kind, {"<|a|>": True, "\n\n": False})))
        if kind in NORMALIZATIONS:
            return character_tokenizer(learned, kind, runs=("  ", "    "))
        if kind == "characters and tokens":
            return with_tokens(of_kind("metaspace"), ["<m>", "<|a|>"])
        if kind == "characters and rules":
            return with_tokens(of_kind("metaspace-first"), TOKENS, matching=TOKENS)
        pattern = {"steps": STEPS, "own pattern": OWN}.get(kind, kind)
        return with_parts(plain, splitting=Splitting("bpe", pattern=pattern, normalization="nfc"))

    return of_kind


def with_tokens(tokenizer, tokens, **parts):
    first = max(tokenizer.get_vocab().values()) + 1
    return with_parts(tokenizer, added_tokens={name: first + place for place, name in enumerate(tokens)}, **parts)


def grow(tokenizer, pieces, allowed):
    growing, text = tokenizer.growing_text(allowed_special=allowed), ""
    for piece in pieces:
        growing.append(piece)
        text += piece
        assert growing.ids == tokenizer.encode(text, allowed_special=allowed)
        assert growing.text == text
    return growing


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
@given(pieces=pieces, allowed=st.sampled_from(["all", "none"]))
@example(pieces=["་བ" * 512], allowed="all")
@example(pieces=["one <m>", "\ud83d", "\ude00.net"], allowed="all")
def test_ids_are_those_of_the_whole_text(of_kind, kind, pieces, allowed):
    grow(of_kind(kind), pieces, allowed)


TEXT = (
    "one two, a b c.net, .net <m>  <m> x<r>   y <|a|><|b|><|endof <|endoftext|>\r\n \n3 12345'll e\u0301\u0323é"
    "  ශ්‍රී ලංකාව, ක්‍රම සහ 中文，没有 <s>a\u2581b\n\nend of the"
)


@pytest.mark.parametrize("allowed", ["all", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_may_be_cut_at_every_place(of_kind, kind, allowed):
    for cut in range(len(TEXT)):
        grow(of_kind(kind), [TEXT[:cut], TEXT[cut:]], allowed)
    for size in range(1, 5):
        grow(of_kind(kind), chunked(TEXT, range(size, len(TEXT), size)), allowed)


@pytest.mark.parametrize("kind", ["gpt2", "wholes", "hybrid", "metaspace", "metaspace-prefix", "own pattern"])
def test_long_words_may_be_cut_at_every_place(of_kind, kind, sample):
    for language in ("en", "si"):
        letters = "".join(filter(str.isalpha, sample[language][5000:9000]))
        for size in (1, 2, 7):
            first = 1200 - size
            grow(of_kind(kind), chunked(letters[:1400], range(first, 1400, size)), "none")


@pytest.mark.parametrize("kind", ["gpt2", "wholes", "own pattern", "metaspace", "characters and tokens"])
@given(pieces=pieces)
def test_words_of_any_length_may_grow(of_kind, kind, pieces):
    lengths = {"_LONG_REST": 1, "_LONG_WORD": 2, "_FIRST_TOKENS": 1, "_RECENT_WORDS": 2}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in lengths.items():
            patch.setattr(growing_text, name, value)
        grow(of_kind(kind), pieces, "none")


def test_the_end_of_a_short_word_may_grow(of_kind, sample, monkeypatch):
    for name, value in {"_LONG_REST": 1, "_LONG_WORD": 2, "_FIRST_TOKENS": 1}.items():
        monkeypatch.setattr(growing_text, name, value)
    letters = "".join(filter(str.isalpha, sample["en"][:2000]))
    for start in range(0, len(letters), 40):
        grow(of_kind("gpt2"), letters[start : start + 40], "none")


@pytest.mark.parametrize("kind", ["o200k", "hybrid", "metaspace-prefix"])
def test_real_text_of_every_language(of_kind, kind):
    draw = random.Random(kind)
    for language in HELD_OUT:
        text = "\n".join(held_out(language, 40))[:2000]
        cuts = [draw.randrange(len(text)) for _ in range(12)]
        growing = grow(of_kind(kind), chunked(text, cuts), "none")
        assert growing.settled > 0


@given(pieces=pieces)
def test_settled_ids_never_change(of_kind, pieces):
    growing, settled = of_kind("hybrid").growing_text(), []
    for piece in pieces:
        growing.append(piece)
        ids = growing.ids
        assert ids[: len(settled)] == settled
        settled = ids[: growing.settled]
        assert len(growing) == len(ids)


@pytest.mark.parametrize("word", ["a", "abcdefghijklmnopqrstuvwxyz", "中文", " "])
def test_the_end_of_a_word_that_never_ends_is_encoded_again(of_kind, word, monkeypatch):
    encoded = []
    tokenizer = of_kind("gpt2")
    codec = type(tokenizer._codec)
    original = codec.encode_words
    monkeypatch.setattr(
        codec, "encode_words", lambda self, words: encoded.append(sum(map(len, words))) or original(self, words)
    )
    growing = tokenizer.growing_text(word * (2000 // len(word)))
    assert growing.ids == tokenizer.encode(growing.text)
    total = 0
    for _ in range(100):
        growing.append(word)
        expected = tokenizer.encode(growing.text)
        encoded.clear()
        assert growing.ids == expected
        total += sum(encoded)
    assert 0 < total < 100 * 300


def test_a_wrong_type_and_an_unknown_token_are_refused(of_kind):
    growing = of_kind("gpt2").growing_text("a")
    with pytest.raises(TypeError, match="append needs a str, not bytes"):
        growing.append(b"a")
    assert growing.ids == of_kind("gpt2").encode("a")
    with pytest.raises(SGPEError, match="not a special token"):
        of_kind("gpt2").growing_text(allowed_special=["<x>"])
