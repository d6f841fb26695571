from functools import cache
from itertools import product

import pytest
from hypothesis import given
from support.corpora import LANGUAGES, corpus
from support.kernels import EVERY_KIND, needs_native
from support.texts import LINES, every_character, indic, newest, texts
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from hf_sgpe import SPLIT_PATTERNS, RegexPreTokenizer, Splitting, kernels
from hf_sgpe.splitting.scripts.script_tables import TEN

if kernels.is_native():
    import hf_sgpe._native as native

pytestmark = needs_native

SCANNED = {
    **{name: Splitting("bpe", pattern=name, normalization="none") for name in SPLIT_PATTERNS},
    **{f"hybrid-{name}": Splitting("hybrid", EVERY_KIND, name, "none") for name in SPLIT_PATTERNS},
    "hybrid-sinhala": Splitting(normalization="none"),
    "sgpe": Splitting("sgpe", normalization="none"),
    "sgpe-all": Splitting("sgpe", [script.name for script in TEN], normalization="none"),
}


@cache
def both(name):
    """The split by a scanner, and by the engine."""
    ours = RegexPreTokenizer.of(SCANNED[name])
    assert ours.scanner is not None
    theirs = ours.to_native()
    return ours.split, lambda text: [word for word, _ in theirs.pre_tokenize_str(text)]


def test_character_classes_are_the_engines_for_every_code_point():
    text = "".join(chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000)
    classes = {}
    for character in text:
        classes.setdefault(native.class_of(ord(character)), set()).add(character)
    for number, name in kernels.CHARACTER_CLASSES.items():
        split = Split(Regex(name), behavior="removed", invert=True)
        found = set()
        for start in range(0, len(text), 1 << 15):
            for match, _ in split.pre_tokenize_str(text[start : start + (1 << 15)]):
                found.update(match)
        assert found == classes[number], name


def test_another_unicode_version_of_the_engine_is_noticed(monkeypatch):
    assert RegexPreTokenizer("gpt2").scanner is not None
    assert kernels.describe() == "native"
    kernels.classes_agree.cache_clear()
    monkeypatch.setitem(kernels.CHARACTER_CLASSES, 5, r"[\p{N}Ⅷ中]")
    try:
        # The characters that are asked about are those whose classes have changed, so this must touch one of them.
        monkeypatch.setitem(kernels.CHARACTER_CLASSES, 2, rf"[\p{{Ll}}{chr(native.CANARIES[-1])}]")
        assert RegexPreTokenizer("gpt2").scanner is None
        assert "another version of Unicode" in kernels.describe()
        assert RegexPreTokenizer("gpt2").split("It's so") == ["It", "'s", " so"]
    finally:
        monkeypatch.undo()
        kernels.classes_agree.cache_clear()


@pytest.mark.parametrize("name", SCANNED)
@given(text=texts | newest | indic)
def test_scanners_split_as_the_engine_does_on_random_text(name, text):
    by_scanner, by_engine = both(name)
    assert by_scanner(text) == by_engine(text)


@pytest.mark.parametrize("characters", [6_000, pytest.param(60_000, marks=pytest.mark.data)])
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "qwen2", "o200k", "bloom", "hybrid-o200k", "hybrid-bloom", "sgpe-all"])
def test_scanners_split_as_the_engine_does_on_every_corpus(name, characters):
    by_scanner, by_engine = both(name)
    for language in LANGUAGES:
        text = corpus(language, characters)
        assert by_scanner(text) == by_engine(text), language


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("o200k", "hybrid-o200k", "sgpe-all") else pytest.mark.slow)
        for name in SCANNED
    ],
)
def test_scanners_split_as_the_engine_does_on_every_character_and_every_three_kinds(name):
    by_scanner, by_engine = both(name)
    for text in (*every_character(), *LINES, *map("".join, product("'sSǅ中1²\u0301ක්\u200d \u00a0\n/😀", repeat=3))):
        assert by_scanner(text) == by_engine(text), text


@pytest.mark.parametrize(
    "patterns",
    [
        ("[a]+",),
        (r" ?[a-z]+| ?[^ \t\n\r]|[ \t\n\r]",),
        ("gpt2", "gpt2"),
        (" ?[ක][ක]*",),
        (" ?[a][ab]*|x",),
        (r" ?[\w][\wb]*",),
    ],
)
def test_other_patterns_have_no_scanner(patterns):
    assert RegexPreTokenizer(*patterns).scanner is None
