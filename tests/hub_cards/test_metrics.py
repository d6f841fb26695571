import json

import pytest
from support.data import DATA, needs_data
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.formats import gpt2_files
from hub_cards import evaluate, load_measurable


def ends_at(*ends):
    return lambda text: list(ends)


def test_measures_by_hand():
    # " ක්‍රි" is one syllable of one letter: ක ් ZWJ ර ි, 15 bytes; "න්ද" one of two letters, 9 bytes.
    text = "ක්‍රි න්ද x"
    assert len(text.encode()) == 15 + 1 + 9 + 1 + 1
    whole = evaluate(ends_at(15, 25, 27), [text])
    assert (whole.words, whole.tokens, whole.syllables, whole.letters) == (3, 3, 2, 3)
    assert (whole.cut_syllables, whole.cut_letters) == (0, 0)
    assert whole.tokens_per_word == 1
    assert whole.bytes_per_token == 9
    between_letters = evaluate(ends_at(15, 22, 25, 27), [text])
    assert (between_letters.cut_syllables, between_letters.cut_letters) == (1, 0)
    inside_a_letter = evaluate(ends_at(6, 16, 27), [text])
    assert (inside_a_letter.cut_syllables, inside_a_letter.cut_letters) == (1, 1)
    inside_a_character = evaluate(ends_at(1, 15, 27), [text])
    assert (inside_a_character.cut_syllables, inside_a_character.cut_letters) == (1, 1)


def test_nothing_to_measure_is_none():
    result = evaluate(ends_at(1), ["x"])
    assert result.cut_syllable_share is None
    assert json.loads(json.dumps(result.to_dict()))["cut_letter_share"] is None
    assert evaluate(ends_at(), []).tokens_per_word is None


@pytest.fixture(scope="module")
def as_foreign(saved, tmp_path_factory):
    """The same tokenizer in a shape that only the tokenizers library reads."""
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    content["pre_tokenizer"]["pretokenizers"].insert(
        0, {"type": "Split", "pattern": {"String": "\0"}, "behavior": "Isolated", "invert": False}
    )
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_byte_level_and_offsets_measure_alike(saved, as_foreign, sample):
    for text in sample.values():
        lines = [line.replace("\u0958", "") for line in text.splitlines()]
        assert evaluate(load_measurable(saved), lines) == evaluate(load_measurable(as_foreign), lines)


@needs_data
def test_a_tokenizer_that_cuts_characters_measures_alike_in_both_ways(tmp_path):
    suite = DATA / "suites" / "cs336"
    gpt2 = gpt2_files.read(
        suite / "gpt2_vocab.json", suite / "gpt2_merges.txt", pattern="gpt2", special_tokens=["<|endoftext|>"]
    )
    gpt2.save(tmp_path)
    lines = (DATA / "eval" / "ntrex_si.txt").read_text(encoding="utf-8").splitlines()[:200]
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


@needs_data
def test_a_trained_tokenizer_cuts_less_than_a_plain_one(tmp_path):
    from support.data import corpus

    from hf_sgpe import TrainingConfig, WordCounts, train_from_counts

    lines = (DATA / "eval" / "ntrex_si.txt").read_text(encoding="utf-8").splitlines()[:300]
    shares = {}
    for recipe in ("hybrid", "bpe"):
        config = TrainingConfig(vocab_size=8000, recipe=recipe)
        tokenizer = train_from_counts(WordCounts.from_texts([corpus("si", 1_000_000)], config), config)
        tokenizer.save(tmp_path / recipe)
        assert isinstance(tokenizer, BPETokenizer)
        result = evaluate(load_measurable(tmp_path / recipe), lines)
        shares[recipe] = (result.cut_syllable_share, result.cut_letter_share, result.tokens_per_word)
    assert shares["hybrid"][0] < 0.03
    assert shares["hybrid"][1] < 0.005
    assert all(hybrid < plain for hybrid, plain in zip(shares["hybrid"], shares["bpe"], strict=True))
