"""Tokenizers of speech models, whose last ids are times."""

import pytest

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from trainers import extend


@pytest.fixture(scope="module")
def whisper(sample, tmp_path_factory):
    """A tokenizer with tokens for Hindi, and with times after the last ordinary token."""
    folder = tmp_path_factory.mktemp("whisper")
    tokenizer = BPETokenizer.train_from_iterator([sample["en"], sample["hi"]], 1500, pattern="o200k")
    first = tokenizer.vocab_size
    times = {f"<|{number / 50:.2f}|>": first + 1 + number for number in range(20)}
    BPETokenizer.of(tokenizer.data.with_special_tokens({"<|endoftext|>": first, **times})).save(folder)
    return folder


def test_no_new_token_gets_an_id_that_the_model_reads_as_a_time(whisper, sinhala_file, tmp_path):
    with pytest.raises(SGPEError, match=r"reads each id from \d+ \(<\|0\.00\|>\) on as a time"):
        extend(whisper, sinhala_file, tmp_path / "out", script=["si"], new_tokens=300)
    assert not (tmp_path / "out").exists()


def test_the_ids_of_another_script_are_used_instead(whisper, sinhala_file, tmp_path):
    before = TokenizerFolder.read(whisper).data
    freed = before.vocab_size - TokenizerFolder.read(whisper).trimmed(["devanagari"])[0].data.vocab_size
    assert freed > 150
    done = extend(whisper, sinhala_file, tmp_path / "out", script=["si"], replace_script=["devanagari"], new_tokens=150)
    data = TokenizerFolder.read(tmp_path / "out").data
    assert done.extension.new_tokens == 150
    assert max(data.vocab.values()) < before.special_tokens["<|0.00|>"]
    assert data.special_tokens == before.special_tokens
