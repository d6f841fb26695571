import json

import pytest
from support.corpora import data_file

from hf_sgpe import SGPETokenizerFast
from hf_sgpe.vocabulary.byte_strings import string_to_bytes
from trainers import SGPEError, TokenizerTrainer, TrainingConfig, train_bpe

pytestmark = pytest.mark.kernels


@pytest.mark.data
def test_train_bpe_gives_the_reference_merges_and_vocabulary():
    folder = data_file("suites/cs336")
    vocab, merges = train_bpe(folder / "corpus.en", 500, ["<|endoftext|>"])
    lines = (folder / "train-bpe-reference-merges.txt").read_text(encoding="utf-8").splitlines()
    assert merges == [tuple(map(string_to_bytes, line.split(" "))) for line in lines]
    names = json.loads((folder / "train-bpe-reference-vocab.json").read_text(encoding="utf-8"))
    tokens = {name.encode() if name == "<|endoftext|>" else string_to_bytes(name) for name in names}
    assert set(vocab.values()) == tokens


def test_train_bpe_by_the_worked_example(tmp_path):
    path = tmp_path / "corpus"
    path.write_text("low low low low low lower lower widest widest widest newest newest newest newest newest newest")
    _, merges = train_bpe(path, 256 + 6)
    assert [b" ".join(merge) for merge in merges] == [b"s t", b"e st", b"o w", b"l ow", b"w est", b"n e"]


@pytest.mark.parametrize("special", ["a", "|", "\n", " ", "ø", "Ġ", "ක", "Fuß", "<|end|>"])
def test_train_bpe_takes_any_special_token(special, tmp_path):
    """Its vocabulary is bytes by their ids, so a special token and a byte may be spelled alike."""
    path = tmp_path / "corpus"
    path.write_text(special.join(["low low", "lower<|0|>lower", special, "low"] * 9), encoding="utf-8", newline="")
    vocab, merges = train_bpe(path, 262, [special, "<|1|>"])
    assert {id: vocab[id] for id in range(256)} == {id: bytes([id]) for id in range(256)}
    assert (vocab[256], vocab[257]) == (special.encode(), b"<|1|>")
    assert [vocab[id] for id in range(258, 262)] == [left + right for left, right in merges]
    assert not any(special.encode() in left + right for left, right in merges)


def test_train_bpe_on_bad_input(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(SGPEError, match="corpus is empty"):
        train_bpe(tmp_path / "empty", 300)
    with pytest.raises(FileNotFoundError):
        train_bpe(tmp_path / "nowhere", 300)
    with pytest.raises(SGPEError, match="at least 258"):
        train_bpe(tmp_path / "empty", 257, ["<a>", "<b>"])
    for specials, message in (([""], "cannot be empty"), (["a", "a"], "'a' occurs twice"), ([5], "must be strings, not 5")):
        with pytest.raises(SGPEError, match=message):
            train_bpe(tmp_path / "empty", 300, specials)


def test_files_and_iterator_give_the_same_tokenizer(tmp_path, sample, config, tokenizer):
    trainer = TokenizerTrainer(config)
    for name, text in sample.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    by_files = trainer.train(files=[tmp_path])
    by_path = trainer.train(files=tmp_path)
    by_iterator = trainer.train(iterator=iter(sample.values()))
    assert type(by_files) is SGPETokenizerFast
    assert by_files.get_vocab() == by_path.get_vocab() == by_iterator.get_vocab() == tokenizer.get_vocab()


def test_progress_of_merging(sample, config, capsys):
    trainer = TokenizerTrainer(config, progress=True)
    trainer.learn(trainer.count(iterator=sample.values()))
    assert "Merging" in capsys.readouterr().err


def test_wrong_sources_and_an_empty_corpus_are_refused(config):
    for arguments in ({}, {"files": ["a"], "iterator": ["b"]}, {"iterator": ["a"], "text": "b"}):
        with pytest.raises(SGPEError, match="exactly one source"):
            TokenizerTrainer(config).train(**arguments)
    with pytest.raises(SGPEError, match="corpus is empty"):
        TokenizerTrainer(TrainingConfig(vocab_size=999)).train(iterator=[])
