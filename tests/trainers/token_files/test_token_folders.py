import json
import shutil

import numpy as np
import pytest

from hf_sgpe import BPETokenizer
from hf_sgpe.corpora.validation_part import is_for_validation
from trainers import SGPEError, TokenizerTrainer, TrainingConfig, tokenize_corpus
from trainers.token_files.layouts import TOKEN_FORMATS, FlatFile, TokenFormat, add_token_format
from trainers.token_files.token_folders import TokenRows, split_corpus

FORMATS = ["nanogpt", "megatron", "datatrove", "parquet"]


@pytest.fixture(scope="module")
def documents(sample):
    return [line for line in (*sample["si"].splitlines()[:40], *sample["en"].splitlines()[:40]) if line]


@pytest.fixture(scope="module")
def corpus(documents, tmp_path_factory):
    file = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    file.write_text("\n".join(documents), encoding="utf-8")
    return file


def flat(folder, separator):
    return np.concatenate(list(folder.pieces(separator))).tolist()


@pytest.mark.parametrize(
    ("form", "end_token"), [*((form, True) for form in FORMATS), *((form, False) for form in FORMATS if form != "nanogpt")]
)
@pytest.mark.parametrize("begins", [False, True])
def test_the_tokens_are_those_of_packed_texts(form, end_token, begins, corpus, documents, sample, tmp_path, monkeypatch):
    monkeypatch.setattr("trainers.token_files.layouts._ROW_GROUP_TOKENS", 300)
    how = {"special_tokens": ("<|endoftext|>", "<|begin|>"), "bos_token": "<|begin|>"} if begins else {}
    config = TrainingConfig(600, "bpe", add_bos_token=begins, **how)
    fast = TokenizerTrainer(config).train(iterator=[sample["si"][:20_000], sample["en"][:20_000]])
    fast.save_pretrained(tmp_path / "tokenizer")
    tokenizer = BPETokenizer.from_pretrained(tmp_path / "tokenizer")
    out = tmp_path / "tokens"
    done = tokenize_corpus(corpus, tokenizer, out, format=form, end_token=end_token, lines=True, shard_tokens=700)
    assert done.shards > 2
    ((folder,), others) = split_corpus([str(out)])
    assert others == []
    folder.check_tokenizer(tokenizer)
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    start = [eos, bos] if begins else [eos]
    expected = [id for text in documents for id in (*start, *tokenizer.encode(text))]
    assert flat(folder, eos)[: len(expected)] == expected
    assert flat(folder, eos)[len(expected) :] == [eos]  # after the last document
    assert list(folder.texts(tokenizer)) == documents
    assert folder.documents == len(documents)
    rows = TokenRows(folder.pieces(eos), 64)
    assert [row.tolist() for row in rows] == [expected[first : first + 64] for first in range(0, len(rows) * 64, 64)]
    assert len(rows) == (len(expected) + 1) // 64
    for wrong in (-1, len(rows)):
        with pytest.raises(IndexError):
            rows[wrong]


def test_a_shard_or_a_glob_of_shards_can_be_named(corpus, tokenizer, tmp_path):
    out = tmp_path / "tokens"
    tokenize_corpus(corpus, tokenizer, out, format="datatrove", lines=True, shard_tokens=300)
    ((whole,), _) = split_corpus([str(out)])
    others = [str(corpus), "nowhere.txt"]
    (one, some), rest = split_corpus([str(out / "00000-00001.ds"), str(out / "00000-0000[01].*"), *others])
    assert [shard.name for shard in one.shards] == ["00000-00001"]
    assert some.shards == whole.shards[:2]
    assert rest == others
    (out / "notes.txt").touch()
    with pytest.raises(SGPEError, match=r"notes\.txt is not a shard of "):
        split_corpus([str(out / "notes.txt")])


@pytest.mark.parametrize("form", FORMATS)
def test_a_validation_part_has_the_documents_that_their_hash_chooses(form, corpus, documents, tokenizer, tmp_path):
    out = tmp_path / "tokens"
    done = tokenize_corpus(corpus, tokenizer, out, format=form, lines=True, validation_share=0.25)
    ((folder,), _) = split_corpus([str(out)])
    chosen = [text for text in documents if is_for_validation(text, 0.25)]
    assert 0 < len(chosen) < len(documents)
    assert list(folder.validation.texts(tokenizer)) == chosen
    assert list(folder.texts(tokenizer)) == [text for text in documents if text not in chosen]
    assert (done.documents, done.validation.documents) == (len(documents) - len(chosen), len(chosen))
    again = tokenize_corpus(corpus, tokenizer, out, format=form, lines=True, validation_share=0.25)
    assert again.new_text_bytes == again.validation.new_text_bytes == 0
    with pytest.raises(SGPEError, match=r"0\.25, .* 0\.5"):
        tokenize_corpus(corpus, tokenizer, out, format=form, lines=True, validation_share=0.5)
    with pytest.raises(SGPEError, match="has other files"):
        tokenize_corpus(corpus, tokenizer, out, format=form, lines=True)


def test_few_documents_for_validation_leave_nothing(corpus, tokenizer, tmp_path):
    with pytest.raises(SGPEError, match=r"--lines"):
        tokenize_corpus(corpus, tokenizer, tmp_path / "tokens", validation_share=1e-6)
    assert not (tmp_path / "tokens").exists()
    tokenize_corpus(corpus, tokenizer, tmp_path / "tokens")
    with pytest.raises(SGPEError, match="has tokens without a validation part"):
        tokenize_corpus(corpus, tokenizer, tmp_path / "tokens", validation_share=0.1)


def test_damaged_and_foreign_folders_are_refused(corpus, tokenizer, sample, tmp_path):
    out = tmp_path / "tokens"
    tokenize_corpus(corpus, tokenizer, out, lines=True, shard_tokens=300)
    ((folder,), _) = split_corpus([str(out)])
    other = BPETokenizer.train_from_iterator([sample["en"]], 300, special_tokens=["<|endoftext|>"])
    with pytest.raises(SGPEError, match="has the ids of another tokenizer"):
        folder.check_tokenizer(other)

    broken = shutil.copytree(out, tmp_path / "broken")
    (broken / "00000-00001.bin").write_bytes(b"")
    with pytest.raises(SGPEError, match=r"00000-00001\.bin"):
        split_corpus([str(broken)])
    manifest = json.loads((broken / "manifest.json").read_text())
    (broken / "manifest.json").write_text(json.dumps(manifest | {"complete": False}))
    with pytest.raises(SGPEError, match="incomplete"):
        split_corpus([str(broken)])
    (broken / "manifest.json").write_text('{"of": "another program"}')
    assert split_corpus([str(broken)]) == ([], [str(broken)])


def test_a_format_without_a_reader_is_refused(corpus, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("trainers.token_files.layouts.TOKEN_FORMATS", TOKEN_FORMATS)
    add_token_format(TokenFormat("own", (".bin",), "own", FlatFile, keeps_ends=False))
    try:
        tokenize_corpus(corpus, tokenizer, tmp_path / "tokens", format="own")
        ((folder,), _) = split_corpus([str(tmp_path / "tokens")])
        with pytest.raises(SGPEError, match="format own"):
            list(folder.pieces(0))
    finally:
        del TOKEN_FORMATS["own"]
