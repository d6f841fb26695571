import pytest
from support.small_tokenizers import SPECIALS

from hf_sgpe import BPETokenizer


@pytest.fixture(scope="session")
def plain(sample):
    return BPETokenizer.train_from_iterator(sample.values(), 2000, special_tokens=SPECIALS)
