import pytest
from support.conversations import ENDS, TEMPLATES_TOKENS

from hf_sgpe import BPETokenizer


@pytest.fixture(scope="session")
def chatty(sample):
    return BPETokenizer.train_from_iterator(sample.values(), 600, special_tokens=[*TEMPLATES_TOKENS, *ENDS])
