from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from support.data import DATA
from support.ecosystems import TRANSFORMERS_4, ask, ask_node, needs_node, needs_transformers_4
from support.stranger import BATCH, digest
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

    @settings(max_examples=300, derandomize=True, database=None)
    @given(texts)
    def draw(text: str) -> None:
        drawn.append(text)

    draw()
    return TELLING + drawn


@pytest.fixture(scope="session")
def folders(sample, tmp_path_factory) -> dict[str, Path]:
    """A saved tokenizer of each recipe: one with padding and a chat template, one plain, one with [CLS] and [SEP]."""
    from hf_sgpe.chat.templates import load_template

    tokenizers = {
        "hybrid": _trained(sample, vocab_size=4000, scripts=SCRIPTS, special_tokens=CHAT),
        "bpe": _trained(sample, vocab_size=2000, recipe="bpe", pattern="gpt2"),
        "sgpe": _trained(sample, vocab_size=3000, recipe="sgpe", scripts=SCRIPTS),
    }
    tokenizers["hybrid"].chat_template = load_template("chatml")
    return _saved(tokenizers, tmp_path_factory.mktemp("recipes"))


@pytest.fixture(scope="session")
def folders_by_pattern(sample, tmp_path_factory) -> dict[str, Path]:
    """A saved tokenizer for each split pattern and each recipe that has one."""
    from hf_sgpe import SPLIT_PATTERNS

    tokenizers = {}
    for pattern in SPLIT_PATTERNS:
        tokenizers[f"hybrid with {pattern}"] = _trained(sample, vocab_size=3500, scripts=SCRIPTS, pattern=pattern)
        tokenizers[f"bpe with {pattern}"] = _trained(sample, vocab_size=1000, recipe="bpe", pattern=pattern)
    return _saved(tokenizers, tmp_path_factory.mktemp("patterns"))


def _trained(sample, **options):
    from hf_sgpe import TrainingConfig, WordCounts, train_from_counts

    config = TrainingConfig(**options)
    return train_from_counts(WordCounts.from_texts(sample.values(), config), config)


def _saved(tokenizers, place: Path) -> dict[str, Path]:
    for name, tokenizer in tokenizers.items():
        tokenizer.save(place / name)
    return {name: place / name for name in tokenizers}


@pytest.fixture(scope="session")
def lines() -> dict[str, list[str]]:
    """The real lines that each of `folders` is tried on: all with the default recipe, every tenth with the others."""
    files = sorted((DATA / "eval").glob("*.txt"))
    every = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(every) > 30_000
    return {"hybrid": every, "bpe": every[::10], "sgpe": every[::10]}


@pytest.fixture(scope="session")
def answers_on_lines(folders, lines) -> dict[str, Future]:
    """Ecosystem → the digests of what each of `folders` gives there. They all work while the first test waits."""
    questions = [{"ask": "encode", "folder": folders[name], "texts": lines[name], "short": True} for name in folders]
    with ThreadPoolExecutor(2) as pool:
        answers = {sys.executable: pool.submit(ask, sys.executable, *questions)}
        if not needs_transformers_4.args[0]:
            answers[TRANSFORMERS_4] = pool.submit(ask, TRANSFORMERS_4, *questions)
        if not needs_node.args[0]:
            answers["node"] = pool.submit(ask_node, *questions)
        yield answers


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


@pytest.fixture(scope="session")
def expected_on_lines(answers_on_lines, folders, lines, expected) -> dict[str, list[tuple[str, str]]]:
    """For each of `folders`, two digests a line: with offsets and without."""
    return {
        name: [
            (digest([ids, spans, text]), digest([ids, text])) for ids, spans, text in expected(folders[name], lines[name])
        ]
        for name in folders
    }
