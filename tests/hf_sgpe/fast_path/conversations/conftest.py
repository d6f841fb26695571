"""One tokenizer by this package and by transformers, for all tests of conversations."""

import pytest
from support.conversations import IS_NEWEST, saved_tokenizer
from transformers import AutoTokenizer

from hf_sgpe import SGPETokenizerFast
from hf_sgpe.chat.templates import plain
from hf_sgpe.fast_path import conversations


@pytest.fixture(scope="session")
def folder(sample, tmp_path_factory):
    """A tokenizer with the special tokens of every style, and others that are not special."""
    return saved_tokenizer(tmp_path_factory.mktemp("chat") / "saved", sample)


@pytest.fixture(scope="module")
def ours(folder):
    """It, by this package."""
    return SGPETokenizerFast.from_pretrained(folder)


@pytest.fixture(scope="module")
def theirs(folder):
    """It, by transformers alone, which is given prepared conversations where it is older."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert type(tokenizer).__name__ == "TokenizersBackend"
    if not IS_NEWEST:
        apply = tokenizer.apply_chat_template

        def apply_to_prepared(conversation, **options):
            options = {name: value if name == "tools" else plain(value) for name, value in options.items()}
            return apply(conversations.prepared(conversation), **options)

        tokenizer.apply_chat_template = apply_to_prepared
    return tokenizer
