"""Tokenizers and models that several files of tests look at.

``tokenizer_folders`` holds the folder of a tokenizer, ``old``, of one
that was ``extended`` from it, and of one that has tokens of its ``own``; ``extended`` is a small model for the first two.
"""

from __future__ import annotations

import pytest

from hf_sgpe import SGPETokenizerFast
from trainers import ExtensionConfig, TokenizerExtender, TokenizerTrainer, TrainingConfig


@pytest.fixture(scope="session")
def tokenizer_folders(tmp_path_factory, sample):
    folder = tmp_path_factory.mktemp("tokenizers")
    special = ("<|endoftext|>",)
    english = TrainingConfig(500, "bpe", pattern="gpt2", special_tokens=special, normalization="none")
    TokenizerTrainer(english).train(iterator=[sample["en"][:20_000]]).save_pretrained(folder / "old")
    config = ExtensionConfig(scripts=["sinhala"], new_tokens=100)
    TokenizerExtender(config).extend(folder / "old", text=sample["si"][:20_000]).save_pretrained(folder / "extended")
    own = TrainingConfig(1200, "hybrid", ("sinhala",), special_tokens=("<|pad|>", *special))
    TokenizerTrainer(own).train(iterator=[sample["si"][:20_000], sample["en"][5_000:20_000]]).save_pretrained(folder / "own")
    return folder


@pytest.fixture(scope="session")
def extended(tokenizer_folders, tmp_path_factory):
    """A small model with its own rows for an extended tokenizer, both tokenizers, and the ids of the new tokens."""
    from support.small_models import saved_model  # needs PyTorch

    folder = saved_model("smollm", tokenizer_folders / "old", tmp_path_factory.mktemp("models") / "model")
    return folder, *(SGPETokenizerFast.from_pretrained(tokenizer_folders / name) for name in ("extended", "old"))
