"""Tokenizers of every kind, in the form in which they are measured."""

import json

import pytest
from support.corpora import held_out
from support.fetched import gpt2
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast
from hf_sgpe.evaluation.measurable import measurable
from hub_cards import compare, evaluate, load_measurable


@pytest.fixture(scope="module")
def as_foreign(saved, tmp_path_factory):
    """A copy of the tokenizer that only the tokenizers library can read."""
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    content["pre_tokenizer"]["pretokenizers"].insert(
        0, {"type": "Split", "pattern": {"String": "\0"}, "behavior": "Isolated", "invert": False}
    )
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_byte_level_and_offsets_measure_alike(saved, as_foreign, sample):
    for text in sample.values():
        lines = [line.replace("\u0958", "") for line in text.splitlines()[:60]]
        assert evaluate(load_measurable(saved), lines) == evaluate(load_measurable(as_foreign), lines)


def test_tokenizers_of_transformers_are_measured_right_or_refused(saved, sample):
    lines = sample["si"].splitlines()[:20]
    fast = SGPETokenizerFast.from_pretrained(saved)
    assert evaluate(fast, lines) == evaluate(BPETokenizer.from_pretrained(saved), lines)
    ours, other = compare(fast, {"si": lines}, baselines={"other": fast}).evaluations["si"].values()
    assert ours == other == evaluate(fast, lines)
    with pytest.raises(SGPEError, match="cannot be measured"):
        evaluate(AutoTokenizer.from_pretrained(saved), lines)


def test_a_tokenizer_that_cuts_characters_measures_alike_in_both_ways(tmp_path):
    gpt2().save(tmp_path)
    lines = held_out("si", 40)
    ours = evaluate(load_measurable(tmp_path), lines)
    content = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    content["normalizer"] = {"type": "Replace", "pattern": {"String": "\0"}, "content": ""}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    assert evaluate(load_measurable(tmp_path), lines) == ours
    assert ours.cut_syllable_share == 1
    assert ours.cut_letter_share == 1


def test_a_tokenizer_of_another_kind(tmp_path):
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "ක": 1, "##්": 2, "##‍": 3, "##ර": 4}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    result = evaluate(load_measurable(tmp_path / "tokenizer.json"), ["ක්‍ර ක"])
    assert (result.tokens, result.syllables, result.cut_syllables, result.cut_letters) == (5, 2, 1, 1)


def test_a_line_without_tokens(as_foreign):
    assert evaluate(load_measurable(as_foreign), [""]).tokens == 0


def test_bad_tokenizers_are_named(tmp_path):
    with pytest.raises(SGPEError, match="no such file or folder"):
        load_measurable(tmp_path / "nowhere")
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Nonsense"}}')
    with pytest.raises(SGPEError, match=r"tokenizer\.json"):
        load_measurable(tmp_path)


def test_added_tokens_that_are_not_special_are_measured():
    vocab = {bytes([byte]): byte for byte in range(256)}
    tokenizer = BPETokenizer(vocab, [], added_tokens={"<think>": 256})
    assert measurable(tokenizer).encode("a<think>") == ([97, 256], [1, 8])
