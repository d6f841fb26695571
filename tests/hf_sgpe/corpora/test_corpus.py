import pytest

from hf_sgpe.corpora.held_out import HeldOut
from trainers import (
    Corpus,
    SGPEError,
    TokenizerTrainer,
    TrainingConfig,
    WordCounts,
    count_files,
    find_files,
    tokenize_corpus,
)

CONFIG = TrainingConfig(vocab_size=300, recipe="bpe", pattern="gpt2")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("one two\nthree\n", encoding="utf-8")
    (tmp_path / "b/a.txt").write_text("four\n", encoding="utf-8")
    (tmp_path / "b/c.jsonl").write_text('{"body": "five\\nsix"}\n', encoding="utf-8")
    return find_files([tmp_path])


def test_a_corpus_has_exactly_one_source(files):
    for arguments in ({}, {"files": "a", "text": "b"}, {"counts": ["a"], "iterator": ["b"]}, {"iterator": [], "text": ""}):
        with pytest.raises(SGPEError, match="exactly one source of text"):
            Corpus.of(**arguments)
    assert Corpus.of(files) == Corpus(tuple(files))
    assert Corpus.of(str(files[0])) == Corpus((files[0],))
    assert Corpus.of(text="one") == Corpus(streams=(["one"],))


def test_weights_are_by_path_before_name_and_glob(files):
    corpus = Corpus(tuple(files), weights={"a.*": 2, "*.jsonl": 3, str(files[0]): 4})
    assert [corpus.weight_of(file) for file in files] == [4, 2, 3]
    assert Corpus(tuple(files)).weight_of(files[0]) == 1
    with pytest.raises(SGPEError, match="weights: 'd'"):
        Corpus(tuple(files), weights={"d": 2})
    with pytest.raises(SGPEError, match=r"weights\['a\.txt'\]"):
        Corpus(tuple(files), weights={"a.txt": -1})


def test_a_corpus_can_replace_files_in_every_function(files, tmp_path):
    trainer = TokenizerTrainer(CONFIG)
    trainer.count(files=files[:2]).save(tmp_path / "counts.parquet")
    corpus = Corpus(tuple(files[:2]), ([" five"],), weights={files[0].name: 2})
    counts = trainer.count(files=corpus, counts=[tmp_path / "counts.parquet"])
    once = trainer.count(files=files[:2])
    assert counts == once * 3 + WordCounts.from_texts([" five"], CONFIG)
    assert count_files(files[:2], CONFIG) == once
    weighted = TrainingConfig(vocab_size=300, recipe="bpe", pattern="gpt2", weights={"a.txt": 5})
    assert TokenizerTrainer(weighted).count(files=Corpus(tuple(files[:2]))) == once * 5


def test_only_files_are_tokenized(tmp_path):
    with pytest.raises(SGPEError, match="only files can be tokenized"):
        tokenize_corpus(Corpus(streams=(["one"],)), "tokenizer", tmp_path / "out")


def test_parts_are_called_by_their_names_where_these_differ(files):
    corpus = Corpus(tuple(files), text_field="body")
    assert corpus.parts() == {str(file): Corpus((file,), text_field="body") for file in files}
    some = Corpus(tuple(files[1:2]), counts=(files[2],), weights={"a.txt": 2})
    assert some.parts() == {"a.txt": Corpus((files[1],)), "c.jsonl": Corpus(counts=(files[2],))}


def test_a_corpus_gives_its_texts_lines_beginning_and_size(files):
    corpus = Corpus(tuple(files), (["seven"], iter(["once"])), text_field="body")
    texts = "one two\nthree\nfour\nfive\nsix"
    assert "".join(corpus.read_texts()) == texts
    assert list(corpus.read_lines()) == ["one two", "three", "four", "five", "six"]
    assert "".join(corpus.beginning()) == "".join(corpus.beginning()) == f"{texts}seven"
    assert corpus.size == sum(file.stat().st_size for file in files) == sum(source["bytes"] for source in corpus.sources)
    with pytest.raises(SGPEError, match=r"--out .*a\.txt is part of the corpus"):
        corpus.check_apart_from(files[0])
    corpus.check_apart_from(files[0].with_name("other.txt"))
    assert hash(Corpus(tuple(files))) == hash(Corpus.of(files))
    assert type(HeldOut.of(files)) is HeldOut
