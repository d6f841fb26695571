"""Fixtures of several folders: `chatty`, a tokenizer with a chat template."""

import pytest

from hf_sgpe import TrainingConfig, WordCounts, train_from_counts


@pytest.fixture(scope="session")
def chatty(sample):
    config = TrainingConfig(vocab_size=900, recipe="bpe", special_tokens=("<|endoftext|>",), chat_template="chatml")
    return train_from_counts(WordCounts.from_texts([sample["si"]], config), config)
