"""Which of llama.cpp's pre-tokenizers a tokenizer is recognised as. They are tried on llama.cpp among the engines."""

import pytest
from hypothesis import given, strategies as st
from support.examples import few_examples
from support.llama_cpp import known_to_llama_cpp, pre_of
from support.small_tokenizers import BYTES
from support.texts import texts

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer, SGPEError
from hf_sgpe.formats.llama_cpp_pre_tokenizers import _SPELLINGS, PRE_TOKENIZERS, _plain, of_patterns
from hf_sgpe.formats.pre_tokenizers import punctuation, regexes_of
from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.weights import gguf

LETTERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
ENDS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + ENDS
LLAMA3 = QWEN2.replace(r"\p{N}| ", r"\p{N}{1,3}| ")


def split(regex, **options):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False, **options}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def cased(contractions, digits):
    start = r"[^\r\n\p{L}\p{N}]?"
    upper, lower = LETTERS
    words = f"{start}{upper}*{lower}+{contractions}|{start}{upper}+{lower}*{contractions}"
    return split(rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{ENDS}")


DIGIT, DIGITS = ({"type": "Digits", "individual_digits": individual} for individual in (True, False))
HAN = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DEEPSEEK = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
MODELS = {
    "GPT-2, GPT-NeoX, OLMo": ("gpt-2", [byte_level(True)]),
    "SmolLM, StarCoder 2, Command R": ("smollm", [DIGIT, byte_level(True)]),
    "the same by a Split": ("smollm", [split(r"\p{N}"), byte_level(True)]),
    "Falcon": (
        "falcon",
        [{"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True), DIGITS, split("[0-9][0-9][0-9]")],
    ),
    "Llama 3": ("llama-bpe", [split(LLAMA3), byte_level(False)]),
    "as tiktoken's conversion writes it": (
        "llama-bpe",
        [split(LLAMA3, behavior="Removed", invert=True), byte_level(False)],
    ),
    "Qwen 2 and 3": ("qwen2", [split(QWEN2), byte_level(False)]),
    "Ling": (
        "qwen2",
        [
            split(
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
            ),
            byte_level(False),
        ],
    ),
    "Qwen 3.5": (
        "qwen35",
        [
            split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + ENDS),
            byte_level(False),
        ],
    ),
    "DeepSeek V3": ("deepseek-v3", [split(r"\p{N}{1,3}"), split(HAN), split(DEEPSEEK), byte_level(False)]),
    "DeepSeek Coder": (
        "deepseek-coder",
        [
            split("[\r\n]"),
            split(r"\s?\p{L}+"),
            split(r"\s?\p{P}+"),
            split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
            DIGIT,
            byte_level(False),
        ],
    ),
    "GPT-4o, gpt-oss": ("granite-embed-multi-97m", [cased(f"{CONTRACTIONS}?", r"\p{N}{1,3}"), byte_level(False)]),
    "Mistral NeMo": ("tekken", [cased("", r"\p{N}"), byte_level(False)]),
    "Tiny Aya": (
        "tiny_aya",
        [split(r"\d{1,3}(?=(?:\d{3})*\b)"), cased(f"{CONTRACTIONS}?", r"\p{N}{1,3}"), byte_level(False)],
    ),
    "BLOOM": ("bloom", [split(" ?[^(\\s|.,!?…。，、।۔،)]+"), byte_level(False)]),
    "Viking": ("viking", [split(" ?[^(\\s|.,!?…。，、।۔،)]+"), DIGIT, byte_level(False)]),
    "Seed-Coder": (
        "seed-coder",
        [
            split(
                CONTRACTIONS
                + "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
            ),
            byte_level(False),
        ],
    ),
    "SuperBPE": ("superbpe", [split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), byte_level(False)]),
}


def tokenizer_of(parts, **options):
    regexes = regexes_of({"type": "Sequence", "pretokenizers": parts})
    vocab = BYTES | {b"ab": 256}
    return BPETokenizer(vocab, [(b"a", b"b")], splitting=Splitting.from_regexes(regexes), **options)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("model", MODELS)
def test_models_are_recognised(model):
    name, parts = MODELS[model]
    tokenizer = tokenizer_of(parts)
    known = gguf.pre_tokenizer_of(tokenizer)
    assert known is not None
    assert known.name == name == gguf.pre_to_write(tokenizer)
    assert pre_of(tokenizer) == (None if known.differs else name)
    assert gguf.is_exact(tokenizer, known.names[-1]) == (not known.differs)


@pytest.mark.parametrize(
    "parts",
    [
        [split(LLAMA3.replace("{1,3}", "{1,3}+")), byte_level(False)],  # a nested repeat: of any length
        [split(LLAMA3.replace("{1,3}", "{1,2}")), byte_level(False)],
        [split(LLAMA3.replace("| ?[", r"|\s?[")), byte_level(False)],
        [split(r"\d"), byte_level(True)],
        [split(r"[\p{N}a]"), byte_level(True)],
        [split("[\\p{N}\u0d85]"), byte_level(True)],
        [split(r"[!-/:-@\[-`{-~]+"), byte_level(True), split("[0-9][0-9][0-9]")],  # ASCII's alone
        [byte_level(True), split("[0-9][0-9][0-9]")],
        [split(r"\p{N}{1,3}"), split(DEEPSEEK), byte_level(False)],
    ],
)
def test_an_unknown_pre_tokenizer_must_be_chosen_explicitly(parts):
    tokenizer = tokenizer_of(parts)
    assert gguf.pre_tokenizer_of(tokenizer) is pre_of(tokenizer) is None
    with pytest.raises(SGPEError, match=r"--pre-tokenizer nearest"):
        gguf.pre_to_write(tokenizer)
    assert gguf.pre_to_write(tokenizer, "nearest") == "default"
    assert gguf.pre_to_write(tokenizer, "starcoder") == "starcoder"
    assert not gguf.is_exact(tokenizer, "starcoder")
    with pytest.raises(SGPEError, match=r"starcoder3: .* nearest, gpt-2, "):
        gguf.pre_to_write(tokenizer, "starcoder3")


def test_a_hybrid_has_a_near_one_only():
    for pattern, near in (("bloom", "bloom"), ((r"\p{N}", SPLIT_PATTERNS["gpt2"]), "smollm"), (r"\p{N}+", "default")):
        tokenizer = BPETokenizer(BYTES, [], splitting=Splitting(pattern=pattern))
        assert pre_of(tokenizer) is None
        assert gguf.pre_to_write(tokenizer, "nearest") == near
        with pytest.raises(SGPEError, match="has no pre-tokenizer"):
            gguf.pre_to_write(tokenizer)
        assert not gguf.is_exact(tokenizer, near)


def test_whether_words_are_taken_counts_where_merges_do_not_make_them():
    vocab = BYTES | {b"word": 256}
    names = {
        (pattern, takes): pre_of(BPETokenizer(vocab, [], splitting=Splitting("bpe", pattern=pattern), ignore_merges=takes))
        for pattern in ("llama3", "qwen2", "o200k")
        for takes in (True, False)
    }
    assert names == {
        ("llama3", True): "llama-bpe",
        ("llama3", False): "dbrx",
        ("qwen2", True): None,
        ("qwen2", False): "qwen2",
        ("o200k", True): "granite-embed-multi-97m",
        ("o200k", False): None,
    }


def test_a_name_belongs_to_one_record():
    names = [name for one in PRE_TOKENIZERS for name in one.names]
    assert len(names) == len(set(names)) == 87
    for one in PRE_TOKENIZERS:
        assert one in of_patterns(one.regexes)
        assert tuple(map(_plain, one.regexes)) == one.regexes


def test_patterns_are_known_by_name_or_regex():
    assert known_to_llama_cpp("cl100k").name == known_to_llama_cpp([LLAMA3]).name == "llama-bpe"
    assert known_to_llama_cpp("cl100k-any-space") is None
    with pytest.raises(SGPEError, match="unknown split pattern"):
        known_to_llama_cpp("o200")


@pytest.mark.parametrize("spelling", _SPELLINGS)
@few_examples
@given(text=st.one_of(texts, st.text("aZ'sLlVeE019 \t\n\r.,!-_ßé١②ſ\u200d\u0d9a\u0dca一々\u3000", max_size=40)))
def test_other_spellings_cut_alike(spelling, text):
    regexes = [one for known in PRE_TOKENIZERS for one in known.regexes if _SPELLINGS[spelling] in one][:2]
    for regex in regexes:
        respelt = regex.replace(_SPELLINGS[spelling], spelling)
        assert _plain(respelt) == regex
        assert words(respelt, text) == words(regex, text)


def words(regex, text):
    return RegexPreTokenizer(f"(?:{regex})").split(text)


@given(text=st.one_of(texts, st.text("a1$+<=>^`|~.,!?¿«—'\"", max_size=40)))
def test_punctuation_is_spelled_in_three_ways(text):
    first, *others = (r"[!-/:-@\[-`{-~\p{P}]", punctuation(), r"[\p{P}\$\+<=>\^~\|`]")
    for other in others:
        assert _plain(f"{other}+") == f"{first}+"
        assert words(other, text) == words(first, text)
