from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from support.stranger import BATCH
from support.texts import texts

SCRIPTS = ("sinhala", "devanagari", "tamil")
CHAT = ("<|endoftext|>", "<|pad|>", "<|im_start|>", "<|im_end|>")
TELLING = [
    "ශ්‍රී ලංකාව ඉන්ද්‍රිය, ප්‍රජාතන්ත්‍රවාදය!",
    "It's  a <|endoftext|> test.\n\n[SEP]don't .  ,hello 12345",
    "हिन्दी क्षत्रिय राष्ट्र\r\n ஸ்ரீ தமிழ்",
    "ක\u0dd9\u0dcf e\u0301 😀👩‍👩‍👧 中文 ไทย <|im_start|>x<|im_end|>",
    "  two spaces  ",
    "",
    " ",
]


@pytest.fixture(scope="session")
def telling() -> list[str]:
    """A few texts that tell tokenizers apart: conjuncts, spaces, digits, contractions, special tokens, nothing."""
    return TELLING


@pytest.fixture(scope="session")
def nasty() -> list[str]:
    """Some hundred texts that tokenizers trip over, the same in every run."""
    drawn: list[str] = []

    @settings(derandomize=True, database=None)
    @given(texts)
    def draw(text: str) -> None:
        drawn.append(text)

    draw()
    return TELLING + drawn


@pytest.fixture(scope="session")
def folders(sample, tmp_path_factory) -> dict[str, Path]:
    """A saved tokenizer of each recipe: one with padding and a chat template, one plain, one with [CLS] and [SEP]."""
    from support.small_tokenizers import with_parts

    from hf_sgpe.chat.templates import load_template

    tokenizers = {
        "hybrid": _trained(sample, vocab_size=4000, scripts=SCRIPTS, special_tokens=CHAT),
        "bpe": _trained(sample, vocab_size=2000, recipe="bpe", pattern="gpt2"),
        "sgpe": _trained(sample, vocab_size=3000, recipe="sgpe", scripts=SCRIPTS),
    }
    tokenizers["hybrid"] = with_parts(tokenizers["hybrid"], chat_template=load_template("chatml"))
    return _saved(tokenizers, tmp_path_factory.mktemp("recipes"))


@pytest.fixture(scope="session")
def small(sample, tmp_path_factory) -> Path:
    """A saved tokenizer that is loaded quickly, of the default recipe."""
    tokenizers = {"small": _trained(sample, vocab_size=1000, scripts=("sinhala",), special_tokens=CHAT)}
    return _saved(tokenizers, tmp_path_factory.mktemp("small"))["small"]


@pytest.fixture(scope="session")
def around(sample, tmp_path_factory) -> dict[str, Path]:
    """A saved tokenizer that puts BOS before a text, and one that puts EOS after it, too."""
    tokens = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<|pad|>", "add_bos_token": True}
    settings = {"begin": {}, "begin and end": {"add_eos_token": True}}
    tokenizers = {name: _trained(sample, vocab_size=1000, recipe="bpe", **tokens, **more) for name, more in settings.items()}
    return _saved(tokenizers, tmp_path_factory.mktemp("around"))


@pytest.fixture(scope="session")
def folders_by_pattern(sample, tmp_path_factory) -> dict[str, Path]:
    """A saved tokenizer for each split pattern and each recipe that has one, and extended ones."""
    from hf_sgpe import SPLIT_PATTERNS, Splitting

    tokenizers = {}
    for pattern in SPLIT_PATTERNS:
        tokenizers[f"hybrid with {pattern}"] = _trained(sample, vocab_size=3500, scripts=SCRIPTS, pattern=pattern)
        tokenizers[f"bpe with {pattern}"] = _trained(sample, vocab_size=1000, recipe="bpe", pattern=pattern)
    for pattern in ("llama3", "o200k", ("\\p{N}", "gpt2"), ("[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "\\p{N}")):
        name = pattern if isinstance(pattern, str) else f"{len(pattern)} splits"
        tokenizers[f"extended with {name}"] = _extended(sample, Splitting("bpe", pattern=pattern))
    return _saved(tokenizers, tmp_path_factory.mktemp("patterns"))


def _trained(sample, **options):
    from hf_sgpe import TrainingConfig, WordCounts, train_from_counts

    config = TrainingConfig(**options)
    return train_from_counts(WordCounts.from_texts(sample.values(), config), config)


def _extended(sample, splitting):
    """A tokenizer of English, with the special tokens in between, extended by two scripts."""
    from hf_sgpe import BPETokenizer, ExtensionConfig, WordCounts
    from hf_sgpe.learning.extension.extending import extend_from_counts

    english = BPETokenizer.train_from_iterator([sample["en"]], 900, pattern="llama3")
    ids = {"<|endoftext|>": 900, "<|im_end|>": 950}
    base = BPETokenizer(english.vocab, english.merges, splitting=splitting, special_tokens=ids)
    config = ExtensionConfig(["sinhala", "devanagari"], new_tokens=2000)
    counts = WordCounts.from_texts([sample["si"], sample["hi"]], config.splitting_for(base))
    return BPETokenizer.of(extend_from_counts(base.data, counts, config).tokenizer)


def _saved(tokenizers, place: Path) -> dict[str, Path]:
    for name, tokenizer in tokenizers.items():
        tokenizer.save(place / name)
    return {name: place / name for name in tokenizers}


@pytest.fixture(scope="session")
def expected():
    """Gives ids by this package's kernel, offsets and decoded text: what everybody should get for a folder and texts."""
    from hf_sgpe import BPETokenizer, SGPETokenizerFast

    def rows(folder: Path, texts: list[str]) -> Iterator[list]:
        fast = SGPETokenizerFast.from_pretrained(folder)
        decode = BPETokenizer.from_pretrained(folder).decode
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            offsets = fast(batch, return_offsets_mapping=True)["offset_mapping"]
            for ids, spans in zip(fast(batch)["input_ids"], offsets, strict=True):
                yield [ids, [list(span) for span in spans], decode(ids)]

    return rows
