"""A folder with texts and tokenizers for benchmarks, and what the tests ask of bad input."""

from functools import partial

import pytest
from support.command import benchmark, check_refusal

from trainers import TokenizerTrainer, TrainingConfig


@pytest.fixture(scope="session")
def folder(tmp_path_factory, sample):
    """A folder with texts in Sinhala and English, and the tokenizers ``bare`` and ``padding``."""
    folder = tmp_path_factory.mktemp("benchmarks")
    texts = {"si.txt": sample["si"], "held out.txt": sample["si"][:2000]}
    texts |= {f"30-{code}.txt": "\n".join(sample[code].splitlines()[:30]) + "\n" for code in ("si", "en")}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, options in {"bare": {"special_tokens": ("<|endoftext|>",)}, "padding": {"pad_token": "<|pad|>"}}.items():
        trainer = TokenizerTrainer(TrainingConfig(600, "bpe", **options))
        trainer.train(iterator=[sample["si"][:20_000], sample["en"][:20_000]]).save_pretrained(folder / name)
    return folder


@pytest.fixture
def refused(folder):
    return partial(check_refusal, benchmark, folder)
